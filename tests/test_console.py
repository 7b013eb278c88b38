"""Where there is no terminal, a run is told in plain lines: no escape codes, nothing wrapped, nothing interpreted."""

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
from pipelines import config as run_config
from pipelines import console
from pipelines.config import RunConfig
from pipelines.console import Display
from pipelines.orchestration import graph
from pipelines.orchestration.plan import CACHED, HELD, LOOK_UP, RUN, SKIP, NodePlan, Plan
from pipelines.report.facts import LedgerRow, NodeFacts, RunFacts

MARKUP = "[red]stop[/red] [/] [link=x]y :warning: \\"
LOG = Path("logs/1.log")
FACTS = RunFacts(
    pipeline="image", task="image", started="2025-11-14T09:26:53Z", seconds=78.4,
    outcome="blessed and pushed as version 3", exit_code=0,
)  # fmt: skip


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A stream that is no terminal, whatever the environment says of colours."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return io.StringIO()


@pytest.fixture
def display(stream: io.StringIO) -> Display:
    """The display on it."""
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
    """Makes configurations, away from any settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_SETTINGS", raising=False)

    def make(data: str = "photos", root: str = "root") -> RunConfig:
        return run_config.make("image", data=data, root=root)

    return make


def lines(stream: io.StringIO) -> list[str]:
    """Returns what was printed, without blanks at the ends of lines."""
    return [line.rstrip() for line in stream.getvalue().split("\n")[:-1]]


def planned(node: str, action: str = RUN, reason: str = "first run") -> NodePlan:
    """Returns what is planned for a node."""
    return NodePlan(graph.find(node), action, reason)


class TestNodes:
    """What is told while nodes run."""

    def test_a_node_that_begins_says_why(self, display: Display, stream: io.StringIO) -> None:
        """One line."""
        display.started(planned("Trainer", reason="settings changed: train.epochs"))

        assert lines(stream) == ["  Trainer: settings changed: train.epochs"]

    @pytest.mark.parametrize("action", [CACHED, HELD, LOOK_UP])
    def test_a_node_that_does_not_run_does_not_begin(self, display: Display, stream: io.StringIO, action: str) -> None:
        """Its line comes when it is done."""
        display.started(planned("Trainer", action))

        assert lines(stream) == []

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
        ids=["ran", "ran without records", "cached", "failed", "skipped"],
    )
    def test_a_node_that_is_done_leaves_a_line(
        self, display: Display, stream: io.StringIO, facts: NodeFacts, line: str
    ) -> None:
        """Time, records, speed if it worked, and why."""
        display.finished(facts)

        assert lines(stream) == [line]

    def test_a_node_done_in_no_time_has_no_speed(self, display: Display, stream: io.StringIO) -> None:
        """Nothing is divided by zero."""
        display.finished(NodeFacts("Ingest", "ran", 0.0, "first run", 7))

        assert lines(stream) == ["✓ Ingest               0.0 s         7 records                  first run"]

    def test_the_long_import_is_told(self, display: Display, stream: io.StringIO) -> None:
        """Else nothing would be seen for ten seconds."""
        display.loading()

        assert lines(stream) == ["loading TFX …"]

    def test_killed_runs_are_told(self, display: Display, stream: io.StringIO) -> None:
        """A line for each node that was left open."""
        display.swept(["Trainer", "Pusher"])

        assert lines(stream) == [
            "Trainer: an earlier run was killed in it; marked as failed",
            "Pusher: an earlier run was killed in it; marked as failed",
        ]


class TestProgress:
    """How far a node is."""

    def test_a_line_is_due_every_ten_seconds(
        self, display: Display, stream: io.StringIO, clock: SimpleNamespace
    ) -> None:
        """A log file is no place for four lines a second."""
        display.started(planned("Trainer", CACHED))
        for second in range(1, 26):
            clock.now = 100.0 + second
            display.progress(Progress(80 * second, 2000, f"epoch {second}/25"))

        assert lines(stream) == [
            "▸ Trainer             11.0 s  880 of 2,000 records  80/s  epoch 11/25",
            "▸ Trainer             22.0 s  1,760 of 2,000 records  80/s  epoch 22/25",
        ]

    def test_what_has_no_known_end_has_none_in_its_line(
        self, display: Display, stream: io.StringIO, clock: SimpleNamespace
    ) -> None:
        """Nor a note, if there is none."""
        display.started(planned("Ingest", CACHED))
        clock.now = 120.0
        display.progress(Progress(1500))

        assert lines(stream) == ["▸ Ingest              20.0 s  1,500 records  75/s"]


class TestPlan:
    """What a dry run says."""

    def test_every_node_has_its_word_and_its_reason(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig], tmp_path: Path
    ) -> None:
        """And the last line counts what is due."""
        nodes = (
            planned("Ingest", HELD, "before --from Trainer"),
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

    def test_nothing_due_is_said(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig]
    ) -> None:
        """In so many words."""
        display.plan(Plan((planned("Ingest", CACHED, "same"),)), make_config())

        assert lines(stream)[-1] == "nothing to do"


class TestSummary:
    """The one table at the end."""

    def test_all_that_is_known_is_shown(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig], tmp_path: Path
    ) -> None:
        """Counts, metrics, verdict and where things are."""
        config = make_config()
        config.root.mkdir()
        config.report.touch()
        facts = replace(
            FACTS,
            records={"train": 1500, "eval": 199},
            class_counts={"train": {"cat": 900, "dog": 600}, "eval": {"cat": 100, "dog": 99}},
            ledger=(LedgerRow("Ingest", 1702, 1699, 3),),
            quarantine_path="ingest/quarantine.jsonl",
            warnings=("2 exact duplicates",),
            metrics={"accuracy": 0.98765},
            blessed=True,
            model_path="serving/3",
        )
        display.summary(facts, config)

        assert lines(stream) == [
            "",
            "  outcome        blessed and pushed as version 3 (exit code 0)",
            "  records        1,699 in 2 classes (train 1,500, eval 199)",
            "  quarantined    3, listed in ingest/quarantine.jsonl",
            "  warning        2 exact duplicates",
            "  accuracy       0.9877",
            "  blessed        yes",
            "  model          serving/3",
            f"  report         {tmp_path}/root/report.html",
            "  time           78 s",
        ]

    def test_what_is_not_known_is_left_out(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig]
    ) -> None:
        """A run that failed at once has little to show."""
        display.summary(replace(FACTS, outcome="failed: 0 examples", exit_code=4, seconds=0.0), make_config())

        assert lines(stream) == ["", "  outcome    failed: 0 examples (exit code 4)"]


class TestFailure:
    """What went wrong."""

    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (
                BadInput("3 of 4 files are bad:\n  cat/1.jpg: truncated"),
                ["3 of 4 files are bad:", "  cat/1.jpg: truncated"],
            ),
            (ValueError("no such thing"), ["ValueError: no such thing"]),
            (Cancelled(15), ["Cancelled: stopped by SIGTERM"]),
        ],
        ids=["an error of ours", "an error of a library", "a signal"],
    )
    def test_an_error_is_told_with_the_place_to_look(
        self, display: Display, stream: io.StringIO, error: BaseException, said: list[str]
    ) -> None:
        """Ours in full and as they are, others with their type."""
        display.failure(error, LOG)

        assert lines(stream) == ["", *said, "log: logs/1.log"]


class TestAsItIs:
    """Names and reasons are the user's: nothing in them is a command to the display."""

    def test_reasons_are_not_interpreted(self, display: Display, stream: io.StringIO) -> None:
        """When a node begins and when it is done."""
        display.started(planned("Trainer", reason=MARKUP))
        display.finished(NodeFacts("Trainer", "ran", 1.0, MARKUP))

        assert lines(stream) == [
            f"  Trainer: {MARKUP}",
            f"✓ Trainer              1.0 s                                    {MARKUP}",
        ]

    def test_paths_of_a_plan_are_not_interpreted(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig], tmp_path: Path
    ) -> None:
        """A folder may be called [red]."""
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
        """Both hold paths."""
        display.failure(BadInput(MARKUP), Path("[red]/:x:/1.log"))

        assert lines(stream) == ["", MARKUP, "log: [red]/:x:/1.log"]

    def test_long_lines_stay_whole(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig], tmp_path: Path
    ) -> None:
        """A path that is broken in two can neither be searched for nor copied."""
        long = "/".join(["folder of photos"] * 30)
        display.plan(Plan((planned("Ingest", RUN, f"changed: {long}"),)), make_config(long))
        display.started(planned("Ingest", RUN, f"changed: {long}"))
        display.failure(BadInput(long), Path(long))

        assert lines(stream) == [
            f"image: {tmp_path}/{long} in {tmp_path}/root",
            f"  Ingest           runs       changed: {long}",
            "1 of 1 nodes would run",
            f"  Ingest: changed: {long}",
            "",
            long,
            f"log: {long}",
        ]

    def test_a_long_path_in_the_summary_stays_whole(
        self, display: Display, stream: io.StringIO, make_config: Callable[..., RunConfig]
    ) -> None:
        """The model's, most of all."""
        long = "/".join(["folder of models"] * 30)
        display.summary(replace(FACTS, model_path=long, seconds=0.0), make_config())

        assert lines(stream)[-1] == f"  model      {long}"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TextIO, Callable[[], str]]]:
    """A terminal, and what it has been sent once it is closed."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    reader, writer = pty.openpty()
    stream = os.fdopen(writer, "w", encoding="utf-8")

    def sent() -> str:
        stream.close()
        received = b""
        with suppress(OSError):  # how a terminal says that it was closed
            while chunk := os.read(reader, 1 << 16):
                received += chunk
        return received.decode()

    yield stream, sent
    os.close(reader)


def test_a_terminal_shows_the_node_that_runs(terminal: tuple[TextIO, Callable[[], str]]) -> None:
    """In a line that moves and never lacks a name; a node that is done leaves one line, as anywhere."""
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
