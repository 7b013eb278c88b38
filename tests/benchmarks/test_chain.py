"""The benchmark of the whole chain, on tiny data."""

from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pytest

from benchmarks import chain
from benchmarks.chain import CASES, Case, Run

pytestmark = pytest.mark.all


def test_the_medians_are_shown_per_node() -> None:
    """In the order in which nodes run; times of the whole run come last."""
    ours = [Run({"Ingest": 1.0, "Trainer": each}, 10.0, 8.0) for each in (2.0, 3.0, 9.0)]
    stock = [Run({"CsvExampleGen": 4.0, "Trainer": 6.0}, 20.0, 19.0)]

    assert [line.split() for line in chain.lines({"ours": ours, "stock": stock})] == [
        ["seconds", "ours", "stock"],
        ["Ingest", "1.0", "0.0"],
        ["Trainer", "3.0", "6.0"],
        ["CsvExampleGen", "0.0", "4.0"],
        ["imports", "and", "between", "nodes", "6.0", "10.0"],
        ["whole", "10.0", "20.0"],
        ["whole,", "CPU", "8.0", "19.0"],
    ]


@pytest.mark.slow
def test_both_chains_push_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    """On the same table; the ratio is that of the whole runs."""
    chain.contest("penguins", CASES["penguins"], rounds=1, before=None, with_stock=True)
    said = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    times = {words[0]: [float(each) for each in words[-2:]] for words in said[2:-1]}
    ours, stock = times["whole"]

    assert said[-1][0] == "ratio"
    assert float(said[-1][1]) == pytest.approx(ours / stock, abs=0.01)
    assert {"Ingest", "Pusher", "CsvExampleGen", "SchemaGen"} <= times.keys()


def test_the_table_is_the_same_in_every_run(tmp_path: Path) -> None:
    """Nineteen numbers and a label."""
    case = Case("tabular", 50, "label")
    for name in ("first", "second"):
        chain.write(case, tmp_path / name)
    first, second = (pd.read_csv(tmp_path / name / "table.csv") for name in ("first", "second"))

    assert first.equals(second)
    assert first.shape == (50, 20)
