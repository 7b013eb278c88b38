"""Sample data of the tabular task: scikit-learn's 569 breast tumours as a CSV table.

    load_breast_cancer() => 30 numbers ┐
    derived: size, symmetric, entered  ├─► some cells emptied ─► tumours.csv
    label: benign or malignant         ┘

The measurements are unchanged. Three columns are derived from them, so that a run also reads categories, booleans and
dates; none is derived from the label. One cell in a hundred is emptied, drawn with a fixed seed.

    python -m data.breast_cancer [--out data/samples/tabular] [--limit N]
"""

import csv
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

from data import sample

DEFAULT_OUT = Path("data/samples/tabular")
FILE = "tumours.csv"
EMPTY = 0.01  # fraction of emptied cells, without the label column
SEED = 17
SIZES = ("small", "medium", "large")
FIRST_DAY = dt.date(1995, 11, 1)  # the month in which the data set was donated to UCI


def write_table(out: Path, limit: int | None = None) -> int:
    """Writes `out`/tumours.csv, unless it exists already, and returns the number of its rows.

    With a `limit`, rows are taken at equal distances: nearly all of the first rows are malignant.
    """
    recipe = {"empty": EMPTY, "limit": limit, "seed": SEED} | sample.versions("numpy", "scikit-learn")
    sample.write_whole(out, recipe, lambda folder: _write(folder / FILE, limit))
    return sample.count_lines(out / FILE) - 1


def _write(path: Path, limit: int | None) -> None:
    """Writes all columns of all rows, or of `limit` rows; a row does not depend on the limit."""
    columns = _columns()
    rows = list(_with_empty_cells(list(zip(*columns.values(), strict=True))))
    count = min(limit or len(rows), len(rows))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows[len(rows) * place // count] for place in range(count))


def _columns() -> dict[str, list[str]]:
    """Returns the cells of each column, as text."""
    from sklearn.datasets import load_breast_cancer

    tumours = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in tumours.feature_names]
    numbers = {name: tumours.data[:, place].tolist() for place, name in enumerate(names)}
    columns = {name: [repr(value) for value in values] for name, values in numbers.items()}
    columns["size"] = _thirds(numbers["mean_radius"])
    columns["symmetric"] = _below_median(numbers["mean_symmetry"])
    columns["entered"] = [str(FIRST_DAY + dt.timedelta(days=row)) for row in range(len(tumours.target))]
    columns["label"] = [str(tumours.target_names[number]) for number in tumours.target]
    return columns


def _thirds(values: list[float]) -> list[str]:
    """Returns small, medium or large, by thirds of all values."""
    ordered = sorted(values)
    borders = [ordered[len(ordered) * part // 3] for part in (1, 2)]
    return [SIZES[sum(value >= border for border in borders)] for value in values]


def _below_median(values: list[float]) -> list[str]:
    median = sorted(values)[len(values) // 2]
    return ["true" if value < median else "false" for value in values]


def _with_empty_cells(rows: list[tuple[str, ...]]) -> Iterator[list[str]]:
    """Yields the rows with some cells emptied, except the last cell: the label."""
    import numpy as np

    empty = np.random.default_rng(SEED).random((len(rows), len(rows[0]))) < EMPTY
    empty[:, -1] = False
    for row, holes in zip(rows, empty, strict=True):
        yield ["" if hole else cell for cell, hole in zip(row, holes, strict=True)]


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    return sample.command(write_table, "data.breast_cancer", "Write tumours as a CSV table.", DEFAULT_OUT, argv)


if __name__ == "__main__":
    raise SystemExit(main())
