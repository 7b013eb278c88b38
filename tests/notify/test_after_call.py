"""What runs lead to: real journals, a real receiver, and the command itself."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from components.errors import BadInput, Cancelled, Locked, SettingsError
from pipelines import config as run_config
from pipelines.journal import calls
from pipelines.notify import after_call
from pipelines.watch import pipelines, status

PROJECT = Path(__file__).resolve().parents[2]
PENSTOCK = "from pipelines.cli import main; main()"
HELD = """
import sys
from pipelines import config
from pipelines.journal import calls

chosen = config.make("image", name="ants", data=".", root=sys.argv[1])
with calls.opened(chosen, calls.Origin("K")):
    print("held", flush=True)
    sys.stdin.read()
"""
SLOW = """
import sys
from components.errors import Cancelled
from pipelines import config
from pipelines.journal import calls
from pipelines.notify import after_call

flags = [f"notify.command=/bin/sh {sys.argv[2]}", "notify.timeout=600"]
chosen = config.make("image", name="ants", data=".", root=sys.argv[1], flags=flags)
try:
    with after_call.sent(chosen), calls.opened(chosen, calls.Origin("A")) as call:
        call.end(4, "data: empty")
except Cancelled as error:
    sys.exit(128 + error.signum)
"""
PUSHED = ({"id": "Trainer", "state": "ran"}, {"id": "Pusher", "state": "ran"})
TO_TRAINER = ({"id": "Trainer", "state": "ran"}, {"id": "Pusher", "state": "skipped"})


def shown(receiver: Any) -> list[str]:
    """Returns event, run and state of what arrived."""
    return [f"{each['event']} {each['run']} {each['state']}" for each in receiver.got]


def test_the_life_of_a_pipeline(hooked: Any, receiver: Any) -> None:
    """Each run is notified by what it changes, with all that a person needs to examine it."""
    (hooked.config.logs).mkdir(parents=True)
    (hooked.config.logs / "B.log").touch()
    hooked.call("A")
    hooked.call("B", 5, "gate stopped: too few records (expected at least 1) of: eight\n  table", span="2026-03-08")
    hooked.call("C", 5, "gate stopped: too few records (expected at least 1) of: eight")
    hooked.call("D", 0, "blessed and pushed as version 3", version="3", nodes=PUSHED)
    hooked.call("E", 0, state="nothing due")
    hooked.call("F", 3, "not blessed: accuracy is 0.5")
    hooked.call("G", 3, "not blessed: accuracy is 0.5")
    hooked.call("H", 9, "span 2026-03-09 is not there")
    hooked.call("I", 10, "left out")
    hooked.call("J", 143, "stopped by SIGTERM")

    assert shown(receiver) == [
        "failed B gate stopped", "recovered D succeeded", "pushed D succeeded", "not better F not blessed",
        "late H late",
    ]  # fmt: skip
    failed, recovered, pushed = receiver.got[:3]
    assert failed["reason"] == "too few records (expected at least 1) of: eight"
    assert (failed["span"], failed["exit_code"], failed["pipeline"]) == ("2026-03-08", 5, "ants")
    assert (failed["log"], failed["report"]) == (str(hooked.config.logs / "B.log"), "")
    assert recovered["recovered_from"] == failed["reason"]
    assert (pushed["version"], pushed["live_version"]) == ("3", None)


def test_an_older_run_that_is_resumed(hooked: Any, receiver: Any) -> None:
    """While the newest run still fails, as `penstock status` shows, nothing has recovered."""
    hooked.call("A", 9, "span 2026-03-08 is not there")
    hooked.call("B", 4, "data: empty")
    hooked.call("A")
    resumed = status.of(pipelines.of(hooked.config), after_call.utc_now()).health
    hooked.call("B")

    assert (resumed, shown(receiver)) == ("failing", ["late A late", "failed B failed", "recovered B succeeded"])


def test_one_node_per_command(hooked: Any, receiver: Any) -> None:
    """As Airflow calls it: the run has recovered when its last node has, not its first."""
    hooked.call("A", 4, "data: empty")
    hooked.call("B", 0, nodes=TO_TRAINER)
    hooked.call("B", 1, "a fault")
    hooked.call("B", 0, nodes=TO_TRAINER)
    hooked.call("B", 0, nodes=PUSHED, version="1")

    assert shown(receiver) == ["failed A failed", "failed B failed", "recovered B succeeded", "pushed B succeeded"]


def test_an_exception_is_told_and_raised(hooked: Any, receiver: Any) -> None:
    """The error of the run is raised; a run that was cancelled waits for no receiver."""
    for error in (BadInput("data x: empty\nmore"), Cancelled(signal.SIGTERM)):
        with (
            pytest.raises(type(error)),
            after_call.sent(hooked.config, hooked._pace),
            calls.opened(hooked.config, calls.Origin(type(error).__name__)),
        ):
            raise error

    assert [(each["reason"], each["exit_code"]) for each in receiver.got] == [("data x: empty", 4)]


def test_an_error_before_the_journal(hooked: Any, receiver: Any) -> None:
    """If a store is away, a call cannot begin: a notification is sent; none is sent if another run has the root."""
    errors = (Locked("in use"), SettingsError("unknown"), BadInput("s3://b did not answer\nmore"), OSError("odd"))
    for run, error in zip("ABCD", errors, strict=True):
        with pytest.raises(type(error)), after_call.sent(hooked.config, hooked._pace, run):
            raise error

    assert [(each["run"], each["state"], each["reason"], each["exit_code"]) for each in receiver.got] == [
        ("C", "failed", "s3://b did not answer", 4), ("D", "failed", "odd", 1),
    ]  # fmt: skip


def test_an_error_that_the_journal_has_is_told_once(hooked: Any, receiver: Any) -> None:
    """By what the journal says of it."""
    with (
        pytest.raises(BadInput),
        after_call.sent(hooked.config, hooked._pace, "A"),
        calls.opened(hooked.config, calls.Origin("A", (), "2026-03-08")),
    ):
        raise BadInput("data: empty")

    assert [(each["run"], each["span"]) for each in receiver.got] == [("A", "2026-03-08")]


def test_a_signal_while_a_command_runs(tmp_path: Path) -> None:
    """SIGTERM ends the process, and the command with it, long before the limit."""
    os.mkfifo(tmp_path / "pid")
    (tmp_path / "script").write_text(f"echo $$ > {tmp_path}/pid\nexec sleep 600\n")
    command = [sys.executable, "-c", SLOW, str(tmp_path / "root"), str(tmp_path / "script")]
    with subprocess.Popen(command, cwd=PROJECT) as process:
        pid = int((tmp_path / "pid").read_text())
        process.terminate()
        code = process.wait()

    assert code == 128 + signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()


def test_a_run_that_was_killed_is_told_by_the_next(hooked: Any, receiver: Any) -> None:
    """B1: not while it runs, and once."""
    hooked.call("A")
    command = [sys.executable, "-c", HELD, str(hooked.config.root)]
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        hooked.call("B")
        running = shown(receiver)
        process.kill()
    hooked.call("C")
    hooked.call("D")

    assert (running, shown(receiver)) == ([], ["failed K killed", "recovered C succeeded"])
    assert receiver.got[0]["reason"] == calls.KILLED


def test_a_kill_before_the_notification(hooked: Any, receiver: Any) -> None:
    """A run that ended, and whose process was killed before it could notify, is notified by the next."""
    hooked.call("A")
    with calls.opened(hooked.config, calls.Origin("B")) as call:
        call.end(4, "data: empty")
    hooked.call("C", 4, "data: empty")

    assert shown(receiver) == ["failed B failed"]


def test_what_was_before_is_not_told(hooked: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither runs from before the settings, nor what is older than two days."""
    for run in ("A", "B"):
        with calls.opened(hooked.config, calls.Origin(run)) as call:
            call.end(4, f"data {run}: empty")
    hooked.call("C")
    with calls.opened(hooked.config, calls.Origin("D")) as call:
        call.end(4, "data D: empty")
    later = after_call.utc_now() + timedelta(days=3)
    monkeypatch.setattr(after_call, "utc_now", lambda: later)
    hooked.call("E")

    assert receiver.got == []


