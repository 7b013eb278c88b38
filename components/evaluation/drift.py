"""Compares the new spans with the data of the live model: pure functions, statistics in, values out.

    numbers                mean distance of the deciles / distance from the first to the last decile of the live data
    categories, labels     largest change of a relative frequency (L-infinity), or share of records with a new value
    texts                  change of the share of tokens that the live model's vocabulary does not have
    images                 as numbers: brightness, contrast, entropy and size of each image of a sample
    all columns            change of the share of missing values
    classes                classes that the live model does not know, or that vanish
    records                ratio of each new span to the median of the other spans

What chance explains on as many records as there are is added to the thresholds of the first five.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from components.records import spans
from components.records.roles import Column
from components.settings.gate import Gate

_FAR = 1e6  # JSON has no infinity
_CHANCE = 3.0  # standard deviations
_SURELY = 1e-3  # probability that a class is missing by chance
_OTHER_SPANS = 2  # from which a number of records can be unusual
_SHOWN = 5  # classes in a message
_CHARTED, _LONGEST = 8, 100  # values in a chart, characters of one
# Of images that hardly differ, a change that no model notices would be a multiple of their spread. Of a size there is
# no such change: models resize.
_LEAST_SPREADS = {"brightness": 32.0, "contrast": 16.0, "entropy": 1.0}


@dataclass(frozen=True)
class Summary:
    """A column in the statistics of some spans."""

    records: int
    missing: int
    deciles: tuple[float, ...] = ()  # from the least to the largest value
    counts: Mapping[str, float] | None = None  # records by value, the most frequent ones

    @property
    def present(self) -> int:
        """Records with a value."""
        return self.records - self.missing


@dataclass(frozen=True)
class Distributions:
    """The values of a column on both sides, for a chart: shares of named values, or, without names, deciles."""

    names: tuple[str, ...]
    live: tuple[float, ...]
    new: tuple[float, ...]


@dataclass(frozen=True)
class Measure:
    """One comparison with the live model's span; a finding if the value is above the threshold."""

    kind: str  # drift, missing, classes, records
    column: str
    value: float
    threshold: float
    setting: str  # that decides the threshold
    detail: str  # what changed, in words
    records: tuple[str, ...] = ()  # a few records that show it
    distributions: Distributions | None = None

    @property
    def id(self) -> str:
        """The name by which it is accepted."""
        return f"{self.kind}:{self.column}"

    @property
    def is_finding(self) -> bool:
        """Whether the value is above the threshold."""
        return self.value > self.threshold


def summarize(statistics: Any) -> dict[str, Summary]:
    """Returns the columns of TFDV's statistics of one split (DatasetFeatureStatistics)."""
    return {(each.name or each.path.step[0]): _summary(each, statistics.num_examples) for each in statistics.features}


def _summary(feature: Any, records: int) -> Summary:
    kind = feature.WhichOneof("stats")
    if kind is None:
        return Summary(records, records)
    stats = getattr(feature, kind)
    missing = records - stats.common_stats.num_non_missing
    if kind == "num_stats":
        (quantiles,) = [each for each in stats.histograms if each.type == each.QUANTILES] or [None]
        if quantiles is None or not quantiles.buckets:
            return Summary(records, records)
        edges = [quantiles.buckets[0].low_value, *(bucket.high_value for bucket in quantiles.buckets)]
        not_a_number = min(quantiles.num_nan, stats.common_stats.num_non_missing)
        return Summary(records, missing + not_a_number, tuple(edges) if all(map(math.isfinite, edges[1:-1])) else ())
    if kind == "string_stats":
        counts = Counter[str]()  # values that are not UTF-8 have buckets of the same name
        for bucket in stats.rank_histogram.buckets:
            counts[bucket.label] += bucket.sample_count
        return Summary(records, missing, counts=counts)
    return Summary(records, missing)


