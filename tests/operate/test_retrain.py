"""A retraining that need not run, or must not, says why; those that run are in tests/e2e/test_retrain.py."""

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from components.errors import BadInput, Late, Locked, PenstockError, SettingsError, Skipped
from components.ingest.survey import cached
from components.serving import live
from components.serving.live import LiveModel, Move
from components.storage import paths
from components.storage.hashing import HashCache
from pipelines import config, run
from pipelines.config import RunConfig
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.operate import retrain, start, ticks, window
from pipelines.operate.retrain import RetrainRequest
from pipelines.operate.ticks import Attempt
from pipelines.orchestration import schema
from pipelines.orchestration.outcome import NodeFacts
from pipelines.orchestration.root import lock
from pipelines.report.facts import RunFacts
from pipelines.run import RunResult

FRESH = "weights start from random values"


class Data:
    """Daily tables, and a pipeline on them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said: list[str] = []
        self.runs: list[str] = []  # lines with the id of a run

    def say(self, line: str) -> None:
        """Keeps a line that was said."""
        (self.runs if line.startswith("run ") else self.said).append(line)

    def write(self, *days: str) -> None:
        """Writes a table per day."""
        for day in days:
            (self.home / day).mkdir(parents=True)
            (self.home / day / "a.csv").write_text("size,label\n1,a\n2,b\n")

    def config(self, *flags: str) -> RunConfig:
        """Returns the configuration with some settings."""
        pattern = f"{self.home}/{{YYYY}}-{{MM}}-{{DD}}/*.csv"
        return config.make("tabular", data=pattern, root=str(self.home / "root"), flags=flags)

    def retrain(self, *flags: str, pause: Callable[[float], None] = lambda _: None, **values: Any) -> int:
        """Retrains for the third day."""
        request = RetrainRequest(**{"span": "2026-11-03", "timeout": 60, **values})
        return retrain.retrain(self.config(*flags), request, self.say, pause)

    def attempts(self, span: str = "2026-11-03") -> list[tuple[str, int]]:
        """Returns outcome and exit code of each recorded attempt."""
        return [(each.outcome, each.exit_code) for each in ticks.of(self.config()).of_span(span)]

    def record(self, *flags: str, day: str = "2026-11-03", **values: Any) -> Attempt:
        """Writes into the ledger that the day was retrained."""
        chosen, now = self.config(*flags), datetime.now(timezone.utc)
        found = window.resolve(chosen.data, chosen.settings.ingest.window, day, paths.matches, now)
        pinned = retrain._pinned(chosen, found)
        cache = HashCache(None)
        survey = cached.take(pinned.data, pinned.settings.ingest, cache, pinned.needs)
        attempt = Attempt(
            **{
                "span": day, "place": found.tick, "key": ticks.key_of(pinned, found, survey, cache),
                "outcome": "pushed", "reason": "pushed as version 7", "exit_code": 0, "started": "",
                "ended": "2026-11-04T06:00:00", "version": "7", **values,
            }
        )  # fmt: skip
        ticks.of(chosen).add(attempt)
        if attempt.version:
            self.move("push", int(attempt.version), day)
        return attempt

    def move(self, kind: live.Kind, version: int, day: str, source: str = "") -> None:
        """Makes a version live, which was trained up to a day."""
        folder = self.home / "root" / "serving" / str(version)
        folder.mkdir(parents=True)
        (folder / "saved_model.pb").touch()
        number = int(source or version)
        model = LiveModel(number, f"model {number}", spans=("s20261101", f"s{day.replace('-', '')}"))
        source = str(folder.with_name(source)) if source else ""
        move = Move(kind, str(folder), live.now(), "ann", "bad labels", model, source)
        live.write(self.home / "root", lambda pointer: live.follow(pointer, [move], "tabular"))


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """Two days, before the one that is due."""
    made = Data(tmp_path)
    made.write("2026-11-01", "2026-11-02")
    return made


def test_a_late_span_fails(data: Data) -> None:
    """C7: the window of the day before is not taken for it; the message names the file, and the ledger keeps it."""
    with pytest.raises(Late, match=r"span 2026-11-03 is not there: no file .*/2026-11-03/\*\.csv"):
        data.retrain()

    assert data.attempts() == [("late", 9)]


def test_the_span_of_another_time_is_retrained(data: Data) -> None:
    """At noon of the fourth day, the third one was over and is due, whatever the clock says now."""
    with pytest.raises(Late, match="span 2026-11-03 is not there"):
        data.retrain(span=None, at=datetime(2026, 11, 4, 12))  # noqa: DTZ001 - on the clock of the dates


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


def test_every_second_training_is_checked(data: Data) -> None:
    """The ledger counts, from the last check or cold start; a tick that has trained before is not checked again."""
    chosen, ledger, starts = data.config("train.cold_check=2"), ticks.of(data.config()), []
    for day, has_base in enumerate([False, True, True, True, False, True]):
        starts.append(start.choose(chosen, ledger, None))
        check = {"metric": "accuracy"} if starts[-1].is_checked else {}
        ledger.add(
            Attempt(
                span=f"2026-11-0{day + 1}", place=day, key="", outcome="pushed", reason="", exit_code=0,
                started=f"{day}", ended=f"{day}", has_base=has_base, has_trained=True, check=check,
                warm_start="live" if has_base else "none",
            )
        )  # fmt: skip

    assert [each.is_checked for each in starts] == [False, False, True, False, True, False]
    assert {each.warm_start for each in starts} == {"live"}
    assert starts[2].text == (
        "warm start from the live model, if there is one; a cold start is trained, too, and compared "
        "(train.cold_check = 2)"
    )
    assert not start.choose(chosen, ledger, ledger.trained("2026-11-03", "")).is_checked
    assert start.choose(data.config("train.cold_check=2", "train.cold_every=2"), ledger, None).warm_start == "none"
    assert not start.choose(data.config("train.cold_check=1", "train.warm_start=none"), ledger, None).is_checked


def test_every_third_training_is_cold(data: Data) -> None:
    """The ledger counts; a tick that has trained before starts from the same as then."""
    chosen, ledger, starts = data.config("train.cold_every=3"), ticks.of(data.config()), []
    for day, has_base in enumerate([False, True, True, False]):
        starts.append(start.choose(chosen, ledger, None))
        ledger.add(
            Attempt(
                span=f"2026-11-0{day + 1}", place=day, key="", outcome="pushed", reason="", exit_code=0, started="",
                ended=f"{day}", has_base=has_base, has_trained=True, warm_start=starts[-1].warm_start,
            )
        )  # fmt: skip

    assert [each.warm_start for each in starts] == ["live", "live", "live", "none"]
    assert starts[-1].text == "cold start: 3 trainings since the last one (train.cold_every = 3)"
    assert start.choose(chosen, ledger, ledger.trained("2026-11-04", "")).warm_start == "none"
    assert start.choose(chosen, ledger, None).warm_start == "live"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (["a", "b"], ["b", "a"], ""),
        ([], ["a"], ""),
        (["a", "b"], ["a", "b", "d", "c"], f"classes: new: c, d ({FRESH})"),
        (["a", "b"], ["a"], "classes: gone: b (weights dropped)"),
        (["a"], ["c"], f"classes: new: c ({FRESH}); gone: a (weights dropped); a renamed class counts as both"),
    ],
)
def test_changed_classes_are_named(old: list[str], new: list[str], text: str) -> None:
    """Order does not matter: warm start finds them by name."""
    assert start.changed_classes(old, new) == text


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


def test_a_call_that_waited_decides_again(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: while it waited for the root, another call has served a newer span."""
    data.write("2026-11-03", "2026-11-04")

    def waits(*_: Any, settled: Callable[[], RunConfig], **__: Any) -> None:
        data.record(day="2026-11-04", version="9")
        settled()

    monkeypatch.setattr(run, "run", waits)
    with pytest.raises(Skipped, match=r"version 9 was trained up to span 2026-11-04"):
        data.retrain()
    assert data.attempts() == [("skipped", 10)]


