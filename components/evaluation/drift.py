"""Compares the newest span with the span that the live model was made from: pure functions, statistics in, values out.

    numbers                mean distance of the deciles / distance from the first to the last decile of the live span
    categories, labels     largest change of a relative frequency (L-infinity)
    texts                  change of the share of tokens that the live model's vocabulary does not have
    all columns            change of the share of missing values
    classes                classes that appear or vanish
    records                ratio to the median of the other spans

What chance explains on as many records as there are is added to each threshold.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from components.records.roles import Column
from components.settings.gate import Gate

_FAR = 1e6  # JSON has no infinity
_CHANCE = 3.0  # standard deviations
_SURELY = 1e-3  # probability that a class is missing by chance
_OTHER_SPANS = 2  # from which a number of records can be unusual
_SHOWN = 5  # classes in a message


@dataclass(frozen=True)
class Summary:
    """A column in the statistics of one span."""

    records: int
    missing: int
    deciles: tuple[float, ...] = ()  # from the least to the largest value
    counts: Mapping[str, float] | None = None  # records by value, the most frequent ones

    @property
    def present(self) -> int:
        """Records with a value."""
        return self.records - self.missing


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
        return Summary(records, missing + not_a_number, tuple(edges) if all(map(math.isfinite, edges)) else ())
    if kind == "string_stats":
        counts = {bucket.label: bucket.sample_count for bucket in stats.rank_histogram.buckets}
        return Summary(records, missing, counts=counts)
    return Summary(records, missing)


def compare(
    live: Mapping[str, Summary], new: Mapping[str, Summary], columns: Iterable[Column], label: str, settings: Gate
) -> list[Measure]:
    """Returns the measures of all columns and of the label; texts and images have only missing values here."""
    found = []
    for name, role in [*((each.name, each.role) for each in columns if each.role != "unused"), (label, "label")]:
        if name not in live and name not in new:
            continue
        before, after = live.get(name, _absent(live)), new.get(name, _absent(new))
        if not before.records or not after.records:
            continue
        found.append(missing(name, before, after, settings))
        if not before.present or not after.present:
            continue
        if before.deciles and after.deciles:
            found.append(_numbers(name, before, after, settings))
        elif role in ("category", "label", "date") and before.counts and after.counts:
            found.append(_categories(name, before, after, settings, is_label=role == "label"))
            if role == "label":
                found.append(_classes(name, before, after, settings))
    return found


def _absent(summaries: Mapping[str, Summary]) -> Summary:
    """Returns the summary of a column that no record has."""
    records = max((each.records for each in summaries.values()), default=0)
    return Summary(records, records)


def missing(name: str, before: Summary, after: Summary, settings: Gate) -> Measure:
    """Returns the change of the share of missing values."""
    shares = [each.missing / each.records for each in (before, after)]
    value = abs(shares[1] - shares[0])
    threshold = settings.max_missing_change + _chance(shares, before.records, after.records)
    detail = f"missing in {shares[1]:.1%} of the records, {shares[0]:.1%} in the live model's span"
    return Measure("missing", name, value, threshold, "gate.max_missing_change", detail)


def _numbers(name: str, before: Summary, after: Summary, settings: Gate) -> Measure:
    value = quantile_distance(before.deciles, after.deciles)
    limit, setting = _limit(name, settings.max_number_drift, "max_number_drift", settings)
    threshold = limit + math.sqrt(1 / before.present + 1 / after.present)
    middle = [each.deciles[len(each.deciles) // 2] for each in (before, after)]
    return Measure("drift", name, value, threshold, setting, f"median {middle[1]:.6g}, was {middle[0]:.6g}")


def quantile_distance(before: Sequence[float], after: Sequence[float]) -> float:
    """Returns the mean distance of inner quantiles, relative to the spread of those before."""
    inner = before[1:-1] or before, after[1:-1] or after
    if len(inner[0]) != len(inner[1]):
        inner = (inner[0][0], inner[0][-1]), (inner[1][0], inner[1][-1])
    distance = sum(abs(b - a) for a, b in zip(*inner, strict=True)) / len(inner[0])
    spread = (inner[0][-1] - inner[0][0]) or (before[-1] - before[0])
    if not spread:  # all values were equal
        return _FAR if distance else 0.0
    return min(distance / spread, _FAR)


def _categories(name: str, before: Summary, after: Summary, settings: Gate, *, is_label: bool) -> Measure:
    default, key = (settings.max_label_drift, "max_label_drift") if is_label else (
        settings.max_category_drift, "max_category_drift",
    )  # fmt: skip
    limit, setting = _limit(name, default, key, settings)
    shares = _shares(before), _shares(after)
    value, worst = max(
        (abs(shares[1].get(each, 0) - shares[0].get(each, 0)), each) for each in {*shares[0], *shares[1]}
    )
    pair = [each.get(worst, 0.0) for each in shares]
    detail = f"{worst!r} in {pair[1]:.1%} of the records, was {pair[0]:.1%}"
    return Measure("drift", name, value, limit + _chance(pair, before.present, after.present), setting, detail)


def _classes(name: str, before: Summary, after: Summary, settings: Gate) -> Measure:
    """Returns the number of classes that appear, or vanish and are too frequent to be missing by chance."""
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


def texts(name: str, shares: tuple[float, float], tokens: tuple[int, int], settings: Gate) -> Measure:
    """Returns the change of the share of out-of-vocabulary tokens.

    Args:
        name: the column.
        shares: of held-out texts of the live model's span, and of the newest span.
        tokens: how many tokens each share was counted on.
        settings: the thresholds.
    """
    limit, setting = _limit(name, settings.max_new_tokens, "max_new_tokens", settings)
    detail = (
        f"{shares[1]:.1%} of the tokens are not in the live model's vocabulary, "
        f"{shares[0]:.1%} in held-out texts of its own span"
    )
    return Measure("drift", name, shares[1] - shares[0], limit + _chance(shares, *tokens), setting, detail)


def number_of_records(newest: int, others: Sequence[int], settings: Gate) -> list[Measure]:
    """Returns how many times more, or fewer, records the newest span has; nothing without enough other spans."""
    if len(others) < _OTHER_SPANS:
        return []
    usual = median(others)
    ratio = _FAR if not newest or not usual else max(newest / usual, usual / newest)
    detail = f"{newest:,} records, usually {usual:,.0f} (median of {len(others)} spans)"
    return [Measure("records", "span", min(ratio, _FAR), settings.max_record_ratio, "gate.max_record_ratio", detail)]


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
    return _CHANCE * math.sqrt(pooled * (1 - pooled) * (1 / max(1, before) + 1 / max(1, after)))
