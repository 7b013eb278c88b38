"""A retraining that need not run, or must not, says why; those that run are in tests/e2e/test_retrain.py."""

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from components.errors import (
    BadInput,
    DiskFull,
    FlagError,
    Late,
    Locked,
    NotFinite,
    PenstockError,
    SettingsError,
    Skipped,
)
from components.ingest.survey import cached
from components.records import manifest
from components.records.manifest import Shard
from components.storage.hashing import HashCache
from pipelines.config import RunConfig
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.operate import retrain, start, ticks
from pipelines.operate.retrain import RetrainRequest
from pipelines.orchestration import schema
from pipelines.orchestration.outcome import NodeFacts
from pipelines.orchestration.plan import Request
from pipelines.orchestration.root import lock
from pipelines.report.facts import RunFacts
from pipelines.run import RunResult
from tests.operate.daily_data import Data


def test_a_late_span_fails(data: Data) -> None:
    """C7: the window of the day before is not taken for it; the message names the file, and the ledger keeps it."""
    with pytest.raises(Late, match=r"span 2026-11-03 is not there: no file .*/2026-11-03/\*\.csv"):
        data.retrain()

    assert data.attempts() == [("late", 9)]


def test_the_span_of_another_time_is_retrained(data: Data) -> None:
    """At noon of the fourth day, the third one was over and is due, whatever the clock says now."""
    with pytest.raises(Late, match="span 2026-11-03 is not there"):
        data.retrain(span=None, at=datetime(2026, 11, 4, 12))  # noqa: DTZ001 - on the clock of the dates


def test_rejected_flags_are_no_attempt(data: Data) -> None:
    """A mistyped command is in no ledger and no journal: nobody is alerted, and `penstock status` shows no failure."""
    data.write("2026-11-03")
    with pytest.raises(FlagError, match="--accept drift:size: expected a reason"):
        data.retrain(accept=("drift:size",))
    for values in ({"last": "Trianer"}, {"accept": ("drift:size",), "because": "a new shop"}):
        with pytest.raises(FlagError, match=r"unknown node 'Trianer'|the Gate compares nothing in this run"):
            data.retrain(**values)

    config = data.config()
    assert data.attempts() == []
    assert list(calls.newest_first(calls.folder_of(config.notes, config.name))) == []


def test_a_late_span_is_skipped(data: Data) -> None:
    """C7: by policy, with an exit code of its own."""
    with pytest.raises(Skipped, match=r"span 2026-11-03 is skipped, because it is not there"):
        data.retrain("ingest.late=skip")

    assert data.attempts() == [("skipped", 10)]


def test_a_late_span_is_waited_for(data: Data) -> None:
    """C7: until it is there; the next error shows that the retraining went on."""

    def arrives(seconds: float) -> None:
        data.said.append(f"{seconds:.0f} s")
        data.write("2026-11-03")

    with pytest.raises(Late, match=r"2 older spans of its window 2026-10-30\.\.2026-11-03 are missing"):
        data.retrain("ingest.late=wait", "ingest.window=last 5", pause=arrives)
    place = f"no file {data.home}/2026-11-03/*.csv"
    assert data.said == [f"waiting for span 2026-11-03 for 60 s: {place}", "10 s"]


def test_waiting_ends(data: Data) -> None:
    """C7: after the timeout the span is late."""
    with pytest.raises(Late, match="span 2026-11-03 is not there"):
        data.retrain("ingest.late=wait", timeout=0)


def test_gaps_are_named(data: Data) -> None:
    """C7: also if more are missing than allowed."""
    data.write("2026-11-03")
    with pytest.raises(Late, match=r"3 older spans .* missing, 2 allowed .*: 2026-10-29\.\.2026-10-31;"):
        data.retrain("ingest.window=last 6", "ingest.gaps=allow 2")

    assert data.attempts() == [("late", 9)]


def test_a_done_tick_is_left_alone(data: Data) -> None:
    """With the version that is live; nothing is added to the ledger."""
    data.write("2026-11-03")
    data.record()

    assert data.retrain() == 0
    assert data.said == ["done: span 2026-11-03, version 7 is live"]
    assert data.attempts() == [("pushed", 0)]


def test_a_tick_without_a_better_model_is_left_alone_too(data: Data) -> None:
    """With the same exit code, and the reason."""
    data.write("2026-11-03")
    data.record(outcome="not better", reason="not blessed: accuracy is 0.5", exit_code=3)

    assert data.retrain() == 3
    assert data.said == ["done: span 2026-11-03 gave no better model (not blessed: accuracy is 0.5); version 7 is live"]