def compare(
    live: Mapping[str, Summary],
    new: Mapping[str, Summary],
    columns: Iterable[Column],
    label: str,
    settings: Gate,
    classes: tuple[Summary, Summary] | None = None,
) -> list[Measure]:
    """Returns the measures of all columns and of the label; texts, dates and images have only missing values here.

    Args:
        live: the columns in the statistics of the live model's data.
        new: those of the new spans.
        columns: without the label.
        label: empty if there is none.
        settings: the thresholds.
        classes: of all records of the live model, and of the new spans; None: as far as the statistics have them.
    """
    found = []
    for name, role in _roles(columns, label):
        if name not in live and name not in new:
            continue
        before, after = live.get(name, _absent(live)), new.get(name, _absent(new))
        if not before.records or not after.records:
            continue
        found.append(missing(name, before, after, settings))
        if role == "label" and classes:
            before, after = classes
        if not before.present or not after.present:
            continue
        if _are_categories(role, before, after):
            found.append(_categories(name, before, after, settings, is_label=role == "label"))
            if role == "label":
                found.append(_classes(name, before, after, settings))
        elif role in ("number", "label") and before.deciles and after.deciles:
            found.append(_numbers(name, before, after, settings))
    return found


def not_compared(live: Mapping[str, Summary], new: Mapping[str, Summary], columns: Iterable[Column]) -> list[str]:
    """Returns a note for each number and category whose values could not be compared, though both sides have some."""
    notes = []
    for name, role in _roles(columns, ""):
        if role not in ("number", "category") or name not in live or name not in new:
            continue
        before, after = live[name], new[name]
        can = (before.deciles and after.deciles) if role == "number" else _are_categories(role, before, after)
        if before.present and after.present and not can:
            why = "a tenth of its values or more are infinite" if role == "number" else "its values were not counted"
            notes.append(f"{name} was not compared: {why}")
    return notes


def _roles(columns: Iterable[Column], label: str) -> list[tuple[str, str]]:
    return [
        *((each.name, each.role) for each in columns if each.role != "unused"),
        *([(label, "label")] if label else []),
    ]


def _are_categories(role: str, before: Summary, after: Summary) -> bool:
    return role in ("category", "label") and bool(before.counts and after.counts)


def _absent(summaries: Mapping[str, Summary]) -> Summary:
    """Returns the summary of a column that no record has."""
    records = max((each.records for each in summaries.values()), default=0)
    return Summary(records, records)


def missing(name: str, before: Summary, after: Summary, settings: Gate) -> Measure:
    """Returns the change of the share of missing values."""
    shares = [each.missing / each.records for each in (before, after)]
    value = abs(shares[1] - shares[0])
    threshold = settings.max_missing_change + _chance(shares, before.records, after.records)
    detail = f"missing in {shares[1]:.1%} of the records, {shares[0]:.1%} in the live model's data"
    return Measure("missing", name, value, threshold, "gate.max_missing_change", detail)


def images(
    column: str, before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], settings: Gate
) -> list[Measure]:
    """Returns a measure for each number of the images of a column, such as image.brightness.

    Args:
        column: with the images.
        before: the numbers of the live model's images, by name.
        after: those of the new spans.
        settings: the thresholds.
    """
    return [
        _numbers(f"{column}.{kind}", of_values(values), of_values(after[kind]), settings, kind)
        for kind, values in before.items()
        if values and after[kind]
    ]


