"""Benchmark of one new span: `penstock retrain` on ten spans, of which nine are known, against the same from scratch.

    growing    a model of all spans but the newest is live; then the newest arrives, and training starts from that model
    scratch    a new root reads all spans, and training starts from random weights

The fitted results of both are compared: the vocabulary files, and the transformed values of records of the newest span.
Seconds of nodes are those of the metadata; the rest of the wall time is imports, the plan and the report.

python -m benchmarks.spans                                  ten spans of 200,000 rows x 20 columns
python -m benchmarks.spans --rows 2000 --rounds 3 --warm-epochs 4     small spans: not slower than from scratch
python -m benchmarks.spans --home FOLDER --prepare          writes nine spans and trains on them; measures nothing
python -m benchmarks.spans --home FOLDER                    the rest of it, for a machine that is quiet only for minutes
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NUMBERS, _LARGE = 18, 20_000
_TARGET, _WHOLE_TARGET, _SMALL_TARGET = 0.35, 0.45, 1.1
_NODES = ("Ingest", "StatisticsGen", "Transform")
_SAMPLE = 1000  # records whose transformed values are compared
_NOT_BLESSED = 3
_WALL, _ACCURACY = "wall", "accuracy"


def write_span(folder: Path, number: int, rows: int) -> None:
    """Writes one span: 12 float columns, 6 integer columns, a category and a label that depends on four of them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(number)
    columns: dict[str, Any] = {f"f{at:02d}": random.normal(number / 10, 1, rows).astype(np.float32) for at in range(12)}
    columns |= {f"i{at:02d}": random.integers(0, 1000, rows) for at in range(_NUMBERS - 12)}
    place = random.integers(0, 500 + number, rows)
    columns["place"] = np.array([f"place {index}" for index in range(500 + number)])[place]
    score = columns["f00"] - columns["f01"] + 2 * np.sin(columns["i00"] / 80) + 2 * np.cos(place)
    columns["label"] = np.where(score + random.normal(0, 1, rows) > 0, "yes", "no")
    home = folder / str(number)
    home.mkdir(parents=True)
    pq.write_table(pa.table(columns), home / "rows.parquet")


def retrain(root: Path, data: Path, span: int, epochs: int) -> dict[str, float]:
    """Retrains for one span; returns the seconds of each node that ran, the wall time, and the accuracy."""
    penstock = str(Path(sys.executable).with_name("penstock"))
    command = [
        *(penstock, "retrain", "tabular", "--span", str(span), "--root", str(root)),
        *("--data", str(data / "{SPAN}" / "*.parquet"), "--label", "label", "--set", f"train.epochs={epochs}"),
    ]
    start = time.perf_counter()
    code = subprocess.run(command, check=False, stdout=sys.stderr).returncode
    wall = time.perf_counter() - start
    if code not in (0, _NOT_BLESSED):
        raise SystemExit(f"penstock retrain ended with exit code {code}")
    return {**_of_last_run(root), _WALL: wall}


def _of_last_run(root: Path) -> dict[str, float]:
    """Returns the seconds of each node that ran in the last run, and the accuracy of its model."""
    from pipelines.orchestration.metadata import store

    opened = store.Store(root / "metadata.db", "tabular")
    (found,) = opened.by_run(1).values()
    ran = {each.id: each.node for each in found if each.state == "COMPLETE"}
    properties = {each.id: each.custom_properties for each in opened.client.get_executions_by_id(list(ran))}
    spent = {ran[number]: values[store.SECONDS].double_value for number, values in properties.items()}
    (accuracy,) = (each.facts["metrics"]["accuracy"] for each in found if each.node == "Evaluator")
    return {**spent, _ACCURACY: accuracy}


def fitted(root: Path) -> dict[str, bytes]:
    """Returns the vocabulary files, and the transformed values of some records."""
    import tensorflow as tf
    import tensorflow_transform as tft

    graph = _newest(root / "Transform" / "transform_graph")
    shard = max(_newest(root / "Ingest" / "examples").glob("Split-eval/*"))
    output = tft.TFTransformOutput(str(graph))
    records = next(iter(tf.data.TFRecordDataset(str(shard)).batch(_SAMPLE)))
    values = output.transform_raw_features(tf.io.parse_example(records, output.raw_feature_spec()))
    files = {file.name: file.read_bytes() for file in sorted(graph.glob("transform_fn/assets/*"))}
    return {**files, **{name: value.numpy().tobytes() for name, value in values.items()}}


