"""What a run prints: a live line on a terminal, plain lines elsewhere, and a summary at the end."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from components import progress
from components.errors import PenstockError
from components.ingest.survey import detect
from components.ingest.survey.spans import Span
from components.ingest.survey.survey import Survey
from components.progress import Progress
from components.records.manifest import QUARANTINE, Manifest
from components.redact import redact
from pipelines.config import RunConfig
from pipelines.orchestration import plan
from pipelines.orchestration.outcome import NodeFacts
from pipelines.orchestration.plan import NodePlan, Plan
from pipelines.orchestration.schema import Curated
from pipelines.report.facts import RunFacts
from pipelines.report.formatting import duration

if TYPE_CHECKING:  # NumPy is not needed for `penstock run`
    from components.inference.close import Predicted
    from components.inference.data import Data
    from components.inference.find_model import ModelFolder

_SYMBOLS = {"ran": "✓", "cached": "=", "failed": "✗", "skipped": "·"}
_STYLES = {"ran": "green", "cached": "cyan", "failed": "red bold", "skipped": "dim"}
_WORDS = {
    plan.RUN: "runs",
    plan.CACHED: "up to date",
    plan.KEPT: "kept",
    plan.LOOK_UP: "looked up",
    plan.SKIP: "skipped",
}
_COLUMNS = 10  # that are named
_PLAIN_INTERVAL = 10.0  # seconds between progress lines without a terminal


class Display:
    """Prints the progress and the result of a run to one stream."""

    def __init__(self, stream: TextIO) -> None:
        """Detects whether the stream is a terminal."""
        # Names, paths and reasons are the user's text: printed as they are, without markup and line breaks.
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._live: Live | None = None
        self._node, self._begun, self._printed = "", 0.0, 0.0
        self._progress: Progress | None = None

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keeps a live last line on a terminal."""
        if not self._console.is_terminal:
            yield
            return
        # Without redirection: the output of libraries goes to the log.
        with Live(
            get_renderable=self._line,
            console=self._console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as live:
            self._live = live
            yield
        self._live = None

    def run(self, run: str, call: int) -> None:
        """Reports the id of the run, by which other commands find it."""
        self._console.print(f"run {run}" + (f", call {call}" if call > 1 else ""))

    def closed(self, nodes: list[str]) -> None:
        """Reports executions that a killed run left open."""
        for node in nodes:
            self._console.print(f"{node}: an earlier run was killed in this node; marked as failed")

    def loading(self) -> None:
        """Reports that TFX is being imported, which takes seconds."""
        self._node, self._begun, self._progress = "loading TFX", time.monotonic(), None
        if self._live is None:
            self._console.print("loading TFX …")

    def started(self, planned: NodePlan) -> None:
        """Starts the clock of a node; its line is printed when it has finished."""
        self._begun = self._printed = time.monotonic()
        self._node, self._progress = planned.node.id, None

    def progress(self, progress: Progress) -> None:
        """Shows the progress of the current node."""
        self._progress = progress
        if self._live is None and time.monotonic() - self._printed > _PLAIN_INTERVAL:
            self._printed = time.monotonic()
            self._console.print(self._line())

    def finished(self, node: NodeFacts) -> None:
        """Prints the line of a node that has finished."""
        speed = _speed_of(node) if node.state == "ran" else ""
        records = f"{node.records:,} records" if node.records is not None else ""
        text = Text.assemble(
            (f"{_SYMBOLS[node.state]} {node.id:<17}", _STYLES[node.state]),
            f"{node.seconds:>7.1f} s  {records:>16}  {speed:>14}  ",
            ("; ".join(filter(None, [node.reason, node.note])), "dim"),
        )
        self._console.print(text)

    def plan(self, planned: Plan, config: RunConfig) -> None:
        """Prints for each node whether it runs, and why."""
        self._console.print(f"{config.name}: {config.data} in {config.root}")
        for each in planned.nodes:
            style = "yellow" if each.action == plan.RUN else "cyan" if each.action == plan.CACHED else "dim"
            self._console.print(
                Text.assemble(f"  {each.node.id:<17}", (f"{_WORDS[each.action]:<11}", style), each.reason)
            )
        due = len(planned.due)
        self._console.print("nothing to do" if not due else f"{due} of {len(planned.nodes)} nodes would run")

    def summary(self, facts: RunFacts, config: RunConfig) -> None:
        """Prints the table at the end of a run."""
        self._console.print()
        self._rows(_summary_rows(facts, config))

    def schema(self, schema: Curated) -> None:
        """Prints the path of a schema that was inferred in this run."""
        when = (
            "inferred again, because settings of ingest have changed" if schema.is_again else "inferred from the data"
        )
        self._console.print(f"schema: {when}; check it and edit it if needed: {schema.file}")

    def say(self, message: str) -> None:
        """Prints a message of a running node."""
        self._console.print(message)

    def warning(self, message: str) -> None:
        """Prints a warning."""
        self._console.print(Text(f"warning: {message}", style="yellow"))

    def surveyed(self, found: Survey) -> None:
        """Prints what will be read: source, spans, columns by type."""
        files, size = len(found.listing.files), found.listing.size
        rows = [("source", f"{detect.name_of(found.source)}: {files:,} files, {size / 1e6:,.1f} MB")]
        if found.spans[0].span.number is not None:
            rows.append(("spans", ", ".join(_span_text(part.span) for part in found.spans)))
        if found.table is not None:
            from components.ingest.survey import columns, identity

            rows += _by_type(columns.describe(found.table.schema, found.table.label, found.table.images))
            if names := identity.left_out(found.table.schema, found.table.label):
                rows.append(("not compared", f"{', '.join(names)} (no part in duplicates and splits)"))
            rows += [("note", note) for note in found.table.notes]
        self._rows(rows)

    def ingested(self, made: Manifest, out: Path) -> None:
        """Prints the result of `penstock ingest`."""
        counts = ", ".join(f"{split} {count:,}" for split, count in made.records.items())
        size = sum(shard.bytes for shard in made.shards)
        rows = [
            ("records", f"{sum(made.records.values()):,} of {made.found:,} ({counts})"),
            ("quarantined", f"{made.quarantined:,}" + (f", listed in {out / QUARANTINE}" if made.quarantined else "")),
            ("shards", f"{len(made.shards)}, {size / 1e6:,.1f} MB"),
            *(("warning", warning) for warning in made.warnings_in(out)),
            ("folder", str(out)),
        ]
        self._rows(rows)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Shows the progress of one piece of work that is not a node."""
        self._node, self._begun, self._progress = what, time.monotonic(), None
        self._printed = self._begun
        with self.live(), progress.listening(self.progress, self.say):
            yield

    def predicting(self, model: "ModelFolder", found: "Data") -> None:
        """Prints which model predicts what; the clock starts now, after the imports."""
        self._begun = self._printed = time.monotonic()
        reading = model.reading
        version = f", version {model.version}" if model.version else ""
        ignored = f", {found.ignored:,} other files ignored" if found.ignored else ""
        what = f"{len(reading.classes)} classes" if reading.classes else "a quantity"
        rows = [
            ("model", f"{model.path}{version}: {what}"),
            ("source", f"{found.source}: {found.files:,} files{ignored}"),
        ]
        if found.columns is not None:
            names = list(found.columns.arguments.values())
            more = f" and {len(names) - _COLUMNS} more" if len(names) > _COLUMNS else ""
            rows.append(("columns", ", ".join(names[:_COLUMNS]) + more))
            rows.append(("label", found.columns.label or "none in the data"))
            rows += [("note", note) for note in found.columns.notes]
        self._rows(rows)

    def predicted(self, made: "Predicted", out: str) -> None:
        """Prints the result of `penstock predict`."""
        size = sum(file.bytes for file in made.files)
        rows = [
            ("records", f"{made.predicted:,} of {made.records:,} predicted"),
            ("quarantined", f"{made.quarantined:,}" + (f", listed in {out}/{QUARANTINE}" if made.quarantined else "")),
            ("files", f"{len(made.files)}, {size / 1e6:,.1f} MB"),
        ]
        if made.unknown_labels:
            rows.append(("warning", f"{made.unknown_labels:,} labels are none of the model's classes; not in metrics"))
        if made.metrics:
            rows.append(("labelled", f"{made.labelled:,}"))
        rows += [(name, f"{value:.4f}") for name, value in made.metrics.items()]
        self._rows([*rows, ("folder", out)])

    def failure(self, error: BaseException, log: Path) -> None:
        """Prints the error, in full if it is one of ours, and the path of the log; a signal is in the summary."""
        if not isinstance(error, KeyboardInterrupt):
            message = redact(str(error))
            text = message if isinstance(error, PenstockError) else f"{type(error).__name__}: {message[:2000]}"
            self._console.print(Text(f"\n{text}", style="red"))
        self._console.print(f"log: {log}", style="dim")

    def _rows(self, rows: Sequence[tuple[str, str]]) -> None:
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            self._console.print(Text.assemble((f"  {name:<{width}}    ", "bold"), value))

    def _line(self) -> Text:
        elapsed = time.monotonic() - self._begun
        line = f"▸ {self._node:<17}{elapsed:>7.1f} s"
        if self._progress is not None:
            line += f"  {_progress_text(self._progress, elapsed)}"
        return Text(line, style="bold")


def _progress_text(progress: Progress, elapsed: float) -> str:
    of = f" of {progress.total:,}" if progress.total else ""
    speed = _speed(progress.done, progress.seconds or elapsed)
    parts = [
        progress.place or f"{progress.done:,}{of} records",
        f"ETA {duration(progress.left)}" if progress.left is not None else "",
        speed.replace("/s", " samples/s") if progress.place else speed,
        progress.note,
    ]
    return "  ".join(filter(None, parts))


def _speed_of(node: NodeFacts) -> str:
    if node.samples_per_second is not None:
        return f"{node.samples_per_second:,.0f} samples/s"
    return _speed(node.records, node.seconds)


def _speed(records: int | None, seconds: float) -> str:
    return f"{records / seconds:,.0f}/s" if records and seconds > 0 else ""


def _summary_rows(facts: RunFacts, config: RunConfig) -> list[tuple[str, str]]:
    rows = [("outcome", f"{facts.outcome} (exit code {facts.exit_code})")]
    counts = facts.records
    if facts.label:
        rows.append(("label", facts.label))
    if counts:
        split_text = ", ".join(f"{split} {count:,}" for split, count in counts.items())
        rows.append(("records", f"{sum(counts.values()):,} ({split_text})"))
        quarantined = next((row.quarantined for row in facts.ledger if row.node == "Ingest"), 0)
        where = f", listed in {facts.quarantine_path}" if facts.quarantine_path else ""
        rows.append(("quarantined", f"{quarantined:,}{where}"))
    rows += [("note", note) for note in facts.notes]
    rows += [("failed try", f"{node.id}: {failure}") for node in facts.nodes for failure in node.failures]
    rows += [("warning", warning) for warning in facts.warnings]
    if facts.samples_per_second is not None:
        rows.append(("training", f"{facts.samples_per_second:,.0f} samples per second"))
    rows += [(name, f"{value:.4f}") for name, value in facts.metrics.items()]
    rows += [("threshold", f"{each.metric} {each.value:.4f}, expected {each.threshold}") for each in facts.thresholds]
    if facts.blessed is not None:
        rows.append(("blessed", "yes" if facts.blessed else "no"))
    if facts.model_path:
        rows.append(("model", facts.model_path))
    if facts.tensorboard:
        rows.append(("curves", f"tensorboard --logdir {facts.tensorboard}"))
    if config.report.exists():
        rows.append(("report", str(config.report)))
    if facts.seconds:
        rows.append(("time", f"{facts.seconds:.0f} s"))
    return rows


def _span_text(span: Span) -> str:
    return span.text + (f" version {span.version}" if span.version is not None else "")


def _by_type(columns: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Returns one row per column type, and one per column that has a note."""
    plain: dict[str, list[str]] = {}
    noted: list[tuple[str, str]] = []
    for name, kind, note in columns:
        plain.setdefault(kind, []).append(name)
        noted += [(note, name)] if note else []
    return [(kind, ", ".join(names)) for kind, names in plain.items()] + noted