@pytest.mark.parametrize("change", ["content", "version of a span", "setting", "served version"])
def test_a_tick_is_due_again_if_something_changed(data: Data, change: str) -> None:
    """Its own data, its settings, or its version in the serving folder; the held lock shows that a run starts."""
    data.write("2026-11-03")
    data.record()
    if change == "content":
        (data.home / "2026-11-01" / "a.csv").write_text("size,label\n3,a\n2,b\n")
    elif change == "version of a span":
        data.write("2026-10-31")
    elif change == "served version":
        (data.home / "root" / "serving" / "7").rename(data.home / "gone")
    flags = ["train.epochs=3"] if change == "setting" else []
    with lock.hold(data.config().notes, wait=False), pytest.raises(Locked):
        data.retrain(*flags)

    assert data.said[-1] == "warm start from the live model, if there is one"


def test_settings_that_do_not_shape_the_model_change_nothing(data: Data) -> None:
    """Where nodes run, how gaps are treated, when training starts cold."""
    data.write("2026-11-03")
    data.record()

    assert (
        data.retrain(
            "ingest.gaps=allow 3", "ingest.late=wait", "train.cold_every=5", "train.cold_check=1", "engine.runner=flink"
        )
        == 0
    )


def test_an_older_span_does_not_replace_a_newer_model(data: Data) -> None:
    """C7: unless it is asked for."""
    data.write("2026-11-03", "2026-11-04")
    data.record(day="2026-11-04")
    with pytest.raises(Skipped, match=r"version 7 was trained up to span 2026-11-04, and a model of an older window"):
        data.retrain()
    with lock.hold(data.config().notes, wait=False), pytest.raises(Locked):
        data.retrain(again=True)

    assert data.attempts() == [("skipped", 10)]


class Checked(retrain._Tick):
    """A tick whose trainings end at once: the one with a cold start with some exit code."""

    model, code_of_cold = "", 0
    trainings = 0

    def _pipeline(self, config: RunConfig, nodes: Request) -> RunResult:
        del config, nodes
        self.trainings += 1
        code = self.code_of_cold if self._is_settled else 0
        base = (("base", "live"),)
        return RunResult(code, RunFacts("t", "t", "", 1.0, "", code, (), warm_start=base, trained=self.model))


@pytest.fixture
def checked(data: Data, open_metadata: Any) -> Callable[[int, int], tuple[Checked, RunResult | None]]:
    """Returns a function that checks a warm start: by test records of the newest span, and how a cold start ends."""

    def check(records: int, code: int) -> tuple[Checked, RunResult | None]:
        data.write("2026-11-03")
        data.record(day="2026-11-02")
        chosen, request, model = data.config("train.cold_check=1"), RetrainRequest("2026-11-03"), data.home / "model"
        shards = [Shard("test", f"Split-test/data_tfrecord-{span}-00000-of-00001", count, 0, "")
                  for span, count in (("s20261102", 5), ("s20261103", records))]  # fmt: skip
        written = manifest.Manifest("", 0, manifest.SourceTotals(), tuple(shards), {"test": {}}, 0, {}, 0, ())
        manifest.write(data.home / "examples", written, ())
        record = open_metadata(chosen.metadata)
        _, made = record("Ingest", chosen.name, outputs={"examples": data.home / "examples"})
        record("Trainer", chosen.name, inputs={made["examples"]: "examples"}, outputs={"model": model})
        found = retrain._resolve(chosen, request, request.span)
        tick = Checked(chosen, request, ticks.of(chosen), found, "", data.say)
        tick.model, tick.code_of_cold = str(model), code
        tick._start = start.Start("live", "warm start", is_checked=True)
        return tick, tick._checked(chosen, Request())

    return check


@pytest.mark.parametrize(("code", "warm_start"), [(NotFinite.exit_code, "live"), (DiskFull.exit_code, None)])
def test_a_cold_start_that_diverges(data: Data, checked: Any, code: int, warm_start: str | None) -> None:
    """The tick goes on with the warm start; any other failure of that training is one of the tick."""
    tick, result = checked(8, code)

    assert (result.exit_code if result else 0) == (code if warm_start is None else 0)
    assert (tick._start.warm_start == "live") == (warm_start == "live")
    assert data.said[-1].startswith("warm start kept" if warm_start else "cold start, to compare")


def test_no_cold_start_is_trained_without_enough_test_records(data: Data, checked: Any) -> None:
    """It could not be compared; each tick would train it again."""
    tick, result = checked(7, 0)

    assert (result, tick.trainings, tick._start.warm_start) == (None, 1, "live")
    assert data.said[-1] == (
        "warm start kept: the newest span was not compared: 7 test records of it on this machine, expected at least 8"
    )


def test_bad_data_is_in_the_ledger(data: Data) -> None:
    """As a failure, which is tried again."""
    data.write("2026-11-03")
    (data.home / "2026-11-03" / "a.csv").write_text("other,label\n1,a\n")
    with pytest.raises(BadInput, match="its columns differ"):
        data.retrain()

    assert data.attempts() == [("failed", 4)]


