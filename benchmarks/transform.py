"""Benchmark of Transform on a table of 20 columns (18 z-scores, a vocabulary, a label) against the stock component.

    stock    TFX's Transform with its defaults, which also writes transformed records and statistics
    ours     exact sums and counts, then only the graph
    large    ours on five times the rows: time grows with them, memory does not

python -m benchmarks.transform --rounds 3
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import measure

_ME = "benchmarks.transform"
_FLOATS, _INTS, _TIMES = 12, 6, 5
_RATIO, _LARGER = 0.5, 1.2
_NUMBERS = [*(f"f{index:02d}" for index in range(_FLOATS)), *(f"i{index:02d}" for index in range(_INTS))]


def write(home: Path, rows: int) -> None:
    """Writes the table, and its records as `penstock ingest` does."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from components.settings.ingest import Ingest
    from pipelines import ingest

    random = np.random.default_rng(5)
    columns: dict[str, Any] = {name: random.normal(size=rows).astype(np.float32) for name in _NUMBERS[:_FLOATS]}
    columns |= {name: random.integers(0, 1000, rows) for name in _NUMBERS[_FLOATS:]}
    columns["place"] = random.choice(np.array([f"place {index}" for index in range(500)]), rows)
    columns["label"] = random.choice(np.array(["no", "yes"]), rows)
    home.mkdir()
    pq.write_table(pa.table(columns), home / "table.parquet")
    ingest.ingest(ingest.IngestRequest(str(home / "table.parquet"), home / "examples", Ingest(label="label")))


def stock_fn(inputs: dict[str, Any]) -> dict[str, Any]:
    """The preprocessing_fn of a tutorial."""
    import tensorflow as tf
    import tensorflow_transform as tft

    outputs = {name: tft.scale_to_z_score(tf.cast(inputs[name], tf.float32)) for name in _NUMBERS}
    outputs["place"] = tft.compute_and_apply_vocabulary(inputs["place"])
    outputs["label"] = tft.compute_and_apply_vocabulary(inputs["label"])
    return outputs


def run(home: Path, *, is_stock: bool) -> None:
    """Runs the component's executor in this process."""
    from tfx.components import Transform
    from tfx.components.transform.executor import Executor
    from tfx.dsl.components.base import base_beam_executor
    from tfx.types import channel_utils, standard_artifacts

    from components.fitting.component import SpanTransform, SpanTransformExecutor

    examples, schema = standard_artifacts.Examples(), standard_artifacts.Schema()
    examples.uri, examples.split_names = str(home / "examples"), '["train", "eval", "test"]'
    schema.uri = str(home / "schema")
    _write_schema(home, is_stock=is_stock)
    channels = {"examples": channel_utils.as_channel([examples]), "schema": channel_utils.as_channel([schema])}
    node = Transform(**channels, **_STOCK) if is_stock else SpanTransform(**channels, **_ours(home))
    with tempfile.TemporaryDirectory() as out:
        outputs = {}
        for key, channel in node.outputs.items():
            artifact = channel.type()
            artifact.uri = str(Path(out, key))
            outputs[key] = [artifact]
        context = base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=[], tmp_dir=out, unique_id="1")
        made = (Executor if is_stock else SpanTransformExecutor)(context)
        inputs = {"examples": [examples], "schema": [schema]}
        measure.report(lambda: made.Do(inputs, outputs, dict(node.exec_properties)))


_STOCK = {"preprocessing_fn": f"{_ME}.stock_fn"}


def _ours(home: Path) -> dict[str, Any]:
    """Returns the exec properties as pipelines/orchestration/build.py sets them."""
    from components.records import roles
    from components.settings.transform import Transform
    from components.tasks import assign, get

    assigned = assign.assign(get("tabular").parts, roles.read(_schema(home), "label"))
    return {
        "preprocessing_fn": "components.fitting.preprocessing.preprocessing_fn",
        "custom_config": {
            "label": "label",
            "kind": "class",
            "parts": [[each.part.fit, [column.to_dict() for column in each.columns]] for each in assigned],
            "settings": Transform().model_dump(mode="json"),
        },
        "materialize": False,
        "disable_statistics": True,
        "disable_analyzer_cache": True,
    }


def _schema(home: Path) -> Any:
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    return text_format.Parse((home / "examples" / "schema.pbtxt").read_text(), schema_pb2.Schema())


def _write_schema(home: Path, *, is_stock: bool) -> None:
    """No value is missing: the schema says so to stock, which avoids sparse tensors; ours uses its defaults."""
    from google.protobuf import text_format

    from components.records import roles

    schema = _schema(home)
    if is_stock:
        for feature in schema.feature:
            feature.ClearField("value_count")
            feature.shape.SetInParent()
            feature.presence.min_fraction = 1.0
    else:
        schema = roles.with_defaults(schema, "label")
    (home / "schema").mkdir(exist_ok=True)
    (home / "schema" / "schema.pbtxt").write_text(text_format.MessageToString(schema))


def contest(rows: int, rounds: int) -> None:
    """Measures in turn and prints a table with the result for each target."""
    home = Path(tempfile.mkdtemp())
    try:
        for name, count in (("table", rows), ("large", _TIMES * rows)):
            write(home / name, count)
        found = measure.in_turn(
            {
                "ours": ["-m", _ME, "--data", str(home / "table"), "--only", "ours"],
                "stock": ["-m", _ME, "--data", str(home / "table"), "--only", "stock"],
                "large": ["-m", _ME, "--data", str(home / "large"), "--only", "ours"],
            },
            rounds,
        )
    finally:
        shutil.rmtree(home)
    medians = {name: measure.median(runs) for name, runs in found.items()}
    for name, each in medians.items():
        print(f"{name:<8}{each.seconds:>8.1f} s{each.peak_mb:>9,.0f} MB peak")
    ratio = medians["ours"].seconds / medians["stock"].seconds
    peak = medians["large"].peak_mb / medians["ours"].peak_mb
    print(f"{'reached' if ratio <= _RATIO else 'MISSED':<9}time of stock's, at most {_RATIO}: {ratio:.2f}")
    print(
        f"{'reached' if peak <= _LARGER else 'MISSED':<9}peak of {_TIMES} times the rows, at most {_LARGER}: {peak:.2f}"
    )


def main() -> None:
    """Measures all, or one contender."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["ours", "stock"], help="one contender, in this process")
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    if arguments.only:
        run(arguments.data, is_stock=arguments.only == "stock")
    else:
        contest(arguments.rows, arguments.rounds)


if __name__ == "__main__":
    main()