def test_no_receiver_costs_nothing(pipeline: Any) -> None:
    """Without settings, nothing is written."""
    made = pipeline()
    made.call("A", 4, "data: empty")

    assert not (made.config.notes / "notify").exists()


def test_a_state_that_is_damaged(hooked: Any, receiver: Any, capfd: Any) -> None:
    """Is replaced by a new one: what happens from then on is notified."""
    hooked.call("A")
    file = after_call.file_of(hooked.config).path
    for content in (b"", b"[1]", b'{"since": 1}'):
        file.write_bytes(content)
        hooked.call("B", 4, "data: empty")

    assert shown(receiver)[0] == "failed B failed"
    assert "earlier notifications, sent or not, are forgotten" in capfd.readouterr().err
    assert orjson.loads(file.read_bytes())["last"] == ["failed", "data: empty"]


def test_a_journal_that_cannot_be_read(hooked: Any, receiver: Any, capfd: Any) -> None:
    """Is a warning; the run succeeds."""
    hooked.call("A")
    (calls.folder_of(hooked.config.notes, "ants") / "B.json").write_text("{")
    hooked.call("C", 4, "data: empty")

    assert receiver.got == []
    assert "warning: notifications: " in capfd.readouterr().err


def test_a_full_disk(tiny_disk: Path, receiver: Any, frozen: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """B5: the failure is still notified, by what is known in memory."""
    monkeypatch.setenv("PENSTOCK_NOTIFY_WEBHOOK", receiver.url)
    config = run_config.make("image", name="ants", data=".", root=str(tiny_disk))
    with after_call.sent(config, frozen.pace):
        with calls.opened(config, calls.Origin("A")) as call:
            call.end(0, "fine")
        with suppress(BadInput), calls.opened(config, calls.Origin("B")):
            with (tiny_disk / "full").open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(b"0" * 4096)
            raise BadInput("no space left on the disk")

    assert [(each["event"], each["run"]) for each in receiver.got] == [("failed", "B")]
    assert "a notification may come twice" in capfd.readouterr().err


@pytest.mark.parametrize("where", ["setting", "file", "variable"])
def test_the_address_is_written_nowhere(
    where: str, receiver: Any, pipeline: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """D5: neither in journal, state and warnings, nor in what other receivers get, wherever it is given."""
    (tmp_path / "hook").write_text(receiver.url)
    if where == "variable":
        monkeypatch.setenv("PENSTOCK_NOTIFY_WEBHOOK", receiver.url)
    flags = {"setting": f"notify.webhook={receiver.url}", "file": f"notify.webhook_file={tmp_path}/hook"}
    made = pipeline("notify.command=/bin/cat", *([flags[where]] if where in flags else []))
    monkeypatch.setattr(sys, "argv", ["penstock", "run", "image", "--set", flags.get(where, "a.b=c")])
    origin = calls.Origin("A", tuple(sys.argv[1:]))
    receiver.answers = [(404, f"nothing at {receiver.url}")]
    with after_call.sent(made.config, made._pace), calls.opened(made.config, origin) as call:
        call.end(4, "data: empty" if where == "file" else f"posting to {receiver.url} failed")
    root = [path for path in made.config.root.rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in root) + capfd.readouterr().err.encode()
    content += orjson.dumps(receiver.got)

    assert len(receiver.got) == 1
    assert b"failed" in content
    assert b"T0K3N" not in content


def test_the_settings_do_not_show_the_address() -> None:
    """D5: neither as text, nor as JSON, nor in an error about one that is wrong."""
    url = "https://host/T0K3N"
    settings = run_config.load_settings([{"notify": {"webhook": url}}])
    wrong: list[dict[str, Any]] = [
        {"notify": {"webhook": "ftp://host/T0K3N"}},
        {"notify": {"webhook": ["https://host/T0K3N"]}},
        {"notify": {"webhook": url, "webhook_file": "/etc/hook"}},
        {"notify": url},
        {"notify": {"webhook": "https://T0K3N@host"}},
        {"notify": {"webhook": "https://host/T0K3N T0K3N"}},
        {"notify": {"webhook": "https://host:T0K3N/"}},
    ]
    messages = []
    for values in wrong:
        with pytest.raises(SettingsError) as error:
            run_config.load_settings([values])
        messages.append(str(error.value))

    assert "T0K3N" not in f"{settings!r} {settings} {settings.model_dump_json()} {messages}"
    assert settings.notify.webhook
    assert settings.notify.webhook.get_secret_value() == url


def penstock(arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the command in a new process."""
    return subprocess.run(
        [sys.executable, "-c", PENSTOCK, *arguments], cwd=PROJECT, env={**os.environ, **environment}, text=True,
        capture_output=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 500])
def test_the_command_notifies(status: int, receiver: Any, tmp_path: Path) -> None:
    """`penstock run` ends with its own exit code, whatever the receiver answers."""
    receiver.answers = [(status, "")] * 3
    (tmp_path / "data").mkdir()
    places = ["--data", str(tmp_path / "data"), "--root", str(tmp_path / "root")]
    done = penstock(["run", "image", *places], {"PENSTOCK_NOTIFY_WEBHOOK": receiver.url})

    assert done.returncode == 4
    assert receiver.events == ["failed"] * (1 if status == 200 else 3)
    assert receiver.got[0]["exit_code"] == 4
    assert "T0K3N" not in done.stdout + done.stderr
    assert ("HTTP 500" in done.stderr) == (status == 500)


@pytest.mark.slow
def test_a_retraining_says_its_span(receiver: Any, tmp_path: Path) -> None:
    """A late span is notified with its name."""
    (tmp_path / "data").mkdir()
    places = ["--data", f"{tmp_path}/data/{{YYYY}}-{{MM}}-{{DD}}/*.csv", "--root", str(tmp_path / "root")]
    arguments = ["retrain", "tabular", "--span", "2026-03-08", *places]
    done = penstock(arguments, {"PENSTOCK_NOTIFY_WEBHOOK": receiver.url})

    assert done.returncode == 9
    assert [(each["event"], each["span"]) for each in receiver.got] == [("late", "2026-03-08")]


@pytest.mark.slow
def test_a_test_notification(receiver: Any, tmp_path: Path) -> None:
    """`penstock notify test` says what the receiver answered; `send` empties the outbox."""
    given = {"PENSTOCK_NOTIFY_WEBHOOK": receiver.url}
    root = ["--root", str(tmp_path / "root")]
    receiver.answers = [(200, "ok"), (404, "no_service")]
    good, bad, none = (penstock(["notify", "test", "image", *root], environment) for environment in (given, given, {}))
    empty = penstock(["notify", "send", "image", *root], given)

    assert (good.returncode, bad.returncode, none.returncode) == (0, 1, 2)
    assert good.stdout.endswith("/*** (PENSTOCK_NOTIFY_WEBHOOK): taken: HTTP 200: ok\n")
    assert "not taken: HTTP 404: no_service" in bad.stdout
    assert "no receiver to notify" in none.stderr
    assert (empty.returncode, empty.stdout) == (0, "0 sent, 0 left\n")
    assert receiver.events == ["test", "test"]
    assert "T0K3N" not in good.stdout + bad.stdout


def test_the_origin_has_the_span(hooked: Any) -> None:
    """The journal keeps it."""
    hooked.call("A", span="2026-03-08")
    (found,) = calls.read(calls.folder_of(hooked.config.notes, "ants") / "A.json")

    assert replace(found, span="") != found