def _newest(folder: Path) -> Path:
    return max((each for each in folder.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))


@dataclass(frozen=True)
class Round:
    """What was measured once: seconds per node, wall time and accuracy, and whether the fitted results are equal."""

    growing: Mapping[str, float]
    scratch: Mapping[str, float]
    is_equal: bool


@dataclass(frozen=True)
class Contest:
    """What is compared."""

    spans: int
    rows: int  # per span
    epochs: int  # from scratch
    warm_epochs: int  # from the live model

    def prepare(self, home: Path) -> None:
        """Writes all spans but the newest, and makes a model of them live."""
        for number in range(1, self.spans):
            write_span(home / "data", number, self.rows)
        retrain(home / "growing", home / "data", self.spans - 1, self.epochs)

    def measure(self, home: Path) -> Round:
        """Retrains on one new span, and from scratch."""
        write_span(home / "data", self.spans, self.rows)
        growing = retrain(home / "growing", home / "data", self.spans, self.warm_epochs)
        scratch = retrain(home / "scratch", home / "data", self.spans, self.epochs)
        return Round(growing, scratch, fitted(home / "growing") == fitted(home / "scratch"))

    def show(self, rounds: Sequence[Round]) -> None:
        """Prints a table with the medians, and the result for each target."""
        growing, scratch = _medians([each.growing for each in rounds]), _medians([each.scratch for each in rounds])
        nodes = sorted({*growing, *scratch} - {_WALL, _ACCURACY}, key=lambda node: -scratch.get(node, 0.0))
        groups = {node: [node] for node in nodes} | {"Ingest, StatisticsGen, Transform": _NODES, "all nodes": nodes}
        groups[_WALL] = [_WALL]
        print(f"{'':<34}{'one new span':>14}{'from scratch':>14}{'ratio':>8}")
        ratios = {}
        for name, members in groups.items():
            new, all_of = (sum(side.get(each, 0.0) for each in members) for side in (growing, scratch))
            ratios[name] = new / all_of if all_of else float("nan")
            print(f"{name:<34}{new:>12.2f} s{all_of:>12.2f} s{ratios[name]:>8.2f}")
        print(f"{_ACCURACY:<34}{growing[_ACCURACY]:>14.4f}{scratch[_ACCURACY]:>14.4f}")
        is_large = self.rows >= _LARGE
        targets = {"Ingest, StatisticsGen, Transform": _TARGET, "all nodes": _WHOLE_TARGET, _WALL: _WHOLE_TARGET}
        for name, target in targets.items():
            limit = target if is_large else _SMALL_TARGET
            print(f"{'reached' if ratios[name] <= limit else 'MISSED':<9}{name}, at most {limit}: {ratios[name]:.2f}")
        print(f"{'reached' if all(each.is_equal for each in rounds) else 'MISSED':<9}fitted results are bit-equal")


def _medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run.get(name, 0.0) for run in runs) for name in runs[0]}


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=10)
    parser.add_argument("--rows", type=int, default=200_000, help="per span")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4, help="from scratch")
    parser.add_argument("--warm-epochs", type=int, default=1, help="from the live model")
    parser.add_argument("--home", type=Path, help="folder that is kept, of a single round")
    parser.add_argument("--prepare", action="store_true", help="with --home: only what comes before the measurement")
    arguments = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    contest = Contest(arguments.spans, arguments.rows, arguments.epochs, arguments.warm_epochs)
    if arguments.home:
        if not (arguments.home / "growing").exists():
            contest.prepare(arguments.home)
        if not arguments.prepare:
            contest.show([contest.measure(arguments.home)])
        return
    rounds = []
    for _ in range(arguments.rounds):
        home = Path(tempfile.mkdtemp(prefix="penstock-spans-"))
        try:
            contest.prepare(home)
            rounds.append(contest.measure(home))
        finally:
            shutil.rmtree(home)
    contest.show(rounds)


if __name__ == "__main__":
    main()
