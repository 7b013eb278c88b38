"""Attempts, the outbox, and processes that are killed between them."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import filelock
import pytest

from pipelines.journal import calls
from pipelines.notify import after_call, receivers
from pipelines.notify.deliver import deliver
from pipelines.notify.notification import Notification
from pipelines.notify.receivers import Answer, CommandReceiver
from pipelines.notify.state import NotifyState, Pending

PROJECT = Path(__file__).resolve().parents[2]
KILLED = """
import os, signal, sys
from pipelines import config
from pipelines.notify import after_call, deliver, receivers

deliver._taken = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
chosen = config.make("image", name="ants", data=".", root=sys.argv[1], flags=[f"notify.webhook_file={sys.argv[2]}"])
deliver.deliver(after_call.file_of(chosen), receivers.of(chosen), 60.0, deliver.Pace())
"""


def test_a_receiver_that_recovers_within_the_limit(hooked: Any, receiver: Any, frozen: Any, capfd: Any) -> None:
    """It is tried three times, with growing pauses, and gets the notification once."""
    receiver.answers = [(500, ""), (503, "")]
    hooked.call("A", 4, "data: empty")

    assert receiver.events == ["failed"] * 3
    assert len({each["id"] for each in receiver.got}) == 1
    assert (frozen.slept, hooked.outbox(), capfd.readouterr().err) == ([0.5, 2.0], [], "")


def test_a_receiver_that_is_down_for_some_runs(hooked: Any, receiver: Any, capfd: Any) -> None:
    """D5: what it does not take is kept and sent by the next run, in order; the warning does not name the address."""
    receiver.answers = [(500, "")] * 6
    hooked.call("A", 4, "data: empty")
    hooked.call("B", 5, "the data is not fit for training")
    said, left, tried = capfd.readouterr().err, hooked.outbox(), len(receiver.got)
    hooked.call("C")

    assert left == ["failed", "failed"]
    assert tried == 6  # the second was not tried after the first had failed
    assert [(each["event"], each["run"]) for each in receiver.got[6:]] == [
        ("failed", "A"), ("failed", "B"), ("recovered", "C"),
    ]  # fmt: skip
    assert "/*** (notify.webhook_file): HTTP 500; 1 notification is kept, and sent by the next call" in said
    assert "2 notifications are kept" in said
    assert "T0K3N" not in said
    assert hooked.outbox() == []


def test_the_time_limit(pipeline: Any, receiver: Any, frozen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause goes beyond it: a run waits so long at most."""
    receiver.answers = [(500, "")] * 9
    monkeypatch.setenv("PENSTOCK_NOTIFY_WEBHOOK", receiver.url)
    pipeline("notify.timeout=1.5").call("A", 4, "data: empty")

    assert (frozen.slept, len(receiver.got)) == ([0.5], 2)


def test_a_receiver_that_takes_no_more_of_the_time(hooked: Any, frozen: Any, a_notification: Any) -> None:
    """A slow receiver has used up the time: nothing else is tried."""

    class Slow:
        name = shown = "webhook"

        def send(self, *_: Any) -> Any:
            frozen.time += 10
            return Answer(False, "no answer within 10.0 s")

    for run, reason in (("A", "x"), ("B", "y")):
        file = after_call.file_of(hooked.config)
        file.change(partial(_with, a_notification(run=run, id=run, reason=reason)))
    problems = deliver(file, [Slow()], 10.0, frozen.pace)

    what = "no answer within 10.0 s; 2 notifications are kept, and sent by the next call or `penstock notify send`"
    assert problems == [f"webhook: {what}"]
    assert frozen.time == 10


def _with(notification: Notification, state: NotifyState) -> NotifyState:
    now = after_call.utc_now().isoformat()
    return replace(state, outbox=(*state.outbox, Pending(replace(notification, time=now), ("webhook", "command"))))


