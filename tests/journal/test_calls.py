"""The calls of a run: written whole, one process at a time, without secrets; a killed one is recognised."""

import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from components.errors import BadInput, FlagError, Locked, PenstockError
from components.storage import durable
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.journal import calls
from pipelines.journal.calls import Call, Origin

PROJECT = Path(__file__).resolve().parents[2]
HOLD = """
import sys
from pipelines import config
from pipelines.journal import calls

chosen = config.make("image", data=".", root=sys.argv[1])
with calls.opened(chosen, calls.Origin("R")):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    """A pipeline in an empty root."""
    return run_config.make("image", data=str(tmp_path / "data"), root=str(tmp_path / "root"), flags=["train.epochs=2"])


def file_of(config: RunConfig, run: str = "R") -> Path:
    """Returns the file of a run."""
    return calls.folder_of(config.notes, config.name) / f"{run}.json"


def results(found: list[Call]) -> list[tuple[int, str, int | None, str]]:
    """Returns what ends a call."""
    return [(call.number, call.state, call.exit_code, call.reason) for call in found]


def test_calls_of_one_run_are_numbered(config: RunConfig) -> None:
    """Each keeps its result; the file is readable by its owner only."""
    for code in (4, 0):
        with calls.opened(config, Origin("R", ("run", "image"))) as call:
            call.end(code, f"ended {code}", version="3")

    found = calls.read(file_of(config))
    assert results(found) == [(1, "failed", 4, "ended 4"), (2, "succeeded", 0, "ended 0")]
    assert stat.S_IMODE(file_of(config).stat().st_mode) == 0o600
    expected = Call(
        run="R", number=2, started=found[1].started, pid=os.getpid(), host=found[1].host, pipeline="image",
        task="image", data=config.data, root=str(config.root), serving=str(config.serving),
        settings={"train": {"epochs": 2}}, command=("run", "image"), folder=str(Path.cwd()), state="succeeded",
        ended=found[1].ended, exit_code=0, reason="ended 0", version="3",
    )  # fmt: skip
    assert found[1] == expected


def test_a_call_that_has_not_ended_is_readable_and_held(config: RunConfig) -> None:
    """Until its block ends; then nobody holds it, and no lock is left."""
    with calls.opened(config, Origin("R")) as call:
        running = results(calls.read(file_of(config))), calls.is_held(file_of(config))
        call.end(0, "")

    assert running == ([(1, "running", None, "")], True)
    assert not calls.is_held(file_of(config))
    assert [path.name for path in file_of(config).parent.iterdir()] == ["R.json"]


@pytest.mark.parametrize(
    ("error", "state", "code", "reason"),
    [
        (BadInput("data x\x1b[2J: empty\nmore"), "failed", 4, "data x [2J: empty"),
        (KeyboardInterrupt(), "cancelled", 130, "KeyboardInterrupt"),
        (ValueError("password=hunter22"), "failed", 1, "password=***"),
    ],
)
def test_an_exception_ends_a_call(config: RunConfig, error: BaseException, state: str, code: int, reason: str) -> None:
    """With its exit code and the first line of its message, without secrets (D5)."""
    with pytest.raises(type(error)), calls.opened(config, Origin("R")):
        raise error

    assert results(calls.read(file_of(config))) == [(1, state, code, reason)]


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (5, "failed: new span s7: no records", "new span s7: no records"),
        (5, "gate stopped: drift:age", "drift:age"),
        (1, "failed: a fault\n  more", "a fault"),
        (0, "blessed and pushed as version 3", "blessed and pushed as version 3"),
    ],
)
def test_a_reason_does_not_repeat_the_state(code: int, text: str, expected: str) -> None:
    """The state is shown before it."""
    assert calls.reason_of(code, text) == expected


@pytest.mark.parametrize("error", [Locked("by another run"), FlagError("--from Trainer: Ingest has no output yet")])
def test_a_call_that_did_nothing_is_none(error: PenstockError, config: RunConfig) -> None:
    """The root is locked, or the flags are rejected; an earlier call of the run stays."""
    for run, before in (("R", 0), ("S", 1)):
        for number in range(before):
            with calls.opened(config, Origin(run)) as call:
                call.end(0, str(number))
        with pytest.raises(type(error)), calls.opened(config, Origin(run)):
            raise error

    assert not file_of(config).exists()
    assert results(calls.read(file_of(config, "S"))) == [(1, "succeeded", 0, "0")]


def test_a_run_has_one_call_at_a_time_and_a_killed_one_gives_way(config: RunConfig) -> None:
    """B7: a second process is turned away; once the first is killed, the next call goes on and cleans up after it."""
    command = [sys.executable, "-c", HOLD, str(config.root)]
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        held = calls.is_held(file_of(config))
        with pytest.raises(Locked, match="another process works on it"), calls.opened(config, Origin("R")):
            pass
        process.send_signal(signal.SIGKILL)
    durable.temporary_of(file_of(config)).touch()
    killed = calls.is_held(file_of(config)), results(calls.read(file_of(config)))
    with calls.opened(config, Origin("S")) as call:
        call.end(0, "")

    assert held
    assert killed == (False, [(1, "running", None, "")])
    assert sorted(path.name for path in file_of(config).parent.iterdir()) == ["R.json", "S.json"]


def test_secrets_are_not_written(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: neither those of flags, nor of the environment, nor of addresses."""
    monkeypatch.setenv("SOME_TOKEN", "tok-123456")
    command = ("run", "image", "--", "--s3_secret_access_key=abcdefgh", "tok-123456")
    leaking = replace(config, data="https://me:passw0rd@host/data?sig=qwertyui")
    with calls.opened(leaking, Origin("R", command)) as call:
        call.end(1, "tok-123456 was wrong")

    content = file_of(config).read_text()
    assert [secret for secret in ("tok-123456", "abcdefgh", "passw0rd", "qwertyui") if secret in content] == []
    assert calls.read(file_of(config))[0].reason == "*** was wrong"


@pytest.mark.parametrize("content", ["", "[1]", '[{"run": "R"}]', '{"a": 1}'])
def test_a_damaged_file_is_an_error_that_names_it(config: RunConfig, content: str) -> None:
    """It says what to do."""
    file_of(config).parent.mkdir(parents=True)
    file_of(config).write_text(content)

    with pytest.raises(PenstockError, match=r"R\.json: the record of a run cannot be read"):
        calls.read(file_of(config))
