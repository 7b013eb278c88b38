"""Promise C5: what counts as drift, column by column."""

import math
from typing import Any

import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from components.evaluation import drift
from components.evaluation.drift import Distributions, Measure, Summary
from components.records.roles import Column
from components.settings.gate import Gate

MANY = 100_000  # records: chance explains next to nothing
SETTINGS = Gate()


def number(*deciles: float, records: int = MANY, missing: int = 0) -> Summary:
    """Returns a number column."""
    return Summary(records, missing, tuple(deciles))


def category(missing: int = 0, **counts: float) -> Summary:
    """Returns a column of categories."""
    return Summary(int(sum(counts.values())) + missing, missing, counts=counts)


def measures(before: Summary | None, after: Summary | None, role: Any, settings: Gate = SETTINGS) -> list[Measure]:
    """Returns the measures of one column, named größe; a label has no other column beside it."""
    live, new = ({"größe": each} if each else {"other": Summary(MANY, 0)} for each in (before, after))
    columns = [] if role == "label" else [Column("größe", role, "float32")]
    return drift.compare(live, new, columns, "größe" if role == "label" else "", settings)


def findings(*args: Any, **kwargs: Any) -> list[str]:
    """Returns the ids of the measures above their thresholds."""
    return [each.id for each in measures(*args, **kwargs) if each.is_finding]


STRAIGHT = tuple(range(11))


@pytest.mark.parametrize(
    ("before", "after", "role", "expected"),
    [
        (number(*STRAIGHT), number(*STRAIGHT), "number", []),
        (number(*STRAIGHT), number(*(each + 1.9 for each in STRAIGHT)), "number", []),
        (number(*STRAIGHT), number(*(each + 2.2 for each in STRAIGHT)), "number", ["drift:größe"]),
        (number(*STRAIGHT), number(*(3 * each - 10 for each in STRAIGHT)), "number", ["drift:größe"]),  # only wider
        (number(*STRAIGHT, records=30), number(*(each + 3 for each in STRAIGHT), records=30), "number", []),  # chance
        (number(*[5.0] * 11), number(*[5.0] * 11), "number", []),
        (number(*[5.0] * 11), number(*[5.5] * 11), "number", ["drift:größe"]),
        (number(1.0, 2.0), number(1.0, 2.0), "number", []),
        (number(*STRAIGHT), number(*STRAIGHT, missing=9_000), "number", []),
        (number(*STRAIGHT), number(*STRAIGHT, missing=11_000), "number", ["missing:größe"]),
        (number(*STRAIGHT), Summary(MANY, MANY), "number", ["missing:größe"]),
        (number(*STRAIGHT), None, "number", ["missing:größe"]),
        (None, number(*STRAIGHT), "number", ["missing:größe"]),
        (None, None, "number", []),
        (Summary(0, 0), number(*STRAIGHT), "number", []),
        (Summary(MANY, MANY), Summary(MANY, MANY), "text", []),
        (category(a=50_000, ü=50_000), category(a=60_000, ü=40_000), "category", []),
        (category(a=50_000, ü=50_000), category(a=71_000, ü=29_000), "category", ["drift:größe"]),
        (category(a=75_000, ü=25_000), category(a=75_000, new=25_000), "category", ["drift:größe"]),
        (category(**{f"a{at}": 125 for at in range(8)}), category(**{f"b{at}": 125 for at in range(8)}), "category",
         ["drift:größe"]),  # all replaced, and none of them frequent
        (category(**{f"a{at}": 1 for at in range(99)}), category(**{f"b{at}": 1 for at in range(99)}), "category", []),
        (category(**{"2026-11-01": 1000}), category(**{"2026-11-02": 1000}), "date", []),
        (category(**{"2026-11-01": 1000}), category(800, **{"2026-11-02": 200}), "date", ["missing:größe"]),
        (number(*STRAIGHT), number(*(each + 9 for each in STRAIGHT)), "category", []),  # codes have no distance
        (number(*[0.0] * 10, 5e3), number(*[0.0] * 9, 20.0, 5e3), "number", []),
        (number(*[0.0] * 10, 5e3), number(*[0.0] * 4, *[20.0] * 6, 5e3), "number", ["drift:größe"]),
        (number(*STRAIGHT), number(-math.inf, *(each + 9.0 for each in range(1, 10)), math.inf), "number",
         ["drift:größe"]),
        (category(a=5, ü=5), category(a=8, ü=2), "category", []),  # chance
        (category(a=5, ü=5), category(a=8, ü=2), "unused", []),
        (category(cat=50_000, dog=50_000), category(cat=71_000, dog=29_000), "label", ["drift:größe"]),
        (category(cat=50_000, dog=50_000), category(cat=50_000, dog=50_000, emu=1), "label", ["classes:größe"]),
        (category(cat=90_000, dog=10_000), category(cat=100_000), "label", ["classes:größe"]),
        (category(cat=99_000, dog=1_000), category(cat=100), "label", []),  # missing by chance
    ],
)  # fmt: skip
def test_a_change_above_its_threshold_is_a_finding(
    before: Summary | None, after: Summary | None, role: str, expected: list[str]
) -> None:
    """Below it, or explained by chance, it is none."""
    assert findings(before, after, role) == expected