def of_values(values: Sequence[float]) -> Summary:
    """Returns the summary of some numbers."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return Summary(len(ordered), 0, tuple(ordered[round(part * last / 10)] for part in range(11)))


def _numbers(name: str, before: Summary, after: Summary, settings: Gate, kind: str = "") -> Measure:
    """Returns the distance of the deciles of a number; `kind`: of the images of a column."""
    value = quantile_distance(before.deciles, after.deciles, _LEAST_SPREADS.get(kind, 0.0))
    default, key = (settings.max_image_drift, "max_image_drift") if kind else (
        settings.max_number_drift, "max_number_drift",
    )  # fmt: skip
    limit, setting = _limit(name, default, key, settings)
    threshold = limit + math.sqrt(1 / before.present + 1 / after.present)
    middle = [each.deciles[len(each.deciles) // 2] for each in (before, after)]
    detail = f"median {middle[1]:.6g}, was {middle[0]:.6g}"
    shown = Distributions((), before.deciles[1:-1], after.deciles[1:-1])  # those that are compared
    return Measure("drift", name, value, threshold, setting, detail, distributions=shown)


def quantile_distance(before: Sequence[float], after: Sequence[float], least_spread: float = 0.0) -> float:
    """Returns the mean distance of inner quantiles, relative to the spread of those before.

    Without a spread, such as that of a number that is nearly always 0: the share of quantiles with another value.
    A smaller spread than `least_spread` counts as that.
    """
    inner = before[1:-1] or before, after[1:-1] or after
    if len(inner[0]) != len(inner[1]):
        inner = (inner[0][0], inner[0][-1]), (inner[1][0], inner[1][-1])
    spread = max(inner[0][-1] - inner[0][0], least_spread)
    if not spread:
        return sum(each != inner[0][0] for each in inner[1]) / len(inner[1])
    return min(sum(abs(b - a) for a, b in zip(*inner, strict=True)) / len(inner[0]) / spread, _FAR)


def _categories(name: str, before: Summary, after: Summary, settings: Gate, *, is_label: bool) -> Measure:
    """Returns the largest change of a relative frequency, or the share of new values: what is nearer to its threshold.

    Where all values are rare, none of them changes much though all are replaced.
    """
    default, key = (settings.max_label_drift, "max_label_drift") if is_label else (
        settings.max_category_drift, "max_category_drift",
    )  # fmt: skip
    limit, setting = _limit(name, default, key, settings)
    shares = _shares(before), _shares(after)
    value, worst = max(
        (abs(shares[1].get(each, 0) - shares[0].get(each, 0)), each) for each in {*shares[0], *shares[1]}
    )
    pair = [each.get(worst, 0.0) for each in shares]
    threshold = limit + _chance(pair, before.present, after.present)
    detail = f"{worst!r} in {pair[1]:.1%} of the records, was {pair[0]:.1%}"
    expected, unseen = _new_values(before), _unseen(before, after)
    threshold_of_new = limit + _chance((expected, unseen), before.present, after.present)
    if _part(unseen - expected, threshold_of_new) > _part(value, threshold):
        value, threshold = unseen - expected, threshold_of_new
        new = sorted((each for each in shares[1] if each not in shares[0]), key=lambda each: -shares[1][each])
        such = f", such as {', '.join(map(repr, new[:_SHOWN]))}" if new else ""
        detail = (
            f"{unseen:.1%} of the records have a value that the live model's data lacks{such}; usually {expected:.1%}"
        )
    return Measure("drift", name, value, threshold, setting, detail, distributions=_distributions(*shares))


def _part(value: float, threshold: float) -> float:
    """Returns how near a value is to its threshold, above 1 for a finding; rounded, so that equal ones are equal."""
    return round(value / threshold, 9) if threshold else math.inf * value if value else 0.0


def _unseen(before: Summary, after: Summary) -> float:
    """Returns the share of records whose value is not among the counted ones of the live model's data."""
    known, counts = before.counts or {}, after.counts or {}
    seen = sum(count for each, count in counts.items() if each in known)  # not of shares: their sum is rounded
    return max(0.0, after.present - seen) / after.present


def _distributions(live: Mapping[str, float], new: Mapping[str, float]) -> Distributions:
    """Returns the shares of the values that changed most, the most frequent ones first."""
    changed = heapq.nlargest(_CHARTED, {*live, *new}, key=lambda each: abs(new.get(each, 0) - live.get(each, 0)))
    names = sorted(changed, key=lambda each: (-max(live.get(each, 0), new.get(each, 0)), each))
    shown = tuple(each[:_LONGEST] for each in names)
    return Distributions(shown, *(tuple(side.get(each, 0.0) for each in names) for side in (live, new)))


