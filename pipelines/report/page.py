"""The page of one run: a single file that opens offline, runs no script and loads nothing.

    RunFacts ─► what each section shows (plain values) ─► page.html.j2 ─► report.html

Safe by construction, not by care in the template: autoescape is on, every string that reaches the page is bounded and
cleaned on its way out (`finalize`), and the policy in the head allows one style sheet, known by its hash, and `data:`
images. A section whose facts are missing is not there at all.
"""

import base64
import functools
import hashlib
import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path
from typing import Generic, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image, ImageOps

from pipelines.orchestration.outcome import NodeFacts
from pipelines.report import charts
from pipelines.report.facts import RunFacts, SampleImage

MOST_NODES = 60
MOST_ROWS = 50
MOST_QUARANTINED = 20  # the full list is a file of its own
MOST_CLASSES = 30
MOST_SAMPLES = 60
MOST_SAMPLE_BYTES = 30_000  # a larger one is shown as a thumbnail
MOST_PIXELS = 50_000_000  # a larger one is not decoded at all
THUMBNAIL = 256
MOST_CURVES = 12
MOST_METRICS = 24
MATRIX_CLASSES = 30
SMALL_IMAGE = 64  # up to so many pixels a side an image is shown enlarged, pixel by pixel
CANCELLED = (130, 143)

# The rest is JPEG, for which Pillow has a second name: MPO, one with several images.
_MIME = {"PNG": "png", "GIF": "gif", "WEBP": "webp"}
_MINUTE = 60

_T = TypeVar("_T")


@dataclass(frozen=True)
class Cut(Generic[_T]):
    """The first of many, and how many are left out."""

    shown: tuple[_T, ...]
    left: int

    @classmethod
    def of(cls, items: Sequence[_T], most: int) -> "Cut[_T]":
        """Returns at most so many of the items."""
        return cls(tuple(items[:most]), max(0, len(items) - most))


@dataclass(frozen=True)
class Badge:
    """How the run ended, in two words and a colour."""

    text: str
    kind: str  # "ran", "warning", "failed", "cached": the state whose colour and mark it takes


@dataclass(frozen=True)
class Tile:
    """One headline number."""

    name: str
    value: str
    note: str = ""
    good: bool | None = None  # whether a bar was passed


@dataclass(frozen=True)
class ClassRow:
    """The records of one class, by split."""

    name: str
    counts: tuple[int, ...]
    bars: tuple[float, ...]  # its part of each split, 1 for the largest part of all

    @property
    def total(self) -> int:
        """The records of the class in all splits."""
        return sum(self.counts)

    def label(self, splits: Sequence[str]) -> str:
        """Returns what its bars say, for those who hear the page."""
        counts = ", ".join(f"{charts.fit(split, 20)} {count}" for split, count in zip(splits, self.counts, strict=True))
        return f"{charts.fit(self.name, 60)}: {counts}"


@dataclass(frozen=True)
class Balance:
    """How the records spread over classes and splits."""

    splits: tuple[str, ...]
    totals: tuple[int, ...]
    rows: Cut[ClassRow]
    left_records: int  # in the classes left out
    largest: ClassRow
    smallest: ClassRow


@dataclass(frozen=True)
class Picture:
    """A sample image ready for the page; without an address when a browser could not show it."""

    label: str
    address: Markup | None
    small: bool
    note: str


@dataclass(frozen=True)
class Curve:
    """One metric by epoch."""

    name: str
    lines: Mapping[str, tuple[float, ...]]
    final: tuple[tuple[int, str, float], ...]  # place, split, and its value at the best epoch, else the last one

    @property
    def broken(self) -> bool:
        """Whether a value is no number."""
        return not all(math.isfinite(value) for values in self.lines.values() for value in values)


@dataclass(frozen=True)
class Pair:
    """Two classes that the model takes for one another."""

    true: str
    predicted: str
    count: int
    whole: int  # records of the true class


