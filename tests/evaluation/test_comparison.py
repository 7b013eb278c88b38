"""Promise C6: how much worse a candidate may be, on as many records as there are."""

import math
from collections.abc import Iterable
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow_model_analysis as tfma

from components.evaluation import comparison
from components.evaluation.comparison import Paired, allowed_drop, change, of_class, of_quantity


def total(records: Iterable[Paired]) -> Paired:
    """Returns the sums over records."""
    return reduce(Paired.added, records, Paired())


def classes(better: int, worse: int, both: int) -> Paired:
    """Returns records that only the candidate gets right, only the baseline, and both."""
    kinds = [(True, False)] * better + [(False, True)] * worse + [(True, True)] * both
    return total(of_class(candidate=candidate, baseline=baseline) for candidate, baseline in kinds)


def is_worse(kind: str, paired: Paired, max_drop: float = 0.01, confidence: float = 0.95) -> bool:
    """Whether a candidate is not blessed."""
    return bool(change(kind, paired) < -allowed_drop(kind, paired, max_drop, confidence))


@pytest.mark.parametrize(
    ("better", "worse", "both", "expected"),
    [
        (0, 0, 100, False),
        (0, 4, 4, False),  # half of the records, but only four
        (0, 5, 3, True),
        (20, 26, 50, False),  # 6 of 96 by chance
        (20, 36, 40, True),
        (0, 9, 991, False),  # certain, but less than is allowed
        (0, 11, 989, True),
        (30, 0, 0, False),
    ],
)
def test_a_class_model_is_worse_beyond_chance_and_beyond_what_is_allowed(
    better: int, worse: int, both: int, *, expected: bool
) -> None:
    """By McNemar's test, one-sided at 95 %, and by max_drop = 0.01."""
    assert is_worse("class", classes(better, worse, both)) is expected


def test_equal_models_are_rarely_worse_by_chance() -> None:
    """At most 5 % of 2,000 pairs of models that are equally good, on 60 records each."""
    random = np.random.default_rng(1)
    right = random.random((2000, 2, 60)) < 0.8
    found = [
        is_worse("class", total(of_class(candidate=bool(a), baseline=bool(b)) for a, b in each.T), 0.0)
        for each in right
    ]

    assert 0.005 < np.mean(found) <= 0.05


@pytest.mark.parametrize(("noise", "records", "expected"), [(1.0, 200, False), (1.5, 200, True), (1.5, 7, True)])
def test_a_quantity_is_compared_by_paired_squared_errors(noise: float, records: int, *, expected: bool) -> None:
    """Errors of the same size, and half as large again; nothing is added for chance on fewer than eight records."""
    random = np.random.default_rng(2)
    labels = random.normal(0, 5, records)
    answers = labels + noise * random.normal(0, 1, records), labels + random.normal(0, 1, records)
    paired = total(map(of_quantity, labels.tolist(), *(each.tolist() for each in answers)))

    assert is_worse("quantity", paired) is expected
    r2 = [1 - ((each - labels) ** 2).sum() / ((labels - labels.mean()) ** 2).sum() for each in answers]
    assert change("quantity", paired) == pytest.approx(r2[0] - r2[1])


@pytest.mark.parametrize(("wild", "records"), [(1, 100_000), (2, 100_000), (6, 100_000), (1, 9)])
def test_a_wild_record_allows_no_larger_drop(wild: int, records: int) -> None:
    """Its squared error is most of the drop, and most of what chance would explain."""
    labels = [float(each % 7) for each in range(records)]
    size = (2.0 * records / wild) ** 0.5  # together a drop of R² of about a half
    paired = total(of_quantity(y, y + size * (at < wild), y) for at, y in enumerate(labels))

    assert change("quantity", paired) < -0.3
    assert is_worse("quantity", paired)
    assert allowed_drop("quantity", paired, 0.01, 0.995) <= 0.05


def test_equal_labels_are_compared_by_relative_errors() -> None:
    """R² has no meaning on a slice where all labels are equal."""
    paired = total(of_quantity(3.0, 3.0 + 0.4 + 0.01 * (each % 2), 3.1) for each in range(20))

    assert change("quantity", paired) == pytest.approx(-(0.4**2 + 0.41**2) / 2 / 0.01 + 1)
    assert is_worse("quantity", paired)


@pytest.mark.parametrize(("candidate", "baseline", "expected"), [(math.nan, 1.0, True), (1.0, math.nan, False)])
def test_a_prediction_that_is_not_finite_is_worse(candidate: float, baseline: float, *, expected: bool) -> None:
    """Whatever the other errors are."""
    paired = total([of_quantity(1.0, candidate, baseline), *(of_quantity(each, each, each) for each in range(9))])

    assert is_worse("quantity", paired) is expected


@pytest.mark.parametrize("parts", [1, 3, 20])
def test_sums_do_not_depend_on_how_records_are_divided(parts: int) -> None:
    """Beam merges accumulators of any size."""
    random = np.random.default_rng(3)
    records = [of_quantity(*map(float, each)) for each in random.normal(1e3, 1, (20, 3))]
    merged = total(total(records[at::parts]) for at in range(parts))

    assert vars(merged) == pytest.approx(vars(total(records)))


def test_each_model_has_its_own_numbers_of_the_classes() -> None:
    """The class that is 0 for the candidate is 1 for the baseline; NaN is no answer."""
    right, wrong, broken = np.array([0.9, 0.1]), np.array([0.1, 0.9]), np.array([math.nan, 0.1])
    labels = {"candidate": np.array([0]), "baseline": np.array([1])}

    def of(candidate: Any, baseline: Any) -> Paired:
        record = SimpleNamespace(labels=labels, predictions={"candidate": candidate, "baseline": baseline})
        return comparison.of_record("class", record, "candidate", "baseline")

    assert of(right, wrong) == of_class(candidate=True, baseline=True)
    assert of(broken, wrong) == of_class(candidate=False, baseline=True)


def test_without_a_baseline_nothing_is_computed() -> None:
    """TFMA then ignores the thresholds of changes."""
    metric = comparison.AgainstBaseline("name", "class", 0.01, 0.95)

    assert metric.computations(tfma.EvalConfig(model_specs=[tfma.ModelSpec()]), model_names=[""]) == []
