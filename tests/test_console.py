"""What a run prints: plain lines without a terminal, never wrapped, markup in the user's text left as it is."""

import io
import os
import pty
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest

from components.errors import BadInput, Cancelled
from components.progress import Progress
from components.records.ledger import Entry
from pipelines import config as run_config
from pipelines import console
from pipelines.config import RunConfig
from pipelines.console import Display
from pipelines.orchestration import graph
from pipelines.orchestration.outcome import NodeFacts
from pipelines.orchestration.plan import CACHED, KEPT, LOOK_UP, RUN, SKIP, NodePlan, Plan
from pipelines.report.facts import RunFacts, Threshold

MARKUP = "[red]stop[/red] [/] [link=x]y :warning: \\"
LOG = Path("logs/1.log")
FACTS = RunFacts(
    pipeline="image", task="image", started="2025-11-14T09:26:53Z", seconds=78.4,
    outcome="blessed and pushed as version 3", exit_code=0,
)  # fmt: skip


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A stream that is not a terminal, whatever the environment says about colours."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return io.StringIO()


@pytest.fixture
def display(stream: io.StringIO) -> Display:
    """A display on the stream."""
    return Display(stream)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that is set by hand."""
    hand = SimpleNamespace(now=100.0)
    hand.monotonic = lambda: hand.now
    monkeypatch.setattr(console, "time", hand)
    return hand


@pytest.fixture
def make_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunConfig]:
    """Makes configurations without a settings file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_SETTINGS", raising=False)

    def make(data: str = "photos", root: str = "root") -> RunConfig:
        return run_config.make("image", data=data, root=root)

    return make


def lines(stream: io.StringIO) -> list[str]:
    """Returns the printed lines without trailing spaces."""
    return [line.rstrip() for line in stream.getvalue().split("\n")[:-1]]


def planned(node: str, action: str = RUN, reason: str = "first run") -> NodePlan:
    """Returns the plan of a node."""
    return NodePlan(graph.find(node), action, reason)


class TestNodes:
    """What is printed while nodes run."""

    @pytest.mark.parametrize("action", [RUN, CACHED])
    def test_a_node_is_announced_once(self, display: Display, stream: io.StringIO, action: str) -> None:
        """When it has finished, with its reason."""
        display.started(planned("Schema", action))
        display.finished(NodeFacts("Schema", "ran", 0.01, "first run"))

        assert lines(stream) == ["✓ Schema               0.0 s                                    first run"]

    @pytest.mark.parametrize(
        ("facts", "line"),
        [
            (
                NodeFacts("Ingest", "ran", 2.04, "first run", 1797),
                "✓ Ingest               2.0 s     1,797 records           881/s  first run",
            ),
            (
                NodeFacts("Schema", "ran", 0.01, "first run"),
                "✓ Schema               0.0 s                                    first run",
            ),
            (
                NodeFacts("Trainer", "ran", 20.0, "first run", 1600, 860.4),
                "✓ Trainer             20.0 s     1,600 records   860 samples/s  first run",
            ),
            (
                NodeFacts("Transform", "ran", 2.0, "first run", 1600, note="3 texts cut"),
                "✓ Transform            2.0 s     1,600 records           800/s  first run; 3 texts cut",
            ),
            (
                NodeFacts("Trainer", "cached", 0.3, "same inputs", 1600),
                "= Trainer              0.3 s     1,600 records                  same inputs",
            ),
            (
                NodeFacts("ExampleValidator", "failed", 61.25, "after Ingest, which runs"),
                "✗ ExampleValidator    61.2 s                                    after Ingest, which runs",
            ),
            (
                NodeFacts("Pusher", "skipped", 0.0, "not reached"),
                "· Pusher               0.0 s                                    not reached",
            ),
        ],
        ids=["ran", "ran without records", "training", "with a note", "cached", "failed", "skipped"],
    )
    def test_a_finished_node_has_one_line(
        self, display: Display, stream: io.StringIO, facts: NodeFacts, line: str
    ) -> None:
        """Time, records, records per second if it ran, and the reason."""
        display.finished(facts)

        assert lines(stream) == [line]

    def test_a_node_that_took_no_time_has_no_speed(self, display: Display, stream: io.StringIO) -> None:
        """There is no division by zero."""
        display.finished(NodeFacts("Ingest", "ran", 0.0, "first run", 7))

        assert lines(stream) == ["✓ Ingest               0.0 s         7 records                  first run"]

    def test_the_import_of_tfx_is_announced(self, display: Display, stream: io.StringIO) -> None:
        """It takes up to ten seconds."""
        display.loading()

        assert lines(stream) == ["loading TFX …"]

    def test_executions_of_killed_runs_are_reported(self, display: Display, stream: io.StringIO) -> None:
        """One line per execution that was left open."""
        display.closed(["Trainer", "Pusher"])

        assert lines(stream) == [
            "Trainer: an earlier run was killed in this node; marked as failed",
            "Pusher: an earlier run was killed in this node; marked as failed",
        ]


