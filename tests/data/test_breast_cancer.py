"""The sample table is scikit-learn's, with three columns more and some cells less."""

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
    """Returns what stands in the table."""
    with (folder / breast_cancer.FILE).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The whole sample."""
    out = tmp_path_factory.mktemp("table") / "tabular"
    assert write_table(out) == 569
    return rows(out)


def test_columns_have_the_names_of_scikit_learn(table: list[dict[str, str]]) -> None:
    """With underscores for blanks, then those that are derived, the label last."""
    measured = [str(name).replace(" ", "_") for name in load_breast_cancer().feature_names]

    assert list(table[0]) == measured + DERIVED


def test_every_cell_is_the_measured_number_or_empty(table: list[dict[str, str]]) -> None:
    """Not a digit is lost on the way, and about one in a hundred is missing."""
    cells = [[row[name] for name in row if name not in DERIVED] for row in table]
    numbers = np.array([[float(cell) if cell else np.nan for cell in row] for row in cells])
    missing = np.isnan(numbers)

    np.testing.assert_array_equal(numbers[~missing], load_breast_cancer().data[~missing])
    assert 0.005 < missing.mean() < 0.015


def test_the_label_is_never_missing(table: list[dict[str, str]]) -> None:
    """Its values are as many as in scikit-learn."""
    assert Counter(row["label"] for row in table) == {"benign": 357, "malignant": 212}


def test_sizes_are_thirds_of_the_radius(table: list[dict[str, str]]) -> None:
    """All that is small is below all that is medium, and that below all that is large."""
    radius = load_breast_cancer().data[:, 0]
    by_size: dict[str, list[float]] = {"small": [], "medium": [], "large": [], "": []}
    for value, row in zip(radius, table, strict=True):
        by_size[row["size"]].append(value)

    assert max(by_size["small"]) < min(by_size["medium"]) <= max(by_size["medium"]) < min(by_size["large"])
    assert [len(values) for values in by_size.values()] == [188, 188, 190, 3]


def test_a_tumour_is_symmetric_if_it_is_below_the_median(table: list[dict[str, str]]) -> None:
    """Of its own mean symmetry, which is measured as a deviation."""
    symmetry = load_breast_cancer().data[:, 8]
    known = [(row["symmetric"], value) for row, value in zip(table, symmetry, strict=True) if row["symmetric"]]

    assert known == [("true" if value < np.median(symmetry) else "false", value) for _, value in known]


def test_a_row_is_entered_a_day_after_the_one_before(table: list[dict[str, str]]) -> None:
    """The date is the row's number in disguise."""
    days = np.datetime64("1995-11-01") + np.arange(569)
    known = [(row["entered"], str(day)) for row, day in zip(table, days, strict=True) if row["entered"]]

    assert [found for found, _ in known] == [expected for _, expected in known]
    assert len(known) > 550


def test_a_limit_takes_rows_from_all_over_the_set(table: list[dict[str, str]], tmp_path: Path) -> None:
    """Both classes are in it, and each row is as it is in the whole."""
    assert write_table(tmp_path / "tabular", limit=20) == 20

    some = rows(tmp_path / "tabular")
    assert some == [table[569 * place // 20] for place in range(20)]
    assert {row["label"] for row in some} == {"benign", "malignant"}


def test_two_calls_write_the_same_bytes(tmp_path: Path) -> None:
    """The empty cells are drawn with a seed."""
    for name in ("a", "b"):
        write_table(tmp_path / name)

    one, other = ((tmp_path / name / breast_cancer.FILE).read_bytes() for name in ("a", "b"))
    assert one == other
