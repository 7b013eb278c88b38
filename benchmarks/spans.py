"""Benchmark of one new span: Ingest, StatisticsGen and Transform against a run from scratch on the same data.

    growing    the root has read all spans but the newest; then the newest arrives
    scratch    a new root reads all spans

The fitted results of both are compared: the vocabulary files, and the transformed values of records of the newest span.

python -m benchmarks.spans                                  ten spans of 200,000 rows x 20 columns
python -m benchmarks.spans --rows 2000 --rounds 3           small spans: not slower than from scratch
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_NUMBERS, _LARGE = 18, 20_000
_TARGET, _SMALL_TARGET = 0.35, 1.1
_NODES = ("Ingest", "StatisticsGen", "Transform")
_SAMPLE = 1000  # records whose transformed values are compared


def write_span(folder: Path, number: int, rows: int) -> None:
    """Writes one span: 12 float columns, 6 integer columns, a category and a label."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(number)
    columns: dict[str, Any] = {f"f{at:02d}": random.normal(number, 1, rows).astype(np.float32) for at in range(12)}
    columns |= {f"i{at:02d}": random.integers(0, 1000, rows) for at in range(_NUMBERS - 12)}
    columns["place"] = random.choice(np.array([f"place {index}" for index in range(500 + number)]), rows)
    columns["label"] = random.choice(np.array(["no", "yes"]), rows)
    home = folder / str(number)
    home.mkdir(parents=True)
    pq.write_table(pa.table(columns), home / "rows.parquet")


def seconds(root: Path, data: Path) -> dict[str, float]:
    """Runs the pipeline up to Transform; returns the seconds of each node."""
    penstock = str(Path(sys.executable).with_name("penstock"))
    command = [
        *(penstock, "run", "tabular", "--to", "Transform", "--root", str(root)),
        *("--data", str(data / "{SPAN}" / "*.parquet"), "--set", "ingest.label=label"),
    ]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return {node: _seconds_of(root, node) for node in _NODES}


def _seconds_of(root: Path, node: str) -> float:
    """Returns the seconds of the newest execution of a node, as its metadata has them."""
    from ml_metadata import metadata_store
    from ml_metadata.proto import metadata_store_pb2

    connection = metadata_store_pb2.ConnectionConfig()
    connection.sqlite.filename_uri = str(root / "metadata.db")
    store = metadata_store.MetadataStore(connection)
    context = store.get_context_by_type_and_name("node", f"tabular.{node}")
    newest = max(store.get_executions_by_context(context.id), key=lambda each: each.id)
    return newest.custom_properties["seconds"].double_value


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


def contest(spans: int, rows: int, rounds: int) -> None:
    """Measures, compares the fitted results, and prints a table with the result for each target."""
    found: dict[str, list[Mapping[str, float]]] = {"growing": [], "scratch": []}
    same = True
    for _ in range(rounds):
        home = Path(tempfile.mkdtemp(prefix="penstock-spans-"))
        try:
            for number in range(1, spans):
                write_span(home / "data", number, rows)
            seconds(home / "growing", home / "data")
            write_span(home / "data", spans, rows)
            found["growing"].append(seconds(home / "growing", home / "data"))
            found["scratch"].append(seconds(home / "scratch", home / "data"))
            same = same and fitted(home / "growing") == fitted(home / "scratch")
        finally:
            shutil.rmtree(home)
    _show(found, rows, same=same)


def _show(found: Mapping[str, list[Mapping[str, float]]], rows: int, *, same: bool) -> None:
    medians = {
        name: {node: statistics.median(run[node] for run in runs) for node in _NODES} for name, runs in found.items()
    }
    print(f"{'node':<26}{'one new span':>14}{'from scratch':>14}{'ratio':>8}")
    groups = {**{node: (node,) for node in _NODES}, "Ingest, Transform": ("Ingest", "Transform"), "all three": _NODES}
    ratios = {}
    for name, nodes in groups.items():
        new, all_of = (sum(medians[way][node] for node in nodes) for way in ("growing", "scratch"))
        ratios[name] = new / all_of
        print(f"{name:<26}{new:>12.2f} s{all_of:>12.2f} s{new / all_of:>8.2f}")
    target = _TARGET if rows >= _LARGE else _SMALL_TARGET
    for name in ("Ingest, Transform", "all three"):
        print(f"{'reached' if ratios[name] <= target else 'MISSED':<9}{name}, at most {target}: {ratios[name]:.2f}")
    print(f"{'reached' if same else 'MISSED':<9}fitted results are bit-equal")


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=10)
    parser.add_argument("--rows", type=int, default=200_000, help="per span")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    contest(arguments.spans, arguments.rows, arguments.rounds)


if __name__ == "__main__":
    main()
