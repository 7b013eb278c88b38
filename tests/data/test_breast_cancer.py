"""The sample table is scikit-learn's, with three derived columns and some empty cells."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from data import breast_cancer
from data.breast_cancer import write_table

DERIVED = ["size", "symmetric", "entered", "label"]


def rows(folder: Path) -> list[dict[str, str]]:
    """Returns the rows of the table."""
    with (folder / breast_cancer.FILE).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The whole sample."""
    out = tmp_path_factory.mktemp("table") / "tabular"
    assert write_table(out) == 569
    return rows(out)


def test_columns_have_the_names_of_scikit_learn(table: list[dict[str, str]]) -> None:
    """With underscores instead of spaces, followed by the derived columns and the label."""
    measured = [str(name).replace(" ", "_") for name in load_breast_cancer().feature_names]

    assert list(table[0]) == measured + DERIVED


def test_every_cell_is_the_measured_number_or_empty(table: list[dict[str, str]]) -> None:
    """Numbers keep all digits, and about one cell in a hundred is empty."""
    cells = [[row[name] for name in row if name not in DERIVED] for row in table]
    numbers = np.array([[float(cell) if cell else np.nan for cell in row] for row in cells])
    missing = np.isnan(numbers)

    np.testing.assert_array_equal(numbers[~missing], load_breast_cancer().data[~missing])
    assert 0.005 < missing.mean() < 0.015


def test_the_label_is_never_missing(table: list[dict[str, str]]) -> None:
    """The classes have as many rows as in scikit-learn."""
    assert Counter(row["label"] for row in table) == {"benign": 357, "malignant": 212}


def test_sizes_are_thirds_of_the_radius(table: list[dict[str, str]]) -> None:
    """Every small radius is below every medium one, and every medium one below every large one."""
    radius = load_breast_cancer().data[:, 0]
    by_size: dict[str, list[float]] = {"small": [], "medium": [], "large": [], "": []}
    for value, row in zip(radius, table, strict=True):
        by_size[row["size"]].append(value)

    assert max(by_size["small"]) < min(by_size["medium"]) <= max(by_size["medium"]) < min(by_size["large"])
    assert [len(values) for values in by_size.values()] == [188, 188, 190, 3]


def test_symmetric_is_true_below_the_median(table: list[dict[str, str]]) -> None:
    """Of mean_symmetry, which measures the deviation from symmetry."""
    symmetry = load_breast_cancer().data[:, 8]
    known = [(row["symmetric"], value) for row, value in zip(table, symmetry, strict=True) if row["symmetric"]]

    assert known == [("true" if value < np.median(symmetry) else "false", value) for _, value in known]


def test_entered_is_one_day_later_per_row(table: list[dict[str, str]]) -> None:
    """The date is derived from the row number."""
    days = np.datetime64("1995-11-01") + np.arange(569)
    known = [(row["entered"], str(day)) for row, day in zip(table, days, strict=True) if row["entered"]]

    assert [found for found, _ in known] == [expected for _, expected in known]
    assert len(known) > 550


def test_a_limit_takes_rows_at_equal_distances(table: list[dict[str, str]], tmp_path: Path) -> None:
    """Both classes occur, and each row is the same as in the whole table."""
    assert write_table(tmp_path / "tabular", limit=20) == 20

    some = rows(tmp_path / "tabular")
    assert some == [table[569 * place // 20] for place in range(20)]
    assert {row["label"] for row in some} == {"benign", "malignant"}


def test_two_calls_write_the_same_bytes(tmp_path: Path) -> None:
    """The empty cells are drawn with a fixed seed."""
    for name in ("a", "b"):
        write_table(tmp_path / name)

    one, other = ((tmp_path / name / breast_cancer.FILE).read_bytes() for name in ("a", "b"))
    assert one == other
