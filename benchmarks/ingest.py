"""Ingest of a table: ours against stock CsvExampleGen, on Beam's in-memory runner, imports excluded for both.

python -m benchmarks.ingest --rows 200000 --rounds 3
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import measure

_FLOATS, _INTS = 12, 6


def write_csv(path: Path, rows: int) -> None:
    """Writes a table of 12 floats, 6 integers, a category and a text, seeded."""
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]

    random = np.random.default_rng(7)
    table: dict[str, Any] = {f"f{index:02d}": random.normal(size=rows).round(6) for index in range(_FLOATS)}
    table |= {f"i{index:02d}": random.integers(0, 1000, rows) for index in range(_INTS)}
    table["kind"] = random.choice([f"kind {index}" for index in range(20)], rows)
    table["text"] = [f"item {number} of {number % 97}" for number in random.integers(0, 10**6, rows)]
    pd.DataFrame(table).to_csv(path, index=False)


def ours(data: str) -> None:
    """Ingests with Penstock."""
    import tensorflow as tf  # noqa: F401 - so that its import is not measured

    from components.ingest import run
    from components.settings import Ingest
    from pipelines import ingest_alone

    with tempfile.TemporaryDirectory() as home:
        wish = ingest_alone.Wish(data, Path(home, "out"), Ingest(label="kind"))
        measure.report(lambda: ingest_alone.ingest(wish))
        print(len(list(wish.out.rglob("data_tfrecord-*"))), "shards", run.__name__)


def stock(data: str) -> None:
    """Ingests with TFX's CsvExampleGen executor and its defaults."""
    from tfx.components.example_gen import utils
    from tfx.components.example_gen.csv_example_gen import executor
    from tfx.dsl.components.base import base_beam_executor
    from tfx.proto import example_gen_pb2
    from tfx.types import standard_artifacts
    from tfx.utils import proto_utils

    with tempfile.TemporaryDirectory() as home:
        examples = standard_artifacts.Examples()
        examples.uri = str(Path(home, "examples"))
        inputs = example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern="*")])
        properties = {
            "input_base": str(Path(data).parent),
            "input_config": proto_utils.proto_to_json(inputs),
            "output_config": proto_utils.proto_to_json(utils.make_default_output_config(inputs)),
            "output_data_format": example_gen_pb2.FORMAT_TF_EXAMPLE,
            "output_file_format": example_gen_pb2.FORMAT_TFRECORDS_GZIP,
        }
        context = base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=[], tmp_dir=home, unique_id="1")
        made = executor.Executor(context)
        measure.report(lambda: made.Do({}, {"examples": [examples]}, properties))


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["ours", "stock"], help="one contender, in this process")
    parser.add_argument("--data")
    arguments = parser.parse_args()
    if arguments.only:
        {"ours": ours, "stock": stock}[arguments.only](arguments.data)
        return
    home = Path(tempfile.mkdtemp())
    data = home / "table.csv"
    write_csv(data, arguments.rows)
    command = ["-m", "benchmarks.ingest", "--data", str(data), "--only"]
    results = measure.in_turn({"ours": [*command, "ours"], "stock": [*command, "stock"]}, arguments.rounds)
    shutil.rmtree(home)
    medians = {name: measure.median(runs) for name, runs in results.items()}
    for name, run in medians.items():
        print(f"{name:<8}{arguments.rows / run.seconds:>12,.0f} rows/s{run.peak_mb:>10,.0f} MB peak")
    print(f"ratio   {medians['stock'].seconds / medians['ours'].seconds:>12.1f} x")


if __name__ == "__main__":
    main()