def test_a_rejected_notification_does_not_hold_the_others(hooked: Any, receiver: Any, capfd: Any) -> None:
    """HTTP 400 says something about one of them."""
    receiver.answers = [(400, "too long")]
    hooked.call("A", 4, "data: empty")
    hooked.call("B", 0, "fine", version="1", nodes=({"id": "Pusher", "state": "ran"},))

    assert receiver.events == ["failed", "failed", "recovered", "pushed"]
    assert "HTTP 400: too long; 1 notification is kept" in capfd.readouterr().err


def test_a_command_that_fails_on_one_notification(pipeline: Any, tmp_path: Path) -> None:
    """It gets the others all the same, each once."""
    (tmp_path / "script").write_text(
        f"[ $PENSTOCK_EVENT != recovered ] || exit 1\necho $PENSTOCK_EVENT >> {tmp_path}/got\n"
    )
    made = pipeline(f"notify.command=/bin/sh {tmp_path}/script")
    made.call("A", 4, "data: empty")
    made.call("B", 0, "fine", version="1", nodes=({"id": "Pusher", "state": "ran"},))
    made.call("C", 4, "data: empty")

    assert (tmp_path / "got").read_text().split() == ["failed", "pushed", "failed"]
    assert made.outbox() == ["recovered"]


def test_both_receivers_have_their_own_outbox(hooked: Any, receiver: Any, tmp_path: Path, frozen: Any) -> None:
    """A command that fails keeps nothing from the webhook, which gets each notification once."""
    failing = CommandReceiver(("/bin/sh", "-c", f"cat >> {tmp_path}/got; test -e {tmp_path}/works"), tmp_path)
    file, both = after_call.file_of(hooked.config), [failing, *receivers.of(hooked.config)]
    with after_call.guarded():
        file.change(lambda state: state)
    with calls.opened(hooked.config, calls.Origin("A")) as call:
        call.end(4, "data: empty")
    after_call.note(hooked.config, file, both, after_call.utc_now())
    first = deliver(file, both, 60.0, frozen.pace)
    (tmp_path / "works").touch()
    second = deliver(file, both, 60.0, frozen.pace)

    assert len(first) == 1
    assert first[0].startswith("command /bin/sh: exit code 1; 1 notification is kept")
    assert (second, receiver.events, hooked.outbox()) == ([], ["failed"], [])
    assert (tmp_path / "got").read_text().count('"event":"failed"') == 4


def test_a_kill_between_delivery_and_note(hooked: Any, receiver: Any, tmp_path: Path) -> None:
    """The next process sends it again with the same id, by which the receiver recognizes it."""
    receiver.answers = [(400, "")]
    hooked.call("A", 4, "data: empty")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(hooked.config.root), str(tmp_path / "hook")], cwd=PROJECT, check=False
    )
    left = hooked.outbox()
    hooked.call("B", 4, "data: empty")

    assert (killed.returncode, left, hooked.outbox()) == (-signal.SIGKILL, ["failed"], [])
    assert [(each["run"], each["event"]) for each in receiver.got] == [("A", "failed")] * 3
    assert len({each["id"] for each in receiver.got}) == 1


def test_another_process_that_sends_is_not_disturbed(hooked: Any, receiver: Any) -> None:
    """It sends what is in the outbox: nothing is sent twice."""
    receiver.answers = [(400, "")]
    hooked.call("A", 4, "data: empty")
    file = after_call.file_of(hooked.config)
    with filelock.FileLock(file.path.with_suffix(".sending.lock")):
        problems = deliver(file, receivers.of(hooked.config), 0.05, hooked._pace)

    assert (problems, receiver.events, hooked.outbox()) == ([], ["failed"], ["failed"])


def test_the_state_is_private(hooked: Any, receiver: Any) -> None:
    """D5: its file is readable by its owner only, and has no address."""
    receiver.answers = [(400, "")]
    hooked.call("A", 4, "data: empty")
    folder = hooked.config.notes / "notify"
    names = sorted(os.listdir(folder))  # noqa: PTH208 - names

    assert names == ["ants.json", "ants.lock", "ants.sending.lock"]
    assert (folder / "ants.json").stat().st_mode & 0o777 == 0o600
    assert "T0K3N" not in (folder / "ants.json").read_text()
