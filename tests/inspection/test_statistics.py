"""Statistics of columns, in memory that does not grow with the data."""

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.inspection.reasons import OTHER, Reasons
from pipelines.inspection.statistics import ColumnStatistics
from tests.inspection.conftest import run_python


def test_distinct_values_are_counted_up_to_1000() -> None:
    """With more, the values are not kept."""
    column = ColumnStatistics(pa.field("a", pa.int64()), is_label=True)
    column.add(pa.array(range(1000)))
    assert (column.distinct, column.over) == (1000, False)

    column.add(pa.array([1000]))

    assert column.over
    assert column.classes is None
    assert column._seen == set()


def test_long_values_are_kept_as_digests() -> None:
    """A thousand values of 1 MB would take a gigabyte."""
    column = ColumnStatistics(pa.field("a", pa.string()), is_label=True)
    for number in range(20):
        column.add(pa.array([f"{number:05d}" + "x" * 1_000_000] * 2))
    gc.collect()

    assert column.distinct == 20
    assert list((column.classes or {}).values()) == [2] * 20
    assert sum(map(len, column._seen or ())) < 1000
    assert sum(map(len, column.classes or ())) < 5000


def test_reasons_are_limited() -> None:
    """With more than 1000 reasons, the rest is counted together."""
    reasons = Reasons()
    for number in range(5000):
        reasons.add(f"reason {number}", f"line {number}")

    assert reasons.total == 5000
    assert reasons.most_common(2) == [(OTHER, 4000, "line 1000"), ("reason 0", 1, "line 0")]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows() -> None:
    """Ten times the rows take about the same memory, in fresh processes."""
    for rows in (100_000, 1_000_000):
        numbers = np.random.default_rng(1).integers(0, 1 << 60, (rows, 4))
        table = pa.table({f"c{index}": numbers[:, index] for index in range(4)})
        table = table.append_column("text", pa.array(numbers[:, 0].astype(str)))
        pq.write_table(table, f"{rows}.parquet", row_group_size=50_000)

    small, large = (peak_kb(f"{rows}.parquet") for rows in (100_000, 1_000_000))

    assert large < 1.2 * small


def peak_kb(path: str) -> int:
    """Returns the peak memory of inspecting a file."""
    script = (
        "import resource, sys; from pipelines.inspection import inspect; "
        f"inspect({path!r}, sys.stdout); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    return int(run_python(script).stdout.split()[-1])


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([2**63 - 1, 2**63 - 3], pa.int64(), (2**63 - 3, 2.0**63, 2**63 - 1)),
        ([1e308, 1.5e308, 1.7e308], pa.float64(), (1e308, 1.4e308, 1.7e308)),
        ([-1.0, float("nan"), None, 3.0], pa.float64(), (-1.0, 1.0, 3.0)),
        ([True, False, True, True], pa.bool_(), (0, 0.75, 1)),
        ([np.float16(0.5), np.float16(1.5)], pa.float16(), (0.5, 1.0, 1.5)),
        ([[1, 2], [], None, [6]], pa.list_(pa.int64()), (1, 3.0, 6)),
        ([float("nan")], pa.float32(), None),
        ([None], pa.null(), None),
    ],
)
def test_numbers(values: list[Any], kind: pa.DataType, expected: Any) -> None:
    """Range and mean at the edges of number types, with one value per batch."""
    column = ColumnStatistics(pa.field("a", kind))
    for value in values:
        column.add(pa.array([value], kind))

    assert column.numbers == (expected and (expected[0], pytest.approx(expected[1]), expected[2]))


def test_nan_is_not_missing() -> None:
    """They are counted separately, and neither is a distinct value."""
    column = ColumnStatistics(pa.field("a", pa.float64()))
    column.add(pa.array([1.0, float("nan"), None, 1.0, float("nan")]))

    assert (column.missing, column.nan, column.distinct) == (1, 2, 1)


def test_classes() -> None:
    """A label of text, bytes, integers or booleans has classes; a float label has none."""
    counted = {}
    for values in ([0.5, 1.5], ["a", "b"], [b"a", b"\xff"], [1, 1], [True, False]):
        column = ColumnStatistics(pa.field("y", pa.array(values).type), is_label=True)
        column.add(pa.array(values))
        counted[str(values)] = column.classes

    assert list(counted.values()) == [
        None,
        {"a": 1, "b": 1},
        {"a": 1, "\\xff": 1},
        {"1": 2},
        {"False": 1, "True": 1},
    ]


def test_empty_texts_are_missing_and_dates_are_named() -> None:
    """A17: an empty cell of a CSV file is missing, as in ingest."""
    column = ColumnStatistics(pa.field("day", pa.string()))
    column.add(pa.array(["", "2026-01-31", None]))
    column.add(pa.array(["2026-02-28 10:00", ""]))

    assert (column.kind, column.missing, column.distinct, column.lengths) == ("string, date", 3, 2, (10, 16))
