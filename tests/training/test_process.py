"""The process that trains for the Trainer: what it reports is passed on, and how it ends decides what is raised."""

from pathlib import Path

import pytest

from components import helper_process, progress
from components.errors import Cancelled, NotFinite, PenstockError
from components.progress import Progress
from components.training import process


def run(program: str, *arguments: str) -> None:
    """Runs a program as the training process."""
    process.run(helper_process.command(program, *arguments))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the user sees."""
    seen: list[object] = []
    monkeypatch.setattr(progress, "_listeners", [seen.append])
    monkeypatch.setattr(progress, "_say", [seen.append])
    monkeypatch.setattr(progress, "_warn", [seen.append])
    return seen


def test_reports_are_passed_on(shown: list[object]) -> None:
    """Progress, messages and warnings, in their order."""
    run("""print('{"progress": [5, 9, "loss 1"]}\\n{"message": "hello"}\\n{"warning": "careful"}')""")

    assert shown == [Progress(5, 9, "loss 1"), "hello", "careful"]


def test_its_error_is_raised() -> None:
    """With its class, so that the run has its exit code."""
    with pytest.raises(NotFinite, match="the loss became nan"):
        run("""print('{"error": ["NotFinite", "the loss became nan"]}'); sys.exit(8)""")


def test_another_error_is_named() -> None:
    """Of a library."""
    with pytest.raises(PenstockError, match="OpError: no such device"):
        run("""print('{"error": ["OpError", "no such device"]}'); sys.exit(1)""")


def test_a_killed_process_is_reported() -> None:
    """It could not report anything itself."""
    with pytest.raises(PenstockError, match="the training process was killed"):
        run("import os; os.kill(os.getpid(), 9)")


def test_the_signal_of_another_worker_ends_the_run() -> None:
    """All workers have written a checkpoint and end with 143; the message says where the next run continues."""
    with pytest.raises(Cancelled, match=r"^stopped by SIGTERM; saved at epoch 2, step 3; run again to continue$"):
        run("""print('{"cancelled": [15, "saved at epoch 2, step 3; run again to continue"]}'); sys.exit(143)""")
    with pytest.raises(Cancelled, match=r"^stopped by SIGTERM$"):
        run("sys.exit(143)")


def test_a_signal_leaves_time_for_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B2: Ctrl-C is passed on, the process is waited for, and the message says where the next run continues."""

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(progress, "_listeners", [interrupt])
    program = (
        "import pathlib, signal\n"
        "def save(*_):\n"
        "    pathlib.Path(sys.argv[1]).write_text('saved')\n"
        """    print('{"cancelled": [15, "saved at epoch 1, step 5; run again to continue"]}')\n"""
        "    sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        """print('{"progress": [1]}', flush=True)\n"""
        "sys.stdin.read(); sys.exit(1)"
    )
    with pytest.raises(Cancelled, match=r"^stopped by SIGINT; saved at epoch 1, step 5; run again to continue$"):
        run(program, str(tmp_path / "checkpoint"))

    assert (tmp_path / "checkpoint").read_text() == "saved"
