"""The file for Prometheus, read by the parser of prometheus_client."""

import os
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from components.errors import SettingsError
from components.serving import live
from pipelines import config as run_config
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.watch import metrics


def values_in(file: Path) -> dict[tuple[str, tuple[str, ...]], float]:
    """Returns the samples of a file by name and labels but for the pipeline; disk sizes are left to their own test."""
    return {
        (sample.name, tuple(value for name, value in sample.labels.items() if name != "pipeline")): sample.value
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
    }


def test_the_file_has_what_the_last_runs_led_to(runs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Result and duration of the last run, end of the last one that succeeded, and the newest records and metrics."""
    runs.call("a", records={"train": 80, "test": 20}, metrics={"accuracy": 0.75}, live=3, disk=4096)
    runs.call("b", state="nothing due")
    runs.call("c", 4, "data: empty")
    monkeypatch.setattr(live, "current", lambda *_: None)
    file = metrics.file_of(runs.config)
    metrics.write(runs.pipeline, file)
    found = values_in(file)
    ended = {
        found[-1].run: datetime.fromisoformat(found[-1].ended).timestamp()
        for found in calls.newest_first(runs.pipeline.calls)
    }
    free = found.pop(("penstock_disk_free_bytes", ()))
    duration = found.pop(("penstock_last_run_duration_seconds", ()))

    assert file == runs.config.state / "metrics.prom"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert found == {
        ("penstock_last_run_timestamp_seconds", ()): pytest.approx(ended["c"]),
        ("penstock_last_run_exit_code", ()): 4,
        ("penstock_last_success_timestamp_seconds", ()): pytest.approx(ended["b"]),
        ("penstock_records", ("train",)): 80,
        ("penstock_records", ("test",)): 20,
        ("penstock_model_metric", ("accuracy",)): 0.75,
        ("penstock_disk_used_bytes", ()): 4096,
    }
    assert free > 0
    assert duration >= 0


def test_a_success_before_many_failures(runs: Any) -> None:
    """An alert on its time needs it for days, of a schedule that fails every five minutes."""
    runs.call("first", records={"train": 80}, disk=4096)
    success = calls.read(runs.pipeline.calls / "first.json")[0]
    os.utime(runs.pipeline.calls / "first.json", (0, 0))
    runs.call("failed", 4, "data: empty")
    failed = runs.pipeline.calls / "failed.json"
    for number in range(600):
        text = failed.read_text().replace('"run": "failed"', f'"run": "failed-{number}"')
        failed.with_stem(f"failed-{number}").write_text(text)
    file = metrics.file_of(runs.config)
    metrics.write(runs.pipeline, file)
    found = values_in(file)

    assert found["penstock_last_success_timestamp_seconds", ()] == datetime.fromisoformat(success.ended).timestamp()
    assert (found["penstock_records", ("train",)], found["penstock_disk_used_bytes", ()]) == (80, 4096)


def test_a_name_with_quotes_is_escaped(make_runs: Any) -> None:
    """By the writer: the parser gives back what was written."""
    made = make_runs("root")
    made.call("a", metrics={'acc"ur\\acy\n': 1.0})
    metrics.write(made.pipeline, metrics.file_of(made.config))

    assert values_in(metrics.file_of(made.config))["penstock_model_metric", ('acc"ur\\acy\n',)] == 1.0


@pytest.mark.parametrize(("setting", "name"), [("node.prom", "node.prom"), ("", "penstock-image.prom")])
def test_a_setting_says_where_it_is_written(tmp_path: Path, setting: str, name: str) -> None:
    """A file, or a folder that pipelines share; written also if the run raises."""
    (tmp_path / "textfile").mkdir()
    place = tmp_path / "textfile" / setting
    config = run_config.make("image", data=".", root=str(tmp_path / "root"), flags=[f"watch.metrics={place}"])

    def fail() -> None:
        with metrics.updated(config), calls.opened(config, calls.Origin()):
            raise ValueError("fault")

    with pytest.raises(ValueError, match="fault"):
        fail()

    assert values_in(tmp_path / "textfile" / name)["penstock_last_run_exit_code", ()] == 1


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    """Before the run, at whose end it would be too late."""
    config = run_config.make("image", data=".", root=str(tmp_path), flags=[f"watch.metrics={tmp_path}/no/a.prom"])
    with pytest.raises(SettingsError, match="is no folder; create it"), metrics.updated(config):
        pytest.fail("the run began")


def test_a_file_that_cannot_be_written_is_a_warning(runs: Any, tmp_path: Path, capfd: Any) -> None:
    """The result of the run does not change."""
    runs.call("a")
    (tmp_path / "gone").mkdir()
    config = run_config.make("image", data=".", root=str(runs.config.root), flags=[f"watch.metrics={tmp_path}/gone"])
    with metrics.updated(config):
        (tmp_path / "gone").rmdir()

    assert "penstock-image.prom: cannot be written: No such file or directory" in capfd.readouterr().err


def test_a_damaged_schedule_changes_no_result(runs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The metrics are not written, which is a warning: the run before has succeeded."""
    with metrics.updated(runs.config):
        runs.call("R")
        (runs.config.notes / "schedule.db").write_bytes(b"not a database")

    assert not metrics.file_of(runs.config).exists()
    assert "metrics.prom: cannot be written" in "".join(capsys.readouterr())


def test_the_live_version_of_a_root_on_a_store(tmp_path: Path) -> None:
    """It is that of the last run, or a newer one that a rollback or a promotion has made live."""
    config = run_config.make("image", data=".", root="s3://bucket/root", state=str(tmp_path / "state"))
    with calls.opened(config, Origin("R")) as call:
        call.end(0, "", live=4)
    found = []
    for version in (None, 5):
        metrics.update(config, version)
        found.append(values_in(metrics.file_of(config))["penstock_live_version", ()])

    assert found == [4, 5]