class TestProgress:
    """Progress of the current node."""

    def test_one_line_is_printed_every_ten_seconds(
        self, display: Display, stream: io.StringIO, clock: SimpleNamespace
    ) -> None:
        """A log file should not get four lines per second."""
        display.started(planned("Trainer", CACHED))
        for second in range(1, 26):
            clock.now = 100.0 + second
            display.progress(Progress(80 * second, 2000, f"epoch {second}/25"))

        assert lines(stream) == [
            "▸ Trainer             11.0 s  880 of 2,000 records  80/s  epoch 11/25",
            "▸ Trainer             22.0 s  1,760 of 2,000 records  80/s  epoch 22/25",
        ]

    def test_training_has_its_own_time(self, display: Display, stream: io.StringIO, clock: SimpleNamespace) -> None:
        """Loading data and evaluation do not lower the rate of training."""
        display.started(planned("Trainer", CACHED))
        clock.now = 120.0
        display.progress(Progress(1500, 2000, "epoch 3/4", seconds=10.0))

        assert lines(stream) == ["▸ Trainer             20.0 s  1,500 of 2,000 records  150/s  epoch 3/4"]

    def test_training_shows_its_place_and_the_time_left(
        self, display: Display, stream: io.StringIO, clock: SimpleNamespace
    ) -> None:
        """Instead of the number of records; a message of the node has a line of its own."""
        display.started(planned("Trainer", CACHED))
        display.say("Trainer: resumed at epoch 3, step 18 (stopped by SIGTERM at 10:42:07)")
        clock.now = 120.0
        display.progress(Progress(1500, 2000, "loss 0.500", 10.0, "epoch 3/4  step 20/40", 95.0))

        assert lines(stream) == [
            "Trainer: resumed at epoch 3, step 18 (stopped by SIGTERM at 10:42:07)",
            "▸ Trainer             20.0 s  epoch 3/4  step 20/40  ETA 1 min 35 s  150 samples/s  loss 0.500",
        ]

    def test_an_unknown_total_is_left_out(self, display: Display, stream: io.StringIO, clock: SimpleNamespace) -> None:
        """So is an empty note."""
        display.started(planned("Ingest", CACHED))
        clock.now = 120.0
        display.progress(Progress(1500))

        assert lines(stream) == ["▸ Ingest              20.0 s  1,500 records  75/s"]


class TestPlan:
    """What a dry run prints."""

    def test_every_node_has_its_action_and_its_reason(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig], tmp_path: Path
    ) -> None:
        """The last line counts the nodes that run."""
        nodes = (
            planned("Ingest", KEPT, "before --from Trainer"),
            planned("Trainer", RUN, "code changed: components/training/trainer.py"),
            planned("ExampleValidator", CACHED, "same inputs; outputs intact"),
            planned("Baseline", LOOK_UP, "looked up in every run"),
            planned("Pusher", SKIP, "after --to Evaluator"),
        )
        display.plan(Plan(nodes), make_config())

        assert lines(stream) == [
            f"image: {tmp_path}/photos in {tmp_path}/root",
            "  Ingest           kept       before --from Trainer",
            "  Trainer          runs       code changed: components/training/trainer.py",
            "  ExampleValidator up to date same inputs; outputs intact",
            "  Baseline         looked up  looked up in every run",
            "  Pusher           skipped    after --to Evaluator",
            "1 of 5 nodes would run",
        ]

    def test_nothing_due_is_reported(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig]
    ) -> None:
        """The last line says so."""
        display.plan(Plan((planned("Ingest", CACHED, "same"),)), make_config())

        assert lines(stream)[-1] == "nothing to do"


class TestSummary:
    """The table at the end of a run."""

    def test_everything_known_is_shown(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig], tmp_path: Path
    ) -> None:
        """Counts, metrics, blessing and paths."""
        config = make_config()
        config.state.mkdir()
        config.report.touch()
        facts = replace(
            FACTS,
            records={"train": 1500, "eval": 199},
            class_counts={"train": {"cat": 900, "dog": 600}, "eval": {"cat": 100, "dog": 99}},
            ledger=(Entry("Ingest", 1702, 1699, 3),),
            quarantine_path="ingest/quarantine.jsonl",
            label="kind: classification in 2 classes",
            notes=("first line read as data",),
            warnings=("2 exact duplicates",),
            thresholds=(Threshold("accuracy", 0.98765, "at least 0.6 (evaluate.min_accuracy)", passed=True),),
            samples_per_second=860.4,
            metrics={"accuracy": 0.98765},
            blessed=True,
            model_path="serving/3",
            tensorboard="run/2/tensorboard",
        )
        display.summary(facts, config)

        assert lines(stream) == [
            "",
            "  outcome        blessed and pushed as version 3 (exit code 0)",
            "  label          kind: classification in 2 classes",
            "  records        1,699 (train 1,500, eval 199)",
            "  quarantined    3, listed in ingest/quarantine.jsonl",
            "  note           first line read as data",
            "  warning        2 exact duplicates",
            "  training       860 samples per second",
            "  accuracy       0.9877",
            "  threshold      accuracy 0.9877, expected at least 0.6 (evaluate.min_accuracy)",
            "  blessed        yes",
            "  model          serving/3",
            "  curves         tensorboard --logdir run/2/tensorboard",
            f"  report         {tmp_path}/root/report.html",
            "  time           78 s",
        ]

    def test_unknown_values_are_left_out(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig]
    ) -> None:
        """A run that failed early has only its outcome."""
        display.summary(replace(FACTS, outcome="failed: 0 examples", exit_code=4, seconds=0.0), make_config())

        assert lines(stream) == ["", "  outcome    failed: 0 examples (exit code 4)"]


