"""What each section of the page shows: facts in, plain values out. A section without facts is left out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.orchestration.outcome import part_of_threshold
from pipelines.report.facts import RunFacts
from pipelines.report.formatting import fit, number
from pipelines.report.heat_map import HeatMap, heat_map
from pipelines.report.line_chart import LineChart, line_chart
from pipelines.report.retraining import gates

MAX_CLASSES = 30  # in the class table, and as a confusion matrix
MAX_PAIRS = 20  # of confused classes; half as many beside a matrix
CANCELLED = (130, 143)


@dataclass(frozen=True)
class Badge:
    """How the run ended, in a word or two and a colour."""

    text: str
    kind: str  # "ran", "warning", "failed", "cached": the state that gives colour and symbol


@dataclass(frozen=True)
class Tile:
    """One headline number."""

    name: str
    value: str
    note: str = ""
    passed: bool | None = None  # whether the metric reached its threshold


@dataclass(frozen=True)
class ClassRow:
    """The records of one class by split."""

    name: str
    counts: tuple[int, ...]
    bars: tuple[float, ...]  # its share of each split, relative to the largest share in the table

    @property
    def total(self) -> int:
        """The records of the class in all splits."""
        return sum(self.counts)

    def label(self, splits: Sequence[str]) -> str:
        """Returns the counts as text, for screen readers."""
        counts = ", ".join(f"{fit(split, 20)} {count}" for split, count in zip(splits, self.counts, strict=True))
        return f"{fit(self.name, 60)}: {counts}"


@dataclass(frozen=True)
class Balance:
    """Records by class and split."""

    splits: tuple[str, ...]
    totals: tuple[int, ...]
    rows: tuple[ClassRow, ...]
    left: int  # classes that are left out
    left_records: int  # in these classes
    largest: ClassRow
    smallest: ClassRow


@dataclass(frozen=True)
class Curve:
    """One metric per epoch."""

    name: str
    lines: Mapping[str, tuple[float, ...]]
    final: tuple[tuple[int, str, float], ...]  # colour, split, value at the best or else the last epoch

    def chart(self, best: int | None) -> LineChart | None:
        """Returns the chart of the metric; None if no value can be drawn."""
        return line_chart(self.name, self.lines, best)

    @property
    def broken(self) -> bool:
        """Whether a value is NaN or infinite."""
        return not all(math.isfinite(value) for values in self.lines.values() for value in values)


def present(facts: RunFacts) -> dict[str, str]:
    """Returns the titles of the sections that have something to show, by anchor, in the order of the page."""
    sections = (
        ("pipeline", "Pipeline", bool(facts.nodes)),
        ("gates", "Gates", bool(gates(facts))),
        ("lineage", "Lineage", bool(facts.lineage)),
        ("span", "What is new in this span", bool(facts.drift)),
        ("against", "Candidate against live model", facts.compared is not None),
        ("time", "Time per node", any(node.seconds > 0 for node in facts.nodes)),
        ("ledger", "Ledger", bool(facts.ledger)),
        ("quarantine", "Quarantine", quarantined(facts) > 0),
        ("notes", "Notes", bool(facts.notes)),
        ("warnings", "Warnings", bool(facts.warnings)),
        ("classes", "Class balance", any(facts.class_counts.values())),
        ("samples", "Samples", bool(facts.samples)),
        ("warm_start", "Warm start", bool(facts.warm_start)),
        ("curves", "Learning curves", bool(curves(facts))),
        ("training", "Training", facts.training is not None),
        ("thresholds", "Metric thresholds", bool(facts.thresholds)),
        ("slices", "Slices", bool(facts.slices) and facts.compared is None),
        ("confusion", "Confusion matrix", bool(facts.confusion)),
        ("card", "Model card", bool(facts.card)),
    )
    return {anchor: title for anchor, title, has_facts in sections if has_facts}


def badge(facts: RunFacts) -> Badge:
    """Returns how the run ended; a failed node outweighs the blessing of the model."""
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


def tiles(facts: RunFacts) -> list[Tile]:
    """Returns the metrics with their thresholds, the records and the quarantined records."""
    found = [_metric_tile(facts, name, value) for name, value in facts.metrics.items()]
    records = sum(facts.records.values()) or (facts.ledger[0].records_out if facts.ledger else 0)
    if records:
        found.append(Tile("records", number(records), _split_note(facts)))
    if facts.ledger or facts.quarantined:
        count = quarantined(facts)
        found.append(Tile("quarantined", number(count), "" if count else "all records kept"))
    return found


def balance(facts: RunFacts) -> Balance | None:
    """Returns the class table: a short one in the given order, a long one with the largest classes first."""
    splits = tuple(split for split in _splits(facts) if split in facts.class_counts)
    names = dict.fromkeys(name for split in splits for name in facts.class_counts[split])
    if not names:
        return None
    totals = tuple(sum(facts.class_counts[split].values()) for split in splits)
    table = {name: tuple(facts.class_counts[split].get(name, 0) for split in splits) for name in names}
    shares = {name: [_share(*pair) for pair in zip(counts, totals, strict=True)] for name, counts in table.items()}
    top = max(share for each in shares.values() for share in each)
    rows = [ClassRow(name, table[name], tuple(_share(share, top) for share in shares[name])) for name in names]
    ranked = sorted(rows, key=lambda row: -row.total)
    shown = tuple(rows if len(rows) <= MAX_CLASSES else ranked[:MAX_CLASSES])
    left_records = sum(totals) - sum(row.total for row in shown)
    return Balance(splits, totals, shown, len(rows) - len(shown), left_records, ranked[0], ranked[-1])


def curves(facts: RunFacts) -> list[Curve]:
    """Returns the metrics that have a value for some epoch."""
    found = []
    for name, lines in facts.curves.items():
        if any(lines.values()):
            # A split without values keeps its place: the place gives the colour.
            placed = {split: lines.get(split, ()) for split in _splits(facts)}
            found.append(Curve(name, placed, _final(placed, best_epoch(facts))))
    return found


def training_curves(facts: RunFacts) -> list[Curve]:
    """Returns throughput, share of waiting and learning rate, one value per epoch."""
    if (training := facts.training) is None:
        return []
    named = {
        "samples per second": training.samples_per_second,
        "share of waiting for input": training.waiting,
        "learning rate": training.learning_rate,
    }
    best = best_epoch(facts)
    return [Curve(name, {"train": each}, _final({"train": each}, best)) for name, each in named.items() if each]


def best_epoch(facts: RunFacts) -> int | None:
    """Returns the epoch whose weights were kept, counted from 1."""
    return None if facts.best_epoch is None else facts.best_epoch + 1


def quarantined(facts: RunFacts) -> int:
    """Returns the number of quarantined records."""
    return max(len(facts.quarantined), sum(row.quarantined for row in facts.ledger))


def card(facts: RunFacts) -> list[tuple[str, str]]:
    """Returns the rows of the model card that no other section shows: names and values."""
    if not facts.card:
        return []
    data, versions = facts.card["data"], facts.card["versions"]
    return [
        ("data", f"{number(data['files'])} file{'' if data['files'] == 1 else 's'}, digest {data['digest'][:16]}"),
        ("seed", str(facts.card["training"]["seed"])),
        *_proof(facts.card["proof"]),
        ("versions", ", ".join(f"{name} {value}" for name, value in versions.items())),
        *((f"from {node}", _artifacts(made)) for node, made in facts.card["lineage"].items() if made["outputs"]),
    ]


def confused_pairs(facts: RunFacts) -> list[tuple[str, str, int, int]]:
    """Returns the most frequent confusions: true class, predicted class, records, all records of the true class."""
    names = _class_names(facts)
    pairs = [
        (names[true], names[predicted], count, sum(counts))
        for true, counts in enumerate(facts.confusion)
        for predicted, count in enumerate(counts)
        if true != predicted and count > 0
    ]
    limit = MAX_PAIRS // 2 if len(facts.confusion) <= MAX_CLASSES else MAX_PAIRS
    return sorted(pairs, key=lambda pair: -pair[2])[:limit]


def matrix(facts: RunFacts) -> HeatMap | None:
    """Returns the confusion matrix; None if there are too many classes for one."""
    return heat_map(_class_names(facts), facts.confusion) if 0 < len(facts.confusion) <= MAX_CLASSES else None


def drift_rows(facts: RunFacts) -> list[dict[str, Any]]:
    """Returns the comparisons of the new spans, those nearest to their threshold, or beyond it, first."""
    rows = []
    for each in facts.drift.get("measures", ()):
        value, threshold = each["value"], each["threshold"]
        rows.append({**each, "part": min(1.0, part_of_threshold(each)), "passed": value <= threshold})
    return sorted(rows, key=lambda row: (row["passed"], -row["part"], row["id"]))


def _class_names(facts: RunFacts) -> tuple[str, ...]:
    """Returns one name per row of the confusion matrix; the row number if the name is unknown."""
    return tuple(facts.classes[row] if row < len(facts.classes) else str(row) for row in range(len(facts.confusion)))


def spaced(name: str) -> str:
    """Returns a name with spaces instead of underscores."""
    return fit(name).replace("_", " ")


def _metric_tile(facts: RunFacts, name: str, value: float) -> Tile:
    found = next((each for each in facts.thresholds if each.metric == name), None)
    note, passed = (found.threshold, found.passed) if found else (_trivial_note(facts, name), None)
    return Tile(spaced(name), number(value), note, passed)


def _trivial_note(facts: RunFacts, metric: str) -> str:
    """Returns what the trivial model answers, if the metric is one of it."""
    if not metric.startswith("trivial_"):
        return ""
    return f"always answering {facts.classes[0] if facts.classes else 'the mean'}"


def _split_note(facts: RunFacts) -> str:
    sizes = {split: facts.records.get(split, 0) for split in _splits(facts)}
    return ", ".join(f"{fit(split, 20)}\N{NO-BREAK SPACE}{number(size)}" for split, size in sizes.items() if size)


def _splits(facts: RunFacts) -> tuple[str, ...]:
    """Returns all splits, train and eval first, so that a split has the same colour in every chart."""
    named = [*facts.class_counts, *(split for lines in facts.curves.values() for split in lines)]
    first = [split for split in ("train", "eval") if split in named]
    return tuple(dict.fromkeys([*first, *named]))


def _final(lines: Mapping[str, tuple[float, ...]], best: int | None) -> tuple[tuple[int, str, float], ...]:
    return tuple(
        (colour, split, values[best - 1] if best and 1 <= best <= len(values) else values[-1])
        for colour, (split, values) in enumerate(lines.items())
        if values
    )


def _proof(proof: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns how far the exported model's answers differ from those of the trained one."""
    if not proof:
        return []
    differences = ", ".join(f"{way} {largest:.1e}" for way, largest in proof["largest_difference"].items())
    allowed = f"largest difference on {number(proof['records'])} held-out records, at most {proof['tolerance']:g}"
    unproven = [(f"export: {way} not proven", reason) for way, reason in proof["unproven"].items()]
    return [("export agrees with training", f"{differences} ({allowed})"), *unproven]


def _artifacts(made: Mapping[str, Any]) -> str:
    return f"{', '.join(made['outputs'].values())} (cache key {made['cache_key'][:12] or 'unknown'})"


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