def test_a_call_that_waited_for_its_span_decides_again(data: Data) -> None:
    """C7: another call has served a newer span in the meantime."""

    def arrives(_: float) -> None:
        data.write("2026-11-03", "2026-11-04")
        data.record(day="2026-11-04", version="9")

    with pytest.raises(Skipped, match=r"version 9 was trained up to span 2026-11-04"):
        data.retrain("ingest.late=wait", pause=arrives)


def test_the_live_model_decides_what_is_older(data: Data) -> None:
    """Not the newest one that was ever pushed, which was rolled back; and without a ledger, too."""
    data.write("2026-11-03", "2026-11-04")
    data.move("push", 1, "2026-11-02")
    data.move("push", 2, "2026-11-04")
    with pytest.raises(Skipped, match=r"version 2 was trained up to span 2026-11-04"):
        data.retrain()
    data.move("rollback", 3, "2026-11-02", source="1")
    with lock.hold(data.config().notes, wait=False), pytest.raises(Locked):
        data.retrain()


def test_a_verdict_against_a_version_that_was_rolled_back(data: Data) -> None:
    """The tick is due: its model may be better than the one that is live now."""
    data.write("2026-11-03")
    data.move("push", 1, "2026-11-01")
    data.move("push", 2, "2026-11-02")
    serving = data.home / "root" / "serving"
    data.record(outcome="not better", exit_code=3, version="", against=str(serving / "2"))
    assert data.retrain() == 3
    data.move("rollback", 3, "2026-11-01", source="1")
    with lock.hold(data.config().notes, wait=False), pytest.raises(Locked):
        data.retrain()


@pytest.mark.parametrize(("version", "is_pushed"), [(None, False), ("2", True)], ids=["not pushed", "rolled back"])
def test_a_withdrawn_model_is_an_outcome_of_its_own(data: Data, version: str | None, is_pushed: bool) -> None:
    """Its tick is done, and serves nothing."""
    data.write("2026-11-03")
    data.move("push", 1, "2026-11-01")
    if is_pushed:
        data.move("push", 2, "2026-11-02")
        data.move("rollback", 3, "2026-11-01", source="1")
    chosen, request = data.config(), RetrainRequest("2026-11-03")
    tick = retrain._Tick(
        chosen, request, ticks.of(chosen), retrain._resolve(chosen, request, request.span), "", data.say
    )
    nodes = (NodeFacts("Pusher", "ran", 1.0, ""),)
    attempt = tick.record_result(
        RunResult(0, RunFacts("tabular", "tabular", "", 1.0, "blessed", 0, nodes, model_version=version))
    )

    assert (attempt.outcome, ticks.of(chosen).served({"2"})) == ("withdrawn", None)
    assert tick._last_line(attempt) == (
        "span 2026-11-03: its model was withdrawn, and is not pushed (penstock models promote brings it back); "
        f"version {3 if is_pushed else 1} is live"
    )


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


def test_a_withdrawn_model_stays_withdrawn_until_another_version_is_live(data: Data) -> None:
    """A promotion may have brought it back: the tick is decided again."""
    data.write("2026-11-03")
    data.move("push", 1, "2026-11-01")
    data.record(outcome="withdrawn", version="", against=str(data.home / "root" / "serving" / "1"))
    assert data.retrain() == 0
    assert "its model was withdrawn" in data.said[-1]
    data.move("promote", 2, "2026-11-02")
    with lock.hold(data.config().notes, wait=False), pytest.raises(Locked):
        data.retrain()