def test_classes_are_those_that_the_live_model_knows() -> None:
    """Not those that the statistics have: a class that its newest span lacked, or a rare one, is not new."""
    statistics = {"label": category(cat=500, dog=500)}
    known, new = category(cat=500, dog=500, emu=1), category(cat=500, dog=499, emu=2)
    found = {each.id: each.value for each in drift.compare(statistics, statistics, [], "label", SETTINGS, (known, new))}
    assert found["classes:label"] == 0.0

    found = {each.id: each.value for each in drift.compare(statistics, statistics, [], "label", SETTINGS, (new, known))}
    assert found["classes:label"] == 0.0
    newer = category(cat=500, dog=500, yak=1)
    (_, _, measure) = drift.compare(statistics, statistics, [], "label", SETTINGS, (known, newer))
    assert (measure.detail, measure.is_finding) == ("new: 'yak'", True)


def test_what_could_not_be_compared_is_noted() -> None:
    """A number of which a tenth or more is infinite, and a category that was not counted; others are not."""
    columns = [Column("x", "number", "float32"), Column("c", "category", "int64"), Column("y", "number", "float32")]
    live = {"x": number(*STRAIGHT), "c": number(*STRAIGHT), "y": number(*STRAIGHT)}
    new = {"x": number(), "c": category(a=5), "y": number(missing=MANY)}

    assert drift.not_compared(live, new, columns) == [
        "x was not compared: a tenth of its values or more are infinite",
        "c was not compared: its values were not counted",
    ]


def test_one_column_may_have_its_own_threshold() -> None:
    """The finding names the setting that decides."""
    before, after = number(*STRAIGHT), number(*(each + 2.2 for each in STRAIGHT))
    (_, measure) = measures(before, after, "number", Gate(max_drift_of={"größe": 0.5}))

    assert not measure.is_finding
    assert measure.setting == "gate.max_drift_of.größe"
    assert measures(before, after, "number")[1].setting == "gate.max_number_drift, or gate.max_drift_of.größe"


def test_a_finding_says_what_changed() -> None:
    """The value that changed most, before and after; classes by name."""
    before, after = category(cat=50_000, dog=30_000, cow=20_000), category(cat=20_000, dog=20_000, emu=60_000)
    found = {each.id: each.detail for each in measures(before, after, "label")}

    assert found["drift:größe"] == "'emu' in 60.0% of the records, was 0.0%"
    assert found["classes:größe"] == "new: 'emu'; gone: 'cow'"