def _new_values(summary: Summary) -> float:
    """Returns the share of further records whose value would be new: by those that occur once (Good-Turing).

    TFDV counts only the most frequent values; records with others have a value that cannot be known.
    """
    counts = (summary.counts or {}).values()
    once = sum(1 for count in counts if count == 1)
    return min(1.0, max(0.0, 1 - sum(counts) / summary.present) + once / summary.present)


def _classes(name: str, before: Summary, after: Summary, settings: Gate) -> Measure:
    """Returns the number of classes that the live model does not know, or that vanish and not by chance."""
    known, present = before.counts or {}, after.counts or {}
    new = sorted(each for each in present if each not in known)
    gone = sorted(
        each
        for each, count in known.items()
        if each not in present and (1 - count / before.present) ** after.present < _SURELY
    )
    parts = [
        f"{what} {', '.join(map(repr, names[:_SHOWN]))}" for what, names in (("new:", new), ("gone:", gone)) if names
    ]
    detail = "; ".join(parts) or "the same classes"
    return Measure(
        "classes", name, float(len(new) + len(gone)), settings.max_class_changes, "gate.max_class_changes", detail
    )


def no_records(what: str, detail: str) -> Measure:
    """Returns a finding: records are missing, so that something could not be compared."""
    return Measure("records", what, 1.0, 0.0, "gate.drift", detail)


def texts(
    name: str, shares: tuple[float, float], tokens: tuple[int, int], settings: Gate, words: Distributions | None = None
) -> Measure:
    """Returns the change of the share of out-of-vocabulary tokens.

    Args:
        name: the column.
        shares: of held-out texts of the live model's data, and of the new spans.
        tokens: how many tokens each share was counted on.
        settings: the thresholds.
        words: the most frequent ones with unknown tokens, and the share of the texts that have them.
    """
    limit, setting = _limit(name, settings.max_new_tokens, "max_new_tokens", settings)
    detail = (
        f"{shares[1]:.1%} of the tokens are not in the live model's vocabulary, "
        f"{shares[0]:.1%} in its own held-out texts"
    )
    threshold = limit + _chance(shares, *tokens)
    return Measure("drift", name, shares[1] - shares[0], threshold, setting, detail, distributions=words)


def number_of_records(new: Mapping[str, int], others: Sequence[int], settings: Gate) -> list[Measure]:
    """Returns how many times more, or fewer, records the most unusual new span has; nothing without enough others."""
    if len(others) < _OTHER_SPANS or not new:
        return []
    usual = median(others)
    ratios = {
        name: _FAR if not count or not usual else max(count / usual, usual / count) for name, count in new.items()
    }
    worst = max(ratios, key=ratios.__getitem__)
    detail = f"span {spans.text(worst)}: {new[worst]:,} records, usually {usual:,.0f} (median of {len(others)} spans)"
    ratio = min(ratios[worst], _FAR)
    return [Measure("records", "span", ratio, settings.max_record_ratio, "gate.max_record_ratio", detail)]


def _limit(column: str, default: float, key: str, settings: Gate) -> tuple[float, str]:
    """Returns the threshold of a column, and the setting that decides it."""
    if column in settings.max_drift_of:
        return settings.max_drift_of[column], f"gate.max_drift_of.{column}"
    return default, f"gate.{key}, or gate.max_drift_of.{column}"


def _shares(summary: Summary) -> dict[str, float]:
    return {value: count / summary.present for value, count in (summary.counts or {}).items()}


def _chance(shares: Sequence[float], before: int, after: int) -> float:
    """Returns by how much two shares can differ by chance."""
    pooled = (shares[0] * before + shares[1] * after) / max(1, before + after)
    pooled = min(1.0, max(0.0, pooled))  # rounding, or several values per record
    return _CHANCE * math.sqrt(pooled * (1 - pooled) * (1 / max(1, before) + 1 / max(1, after)))
