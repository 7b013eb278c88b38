"""Promises B6 and B7: one run at a time per root, and a lock that ends with its holder."""

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path

import pytest

from components.errors import BadInput, Locked
from pipelines.orchestration.root import lock

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import pathlib, sys
from pipelines.orchestration.root import lock

print("ready", flush=True)
with lock.hold(pathlib.Path(sys.argv[1]), wait=True):
    print("held", flush=True)
    sys.stdin.read()
"""
Start = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that wait for the lock and hold it until their input is closed."""
    started: list[subprocess.Popen[str]] = []

    def begin(notes: Path) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(notes)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert line(process) == "ready"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def line(process: "subprocess.Popen[str]") -> str:
    """Returns the next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def prints_nothing(process: "subprocess.Popen[str]", seconds: float) -> bool:
    """Whether a process prints nothing for that long."""
    assert process.stdout is not None
    return not select.select([process.stdout], [], [], seconds)[0]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The folder of a root's lock."""
    return tmp_path / "root" / ".penstock"


def test_a_second_run_is_rejected_with_the_holder(notes: Path, start: Start) -> None:
    """Promise B6: it ends at once, with the holder's pid and start."""
    before = datetime.now(timezone.utc).replace(microsecond=0)
    holder = start(notes)
    assert line(holder) == "held"

    with pytest.raises(Locked) as locked, lock.hold(notes):
        pass

    found = re.fullmatch(
        rf"{re.escape(str(notes.parent))} is in use: by pid (\d+), started ([-\d]+ [:\d]+) UTC; "
        r"wait for it with --wait, or use another --root",
        str(locked.value),
    )
    assert found is not None
    assert int(found[1]) == holder.pid
    assert before <= datetime.fromisoformat(f"{found[2]}+00:00") <= datetime.now(timezone.utc)


def test_the_command_has_its_own_exit_code(notes: Path, start: Start, tmp_path: Path) -> None:
    """Promise B6: the exit code is 75, and only the message is printed."""
    holder = start(notes)
    assert line(holder) == "held"
    (tmp_path / "data" / "cats").mkdir(parents=True)
    (tmp_path / "data" / "cats" / "1.png").write_bytes(b"cat")
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", "run", "image"]
    ended = subprocess.run(
        [*command, "--root", str(notes.parent), "--data", str(tmp_path / "data")],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (75, "")
    assert ended.stderr.startswith(f"penstock: {notes.parent} is in use: by pid {holder.pid}, started ")


def test_a_waiting_run_continues_when_the_root_is_free(notes: Path, start: Start) -> None:
    """Promise B6: with --wait it does not fail, and does not run at the same time."""
    holder = start(notes)
    assert line(holder) == "held"
    waiting = start(notes)
    assert prints_nothing(waiting, seconds=0.3)

    holder.communicate("")

    assert line(waiting) == "held"


def test_a_killed_holder_frees_the_root_at_once(notes: Path, start: Start) -> None:
    """Promise B7: the files it left do not matter."""
    holder = start(notes)
    assert line(holder) == "held"
    holder.send_signal(signal.SIGKILL)
    holder.wait()

    with lock.hold(notes):
        assert (notes / "holder.json").exists()


def test_the_next_holder_is_named_after_a_killed_one(notes: Path, start: Start) -> None:
    """Promise B7: the dead holder's note is replaced."""
    first = start(notes)
    assert line(first) == "held"
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = start(notes)
    assert line(second) == "held"

    with pytest.raises(Locked, match=f"by pid {second.pid}, "), lock.hold(notes):
        pass


def test_a_waiting_run_continues_when_the_holder_is_killed(notes: Path, start: Start) -> None:
    """Promise B7: the kernel releases the lock of a dead process."""
    holder = start(notes)
    assert line(holder) == "held"
    waiting = start(notes)
    holder.send_signal(signal.SIGKILL)

    assert line(waiting) == "held"


def test_the_root_is_free_after_the_block(notes: Path) -> None:
    """The lock can be taken again, and no holder is named."""
    with lock.hold(notes):
        pass

    assert not (notes / "holder.json").exists()
    with lock.hold(notes):
        pass


def fail_while_holding(notes: Path) -> None:
    """Takes the lock and fails."""
    with lock.hold(notes):
        raise ValueError("stopped")


def test_the_root_is_free_after_a_failure(notes: Path) -> None:
    """An exception releases the lock and is raised to the caller."""
    with pytest.raises(ValueError, match="stopped"):
        fail_while_holding(notes)

    with lock.hold(notes):
        pass


def test_one_process_cannot_take_it_twice(notes: Path) -> None:
    """Two runs in one process exclude each other as well."""
    with lock.hold(notes), pytest.raises(Locked, match=f"by pid {os.getpid()}, "), lock.hold(notes):
        pass


def test_other_roots_are_free(notes: Path, tmp_path: Path) -> None:
    """Each root has its own lock."""
    with lock.hold(notes), lock.hold(tmp_path / "other" / ".penstock"):
        pass


def test_a_holder_without_a_note_is_described(notes: Path) -> None:
    """Between taking the lock and writing the note no pid is known."""
    with lock.hold(notes):
        (notes / "holder.json").write_bytes(b"")
        with pytest.raises(Locked, match="is in use: by a run that has just started; "), lock.hold(notes):
            pass


def test_a_root_that_is_no_folder_is_rejected(tmp_path: Path) -> None:
    """Promise B9: the message names the root and what to do."""
    (tmp_path / "root").write_bytes(b"")

    with pytest.raises(BadInput) as refused, lock.hold(tmp_path / "root" / ".penstock"):
        pass

    assert str(refused.value) == (
        f"pipeline root {tmp_path / 'root'}: cannot be written: Not a directory; choose another --root"
    )


@pytest.mark.parametrize("existing", [False, True])
def test_a_root_without_write_permission_is_rejected(
    existing: bool, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
) -> None:
    """Promise B9: before any data is read, for a new and for a used root."""
    if existing:
        (open_folder / ".penstock").mkdir()
    for folder in (open_folder, *open_folder.iterdir()):
        folder.chmod(0o555)
    with without_rights(), pytest.raises(BadInput) as refused, lock.hold(open_folder / ".penstock"):
        pass

    assert str(refused.value) == (
        f"pipeline root {open_folder}: cannot be written: Permission denied; choose another --root"
    )
