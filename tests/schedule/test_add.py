"""`penstock schedule add`: what a schedule keeps of the command that made it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from components.errors import SettingsError
from pipelines import cli
from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.policy import TickDecision

Add = Callable[..., ScheduleLedger]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """Returns a function that adds a schedule with more flags, and returns its ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_SETTINGS", raising=False)
    command = ["schedule", "add", "tabular", "--data", "logs/{YYYY}-{MM}-{DD}/*.csv", "--root", "root"]

    def run(*more: str) -> ScheduleLedger:
        done = CliRunner().invoke(cli.app, [*command, "--cron", "0 3 * * *", *more])
        if done.exception is not None:
            raise done.exception
        return ScheduleLedger(tmp_path / "root" / ".penstock")

    return run


def test_paths_are_absolute(add: Add, tmp_path: Path) -> None:
    """Whatever folder the scheduler is started in."""
    (found,) = add("--set", "train.epochs=3", "--metadata", "mysql://user@host/db").schedules()

    assert found.arguments == (
        "--data", f"{tmp_path}/logs/{{YYYY}}-{{MM}}-{{DD}}/*.csv", "--root", f"{tmp_path}/root",
        "--name", "tabular", "--metadata", "mysql://user@host/db",
        "--set", "train.epochs=3",
    )  # fmt: skip


def test_metrics_in_a_folder_that_does_not_exist(add: Add, tmp_path: Path) -> None:
    """Each tick would be rejected, and no run would show it."""
    with pytest.raises(SettingsError, match=r"watch\.metrics = prom: .*/prom is no folder; create it"):
        add("--set", "watch.metrics=prom")
    (tmp_path / "prom").mkdir()

    assert len(add("--set", "watch.metrics=prom").schedules()) == 1


def test_all_times_of_a_list_are_utc(add: Add, tmp_path: Path) -> None:
    """Next and last tick of one row, whatever the zone of the schedule; `penstock status` does the same."""
    ledger = add("--timezone", "Asia/Tokyo")
    (made,) = ledger.schedules()
    since = made.since - timedelta(days=2)
    earlier = replace(made, since=since)
    ledger.put(earlier)
    tick = earlier.timetable.first(1, since)[0]
    ledger.decide(made.name, made.since, "", lambda *_: [TickDecision(tick, "skipped", "")])
    header, row = CliRunner().invoke(cli.app, ["schedule", "list", str(tmp_path)]).output.splitlines()

    assert header.split("  ")[0] == "pipeline"
    assert ("next (UTC)" in header, "last (UTC)" in header) == (True, True)
    assert f"{tick.at:%Y-%m-%d} 18:00 skipped" in row
    assert row.count(" 18:00") >= 2
    assert " 03:00" not in row


@pytest.mark.parametrize(
    "flags", [("--metadata", "mysql://user:passw0rd@host/db"), ("--", "--aws_secret_key=passw0rd")]
)
def test_a_secret_is_rejected(flags: tuple[str, ...], add: Add, tmp_path: Path) -> None:
    """D5: it would be in the ledger, in `schedule show`, in exported files and in the list of processes."""
    with pytest.raises(SettingsError, match=r"\*\*\*.*: a schedule does not keep secrets") as error:
        add(*flags)

    assert "passw0rd" not in str(error.value)
    assert not any(b"passw0rd" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
