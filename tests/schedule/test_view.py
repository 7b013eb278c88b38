"""What others may know of schedules."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from pathlib import Path

from pipelines import config as run_config
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.schedule import view
from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.schedule import PipelineSchedule

Nightly = Callable[..., PipelineSchedule]


def test_a_tick_that_another_scheduler_ran_is_not_late(ledger: ScheduleLedger, nightly: Nightly) -> None:
    """An exported schedule has no ledger: a run at the time of a tick, or after it, shows that it was handled."""
    notes = ledger.file.parent
    config = run_config.make("tabular", data=".", root=str(notes.parent), name="sales")
    now = datetime.now(timezone.utc)
    ledger.put(nightly(rule="every 1h", since=now - timedelta(hours=3, minutes=30)))
    before = view.read(notes, now)[0].undecided
    with calls.opened(config, Origin("nightly")) as call:
        during = view.read(notes, now)[0].undecided
        call.end(0, "")
    after = view.read(notes, now)[0].undecided
    later = view.read(notes, now + timedelta(hours=1))[0].undecided

    assert (len(before), during, after, len(later)) == (3, (), (), 1)


def test_a_link_to_a_root_is_not_another_root(tmp_path: Path, nightly: Nightly) -> None:
    """A folder of roots may have one to the newest; a folder that is named may itself be a link."""
    ledger = ScheduleLedger(tmp_path / "roots" / "a" / ".penstock")
    ledger.put(nightly())
    (tmp_path / "roots" / "newest").symlink_to(tmp_path / "roots" / "a")
    (tmp_path / "here").symlink_to(tmp_path / "roots")

    assert view.folders([tmp_path / "roots"]) == [tmp_path / "roots" / "a" / ".penstock"]
    assert view.folders([tmp_path / "here"]) == [tmp_path / "here" / "a" / ".penstock"]


def test_a_folder_that_may_not_be_read(
    open_folder: Path, nightly: Nightly, without_rights: Callable[[], AbstractContextManager[None]]
) -> None:
    """Such as lost+found on a disk of its own: the other folders are found."""
    (open_folder / "lost+found").mkdir(mode=0)
    with without_rights():
        ledger = ScheduleLedger(open_folder / "sales" / ".penstock")
        ledger.put(nightly())

        assert view.folders([open_folder]) == [ledger.file.parent]