class TestFailure:
    """Errors."""

    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (
                BadInput("3 of 4 files are bad:\n  cat/1.jpg: truncated"),
                ["", "3 of 4 files are bad:", "  cat/1.jpg: truncated"],
            ),
            (ValueError("no such thing"), ["", "ValueError: no such thing"]),
            (Cancelled(15), []),
        ],
        ids=["an error of ours", "an error of a library", "a signal"],
    )
    def test_an_error_is_printed_with_the_path_of_the_log(
        self, display: Display, stream: io.StringIO, error: BaseException, said: list[str]
    ) -> None:
        """Our own errors in full, others with their type; the summary has said by which signal a run was stopped."""
        display.failure(error, LOG)

        assert lines(stream) == [*said, "log: logs/1.log"]


class TestAsItIs:
    """Names and reasons are the user's text: markup in them is printed, not interpreted."""

    def test_reasons_are_not_interpreted(self, display: Display, stream: io.StringIO) -> None:
        """In the line of a finished node."""
        display.finished(NodeFacts("Trainer", "ran", 1.0, MARKUP))

        assert lines(stream) == [f"✓ Trainer              1.0 s                                    {MARKUP}"]

    def test_paths_of_a_plan_are_not_interpreted(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig], tmp_path: Path
    ) -> None:
        """A folder may be named [red]."""
        display.plan(Plan((planned("Ingest", RUN, MARKUP),)), make_config("[red]", "[bold]:x:"))

        assert lines(stream) == [
            f"image: {tmp_path}/[red] in {tmp_path}/[bold]:x:",
            f"  Ingest           runs       {MARKUP}",
            "1 of 1 nodes would run",
        ]

    def test_a_summary_is_not_interpreted(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig]
    ) -> None:
        """Outcomes quote file names."""
        display.summary(replace(FACTS, outcome=f"failed: {MARKUP}", seconds=0.0), make_config())

        assert lines(stream) == ["", f"  outcome    failed: {MARKUP} (exit code 0)"]

    def test_an_error_and_its_log_are_not_interpreted(self, display: Display, stream: io.StringIO) -> None:
        """Both contain paths."""
        display.failure(BadInput(MARKUP), Path("[red]/:x:/1.log"))

        assert lines(stream) == ["", MARKUP, "log: [red]/:x:/1.log"]

    def test_long_lines_stay_whole(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig], tmp_path: Path
    ) -> None:
        """A path with a line break can neither be searched for nor copied."""
        long = "/".join(["folder of photos"] * 30)
        display.plan(Plan((planned("Ingest", RUN, f"changed: {long}"),)), make_config(long))
        display.failure(BadInput(long), Path(long))

        assert lines(stream) == [
            f"image: {tmp_path}/{long} in {tmp_path}/root",
            f"  Ingest           runs       changed: {long}",
            "1 of 1 nodes would run",
            "",
            long,
            f"log: {long}",
        ]

    def test_a_long_path_in_the_summary_stays_whole(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig]
    ) -> None:
        """For example that of the model."""
        long = "/".join(["folder of models"] * 30)
        display.summary(replace(FACTS, model_path=long, seconds=0.0), make_config())

        assert lines(stream)[-1] == f"  model      {long}"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TextIO, Callable[[], str]]]:
    """A terminal, and a function that closes it and returns what it received."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    reader, writer = pty.openpty()
    stream = os.fdopen(writer, "w", encoding="utf-8")

    def sent() -> str:
        stream.close()
        received = b""
        with suppress(OSError):  # raised by a closed terminal
            while chunk := os.read(reader, 1 << 16):
                received += chunk
        return received.decode()

    yield stream, sent
    os.close(reader)


def test_a_terminal_shows_the_current_node(terminal: tuple[TextIO, Callable[[], str]]) -> None:
    """A live line with the node's name; a finished node has one line, as without a terminal."""
    stream, sent = terminal
    display = Display(stream)
    with display.live():
        display.loading()
        for node in ("Ingest", "Trainer"):
            display.started(planned(node))
            assert display._live is not None
            display._live.refresh()
            display.finished(NodeFacts(node, "ran", 1.0, "first run"))
    shown = sent()

    assert "\x1b[" in shown
    assert set(re.findall(r"▸ (\w*)", shown)) - {"loading"} == {"Ingest", "Trainer"}
    assert re.findall(r"✓ (\w+)", shown) == ["Ingest", "Trainer"]