def test_shares_that_are_rounded_are_no_error() -> None:
    """Of 40 values on both sides, rounded shares add up to a little more than 1, or less: no value is new."""
    counts = [11, 19, 15, 13, 17, 10, 21, 9, 14, 12]
    live, new = (Summary(564, 0, counts={f"s{at}": counts[(at + by) % 10] for at in range(40)}) for by in (0, 1))
    (_, measure) = measures(live, new, "category")

    assert measure.detail == "'s6' in 1.6% of the records, was 3.7%"
    assert drift._chance((1 + 1e-15, 1.0), 10, 10) == drift._chance((-1e-15, 0.0), 10, 10) == 0.0


def test_a_change_below_the_threshold_has_its_value() -> None:
    """Not that of new values, of which there are none: chance explains less of them."""
    before, after = category(bug=304, idea=696), category(bug=365, idea=635)
    found = {each.id: (round(each.value, 9), each.detail) for each in measures(before, after, "label")}

    assert found["drift:größe"] == (0.061, "'bug' in 36.5% of the records, was 30.4%")


@pytest.mark.parametrize(
    ("newest", "others", "expected"),
    [(100, [100, 90, 120], []), (499, [100, 90, 120], []), (501, [100, 90, 120], ["records:span"]),
     (19, [100, 90, 120], ["records:span"]), (0, [100, 90], ["records:span"]), (5000, [100], [])],
)  # fmt: skip
def test_an_unusual_number_of_records(newest: int, others: list[int], expected: list[str]) -> None:
    """Five times more, or fewer, than the median of at least two other spans."""
    assert [
        each.id for each in drift.number_of_records({"s1": 100, "s2": newest}, others, SETTINGS) if each.is_finding
    ] == expected


@pytest.mark.parametrize(("share", "expected"), [(0.05, False), (0.14, False), (0.3, True)])
def test_new_tokens(share: float, *, expected: bool) -> None:
    """The share of unknown tokens grows from 2 %; a smaller share than before is no drift."""
    assert drift.texts("text", (0.02, 0.02 + share), (MANY, MANY), SETTINGS).is_finding is expected
    assert not drift.texts("text", (0.02 + share, 0.02), (MANY, MANY), SETTINGS).is_finding


def test_distances_are_finite() -> None:
    """JSON has no infinity."""
    assert math.isfinite(drift.quantile_distance([1e-300] * 10 + [2e-300], [1e308] * 11))


def test_values_that_are_not_utf_8_are_one_value() -> None:
    """TFDV shows each of them under the same name."""
    found = statistics_pb2.DatasetFeatureStatistics(num_examples=10)
    stats = found.features.add(name="place").string_stats
    stats.common_stats.num_non_missing = 10
    for name, count in (("here", 5), ("__BYTES_VALUE__", 3), ("__BYTES_VALUE__", 2)):
        stats.rank_histogram.buckets.add(label=name, sample_count=count)

    assert drift.summarize(found) == {"place": Summary(10, 0, counts={"here": 5, "__BYTES_VALUE__": 5})}


def test_what_is_compared_is_kept_for_a_chart() -> None:
    """The inner deciles of a number; of a category, the values that changed most, frequent ones first, cut short."""
    (number_,) = [each for each in measures(number(*STRAIGHT), number(*STRAIGHT), "number") if each.kind == "drift"]
    many = {f"v{at}": 10.0 for at in range(20)}
    before = Summary(500, 0, counts={**many, "a": 100, "b": 200})
    after = Summary(500, 0, counts={**many, "a": 200, "c" * 999: 100})
    (values,) = [each for each in measures(before, after, "category") if each.kind == "drift"]

    assert number_.distributions == Distributions((), STRAIGHT[1:-1], STRAIGHT[1:-1])
    assert values.distributions is not None
    assert values.distributions.names[:3] == ("a", "b", "c" * 100)
    assert values.distributions.live[:3] == (0.2, 0.4, 0.0)
    assert values.distributions.new[:3] == (0.4, 0.0, 0.2)
    assert len(values.distributions.names) == 8