def test_the_spans_are_chosen_by_the_window(data: Data) -> None:
    """A selection beside it would contradict it; nothing is recorded for a wrong setting."""
    with pytest.raises(SettingsError, match=r"ingest\.spans = latest: `penstock retrain` chooses the spans itself"):
        data.retrain("ingest.spans=latest")
    with pytest.raises(PenstockError, match=r"setting ingest\.gaps: .* expected fail or 'allow N'"):
        data.config("ingest.gaps=some")

    assert data.attempts() == []


@pytest.mark.parametrize(
    ("code", "ran", "outcome", "has_trained", "line"),
    [
        (0, ["Trainer", "Evaluator", "Pusher"], "pushed", True, "pushed version 7, cold start: no earlier model"),
        (0, ["Pusher"], "pushed", True, "pushed version 7, cold start: no earlier model"),
        (0, [], "up to date", True, "up to date, version 7 is live"),
        (3, ["Trainer", "Evaluator", "Pusher"], "not better", True, "not better: because; version 7 is live"),
        (5, ["Ingest"], "gate stopped", False, "gate stopped: because; version 7 is live"),
        (143, ["Ingest"], "failed", False, "failed: because; version 7 is live"),
    ],
)
def test_the_result_of_a_run_is_in_the_ledger_and_in_the_last_line(
    data: Data, code: int, ran: list[str], outcome: str, has_trained: bool, line: str
) -> None:
    """A model counts as trained by its tick once, also if a killed call trained it."""
    data.write("2026-11-03")
    other = data.record(day="2026-11-02")  # and version 7 is live
    chosen, request = data.config(), RetrainRequest("2026-11-03")
    found = retrain._resolve(chosen, request, request.span)
    tick = retrain._Tick(chosen, request, ticks.of(chosen), found, other.ended, data.say)
    facts = RunFacts(
        "tabular", "tabular", "", 1.0, "failed: because" if code else "blessed", code,
        tuple(NodeFacts(name, "ran", 1.0, "") for name in ran), model_version="7", classes=("a", "b"),
    )  # fmt: skip

    first = tick.record_result(RunResult(code, facts))
    second = tick.record_result(RunResult(code, facts))

    assert (first.outcome, first.has_trained, second.has_trained) == (outcome, has_trained, False)
    assert tick._last_line(first) == f"span 2026-11-03: {line}"
    assert data.attempts()[0] == (outcome, code)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_tick_that_ends_before_its_run_is_a_run_too(data: Data, is_late: bool) -> None:
    """It has a run id, in the journal and in the ledger, and its command names the span."""
    origin = Origin("nightly-7", ("retrain", "tabular"))
    if is_late:
        with pytest.raises(Late):
            data.retrain("ingest.late=fail", span=None, origin=origin)
    else:
        data.write("2026-11-03")
        data.record()
        data.retrain(origin=origin)
    (call,) = calls.read(calls.folder_of(data.config().notes, "tabular") / "nightly-7.json")

    assert data.runs == ["run nightly-7"]
    assert (call.state, call.exit_code) == (("late", 9) if is_late else ("nothing due", 0))
    if is_late:
        assert call.command == ("retrain", "--span", call.reason.split()[1].rstrip(":"), "tabular")
        assert [each.run for each in ticks.of(data.config()).of_span(call.command[2])] == ["nightly-7"]


def test_a_done_tick_imports_nothing_heavy(data: Data) -> None:
    """It is answered within about a second, without TensorFlow and without the metadata."""
    data.write("2026-11-03")
    data.record()
    chosen = data.config()
    arguments = ["retrain", "tabular", "--data", chosen.data, "--root", str(chosen.root), "--span", "2026-11-03"]
    script = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules)); "
        f"sys.argv[1:] = {arguments!r}; from pipelines.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *_, said, modules = done.stdout.splitlines()

    assert said == "done: span 2026-11-03, version 7 is live"
    assert {name.split(".")[0] for name in modules.split()} & {
        "tensorflow",
        "tfx",
        "apache_beam",
        "ml_metadata",
    } == set()


def test_the_schema_of_the_root_is_part_of_the_key(data: Data) -> None:
    """By its content, as a person edits it; the name of the file does not matter."""
    data.write("2026-11-03")
    data.record()
    chosen = data.config()
    found = cached.take(f"{data.home}/2026-11-03/*.csv", chosen.settings.ingest, HashCache(None), chosen.needs)
    content = schema.find(chosen, found).content
    own = data.home / "root" / "schema.pbtxt"
    own.write_bytes(content)
    assert data.retrain() == 0
    own.write_bytes(content + b'default_environment: "SERVING"\n')
    with lock.hold(data.config().notes, wait=False), pytest.raises(Locked):
        data.retrain()