def render(facts: RunFacts) -> str:
    """Returns the page of a run as HTML.

    Args:
      facts: what the run has to tell; `best_epoch` is an index into the curves, shown counted from 1.
    """
    template = _environment().get_template("page.html.j2")
    return template.render(
        facts=facts,
        badge=badge(facts),
        sections=_sections(facts),
        started=_moment(facts.started),
        tiles=Cut.of(_tiles(facts), MOST_METRICS),
        nodes=Cut.of(facts.nodes, MOST_NODES),
        slowest=max((_seconds(node) for node in facts.nodes), default=0.0),
        node_seconds=sum(_seconds(node) for node in facts.nodes),
        ledger=Cut.of(facts.ledger, MOST_ROWS),
        quarantined=Cut.of(facts.quarantined, MOST_QUARANTINED),
        quarantined_total=_quarantined(facts),
        warnings=Cut.of(facts.warnings, MOST_ROWS),
        balance=balance(facts),
        images=Cut.of([picture(sample) for sample in facts.samples[:MOST_SAMPLES]], MOST_SAMPLES),
        sample_count=len(facts.samples),
        curves=Cut.of(_curves(facts), MOST_CURVES),
        best=_best(facts),
        bars=Cut.of(facts.bars, MOST_ROWS),
        slices=Cut.of(sorted(facts.slices, key=lambda row: (row[0], row[2])), MOST_ROWS),
        pairs=_pairs(facts),
        names=_class_names(facts),
        has_matrix=0 < len(facts.confusion) <= MATRIX_CLASSES,
    )


def write(facts: RunFacts, path: Path) -> None:
    """Writes the page of a run, whole or not at all: a reader never sees half of it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            file.write(render(facts).encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def badge(facts: RunFacts) -> Badge:
    """Returns how a run ended: a broken node outweighs a verdict on the model."""
    if facts.exit_code in CANCELLED:
        return Badge("Cancelled", "warning")
    if any(node.state == "failed" for node in facts.nodes):
        return Badge("Failed", "failed")
    if facts.blessed is False:
        return Badge("Not blessed", "warning")
    if facts.exit_code != 0:
        return Badge("Failed", "failed")
    if facts.blessed:
        return Badge("Blessed & pushed" if facts.model_path else "Blessed", "ran")
    return Badge("Finished", "cached")


def duration(seconds: float) -> str:
    """Returns a span of time in the two units that matter."""
    if not math.isfinite(seconds) or seconds < 0:
        return "–"
    if round(seconds, 1) < _MINUTE:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def balance(facts: RunFacts) -> Balance | None:
    """Returns the class table: in the order given when it is short, else the largest classes first."""
    splits = tuple(split for split in _splits(facts) if split in facts.class_counts)
    names = dict.fromkeys(name for split in splits for name in facts.class_counts[split])
    if not names:
        return None
    totals = tuple(sum(facts.class_counts[split].values()) for split in splits)
    table = {name: tuple(facts.class_counts[split].get(name, 0) for split in splits) for name in names}
    top = max((_part(count, whole) for counts in table.values() for count, whole in zip(counts, totals, strict=True)))
    rows = [
        ClassRow(name, counts, tuple(_part(_part(*pair), top) for pair in zip(counts, totals, strict=True)))
        for name, counts in table.items()
    ]
    ranked = sorted(rows, key=lambda row: -row.total)
    shown = Cut.of(rows if len(rows) <= MOST_CLASSES else ranked, MOST_CLASSES)
    left = sum(totals) - sum(row.total for row in shown.shown)
    return Balance(splits, totals, shown, left, largest=ranked[0], smallest=ranked[-1])


def picture(sample: SampleImage) -> Picture:
    """Returns a sample as a `data:` address, made smaller where it is large."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # MOST_PIXELS is the stricter limit
            return _image(sample)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # what Pillow raises for broken images
        return Picture(sample.label, None, small=False, note="cannot be shown")


def _image(sample: SampleImage) -> Picture:
    with Image.open(BytesIO(sample.content), formats=("PNG", "JPEG", "GIF", "WEBP")) as image:
        width, height = image.size
        note = f"{width} × {height}"
        if width * height > MOST_PIXELS:
            return Picture(sample.label, None, small=False, note=f"{note}, not shown")
        kind, content = _MIME.get(image.format or "", "jpeg"), sample.content
        if len(content) > MOST_SAMPLE_BYTES:
            kind, content = "jpeg", _thumbnail(image)
    address = Markup("data:image/{};base64,{}").format(kind, base64.b64encode(content).decode("ascii"))
    return Picture(sample.label, address, small=max(width, height) <= SMALL_IMAGE, note=note)


def _thumbnail(image: Image.Image) -> bytes:
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = BytesIO()
    ImageOps.exif_transpose(image).convert("RGB").save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=charts.number, duration=duration, sha256=_sha256, spaced=_spaced, fit=charts.fit, breakable=_breakable
    )
    environment.globals.update(
        bars_chart=charts.bars,
        bars_key=charts.bars_key,
        check_mark=charts.check_mark,
        heat_map=charts.heat_map,
        line_chart=charts.line_chart,
        share=charts.share,
        state_symbol=charts.state_symbol,
        swatch=charts.swatch,
    )
    return environment


def _finalize(value: object) -> object:
    """Bounds and cleans every string that leaves the template; markup of our own passes."""
    return charts.fit(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _spaced(name: str) -> str:
    return charts.fit(name).replace("_", " ")


def _breakable(text: str) -> Markup:
    """Lets a path or a long name break after its separators before it breaks anywhere."""
    pieces = re.split(r"(?<=[/_])", charts.fit(text))
    return Markup("<wbr>").join(pieces)


def _sections(facts: RunFacts) -> dict[str, str]:
    """The sections that have something to show, by anchor, in the order of the page."""
    sections = (
        ("chain", "Chain", bool(facts.nodes)),
        ("time", "Time", any(_seconds(node) > 0 for node in facts.nodes)),
        ("ledger", "Ledger", bool(facts.ledger)),
        ("quarantine", "Quarantine", bool(facts.quarantined) or _quarantined(facts) > 0),
        ("warnings", "Warnings", bool(facts.warnings)),
        ("classes", "Class balance", any(facts.class_counts.values())),
        ("samples", "Samples", bool(facts.samples)),
        ("curves", "Learning curves", bool(_curves(facts))),
        ("bars", "Bars", bool(facts.bars)),
        ("slices", "Slices", bool(facts.slices)),
        ("confusion", "Confusion", bool(facts.confusion)),
    )
    return {anchor: title for anchor, title, present in sections if present}


def _moment(started: str) -> str:
    try:
        moment = datetime.fromisoformat(started.strip().replace("Z", "+00:00"))
    except ValueError:
        return started
    if moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc)
    return f"{moment.day} {moment:%B %Y, %H:%M:%S} UTC"


def _tiles(facts: RunFacts) -> list[Tile]:
    tiles = [_metric_tile(facts, name, value) for name, value in facts.metrics.items()]
    records = sum(facts.records.values()) or (facts.ledger[0].records_out if facts.ledger else 0)
    if records:
        tiles.append(Tile("records", charts.number(records), _split_note(facts)))
    if facts.ledger or facts.quarantined:
        count = _quarantined(facts)
        tiles.append(Tile("quarantined", charts.number(count), "" if count else "every record was kept"))
    return tiles


def _metric_tile(facts: RunFacts, name: str, value: float) -> Tile:
    bar = next((bar for bar in facts.bars if bar.metric == name), None)
    return Tile(_spaced(name), charts.number(value), bar.bar if bar else "", bar.passed if bar else None)


def _split_note(facts: RunFacts) -> str:
    sizes = {split: facts.records.get(split, 0) for split in _splits(facts)}
    return ", ".join(
        f"{charts.fit(split, 20)}\N{NO-BREAK SPACE}{charts.number(size)}" for split, size in sizes.items() if size
    )


def _splits(facts: RunFacts) -> tuple[str, ...]:
    """All splits, train and eval first, so that a split has one colour all over the page."""
    named = [*facts.class_counts, *(split for lines in facts.curves.values() for split in lines)]
    first = [split for split in ("train", "eval") if split in named]
    return tuple(dict.fromkeys([*first, *named]))


def _quarantined(facts: RunFacts) -> int:
    return max(len(facts.quarantined), sum(row.quarantined for row in facts.ledger))


def _curves(facts: RunFacts) -> list[Curve]:
    order = _splits(facts)
    curves = []
    for name, lines in facts.curves.items():
        if any(lines.values()):
            # A split without values keeps its place: the place gives the colour.
            placed = {split: lines.get(split, ()) for split in order}
            curves.append(Curve(name, placed, _final(placed, _best(facts))))
    return curves


def _best(facts: RunFacts) -> int | None:
    """The epoch that was kept, counted from 1 as people do."""
    return None if facts.best_epoch is None else facts.best_epoch + 1


def _final(lines: Mapping[str, tuple[float, ...]], best: int | None) -> tuple[tuple[int, str, float], ...]:
    return tuple(
        (place, split, values[best - 1] if best and 1 <= best <= len(values) else values[-1])
        for place, (split, values) in enumerate(lines.items())
        if values
    )


def _pairs(facts: RunFacts) -> tuple[Pair, ...]:
    names = _class_names(facts)
    limit = 10 if len(facts.confusion) <= MATRIX_CLASSES else 20
    return tuple(
        Pair(names[true], names[predicted], count, sum(facts.confusion[true]))
        for true, predicted, count in charts.confused_pairs(facts.confusion, limit)
    )


def _class_names(facts: RunFacts) -> tuple[str, ...]:
    """One name a row of the confusion matrix, its number where the name is not known."""
    return tuple(facts.classes[row] if row < len(facts.classes) else str(row) for row in range(len(facts.confusion)))


def _seconds(node: NodeFacts) -> float:
    return node.seconds if math.isfinite(node.seconds) and node.seconds > 0 else 0.0


def _part(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
