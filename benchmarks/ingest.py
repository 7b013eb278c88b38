"""Ingest of rows: ours against stock CsvExampleGen, on Beam's in-memory runner, imports excluded for both.

    table     CSV of 20 columns                  30 times the rows per second of stock
    large     ten times the rows                 the same rows per second within 15 %, peak within 20 % and below 1 GB
    parquet   the same table                     100,000 rows/s
    npz       28 x 28 bytes per row               100,000 rows/s

python -m benchmarks.ingest --rounds 3           everything
python -m benchmarks.ingest parquet npz          some of it
python -m benchmarks.ingest --no-stock           without stock, which takes 100 s per round
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.measure import Measured

_ME = "benchmarks.ingest"
_FLOATS, _INTS = 12, 6
_TIMES = 10  # as many rows, where growth is measured
_BATCH = 200_000  # rows made at once
_LEAST, _RATIO, _SLOWER, _LARGER, _PEAK_MB = 100_000, 30, 0.85, 1.2, 1024


def table(rows: int, first: int = 0) -> Any:
    """Returns 12 floats, 6 integers, a category and a text, seeded, as a data frame."""
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]

    random = np.random.default_rng([7, first])
    columns: dict[str, Any] = {f"f{index:02d}": random.normal(size=rows).round(6) for index in range(_FLOATS)}
    columns |= {f"i{index:02d}": random.integers(0, 1000, rows) for index in range(_INTS)}
    columns["kind"] = random.choice([f"kind {index}" for index in range(20)], rows)
    columns["text"] = [f"item {number} of {number % 97}" for number in random.integers(0, 10**6, rows)]
    return pd.DataFrame(columns)


def write_csv(path: Path, rows: int) -> None:
    """Writes the table as pandas does."""
    for first in range(0, rows, _BATCH):
        part = table(min(_BATCH, rows - first), first)
        part.to_csv(path, index=False, header=not first, mode="a" if first else "w")


def write_parquet(path: Path, rows: int) -> None:
    """Writes the table as pandas does."""
    table(rows).to_parquet(path)


def write_npz(path: Path, rows: int) -> None:
    """Writes images of 28 x 28 bytes with their labels, as numpy does."""
    import numpy as np

    random = np.random.default_rng(7)
    pixels = random.integers(0, 256, (rows, 28, 28), np.uint8)
    np.savez(path, pixels=pixels, label=random.integers(0, 10, rows))


_WRITERS: Mapping[str, tuple[Callable[[Path, int], None], str]] = {
    "table": (write_csv, "table.csv"),
    "large": (write_csv, "large.csv"),
    "parquet": (write_parquet, "table.parquet"),
    "npz": (write_npz, "digits.npz"),
}


def ours(data: str) -> None:
    """Ingests with Penstock."""
    import apache_beam  # noqa: F401 - so that its import is not measured
    import tensorflow as tf  # noqa: F401

    from components.ingest import run
    from components.settings.ingest import Ingest
    from pipelines import ingest

    label = "label" if data.endswith(".npz") else "kind"
    with tempfile.TemporaryDirectory() as home:
        request = ingest.IngestRequest(data, Path(home, "out"), Ingest(label=label))
        measure.report(lambda: ingest.ingest(request))
        print(len(list(request.out.rglob("data_tfrecord-*"))), "shards by", run.__name__)


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
        inputs = example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern=Path(data).name)])
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


def contest(names: list[str], rows: int, rounds: int, *, with_stock: bool) -> None:
    """Measures in turn and prints a table with the result for each target."""
    home = Path(tempfile.mkdtemp())
    counts = {name: rows * (_TIMES if name == "large" else 1) for name in names}
    contenders: dict[str, list[str]] = {}
    for name in names:
        write, file = _WRITERS[name]
        write(home / file, counts[name])
        contenders[name] = ["-m", _ME, "--data", str(home / file), "--only", "ours"]
    if "table" in names and with_stock:
        counts["stock"] = rows
        contenders["stock"] = ["-m", _ME, "--data", str(home / "table.csv"), "--only", "stock"]
    try:
        medians = {name: measure.median(runs) for name, runs in measure.in_turn(contenders, rounds).items()}
    finally:
        shutil.rmtree(home)
    for name, run in medians.items():
        rate = f"{run.seconds:>8,.2f} s{counts[name] / run.seconds:>12,.0f} rows/s"
        print(f"{name:<10}{rate}{run.peak_mb:>10,.0f} MB peak")
    for line in verdicts(medians, counts):
        print(line)


def verdicts(medians: Mapping[str, Measured], counts: Mapping[str, int]) -> list[str]:
    """Returns the result for each target."""
    speed = {name: counts[name] / run.seconds for name, run in medians.items()}
    said: list[tuple[str, float, bool]] = []
    if "stock" in speed:
        ratio = speed["table"] / speed["stock"]
        said.append((f"table against stock, at least {_RATIO}", ratio, ratio >= _RATIO))
    if "large" in speed and "table" in speed:
        pace, peak = speed["large"] / speed["table"], medians["large"].peak_mb / medians["table"].peak_mb
        said.append((f"speed of ten times the rows, at least {_SLOWER}", pace, pace >= _SLOWER))
        said.append((f"peak of ten times the rows, at most {_LARGER}", peak, peak <= _LARGER))
        said.append((f"its MB, at most {_PEAK_MB}", medians["large"].peak_mb, medians["large"].peak_mb <= _PEAK_MB))
    others = sorted({"parquet", "npz"} & speed.keys())
    said += [(f"{name}: rows/s, at least {_LEAST:,}", speed[name], speed[name] >= _LEAST) for name in others]
    return [f"{'reached' if passed else 'MISSED':<9}{what}: {value:,.2f}" for what, value, passed in said]


def main() -> None:
    """Measures the named cases, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(_WRITERS))
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-stock", action="store_true", help="leave stock out")
    parser.add_argument("--only", choices=["ours", "stock"], help="one contender, in this process")
    parser.add_argument("--data")
    arguments = parser.parse_args()
    if arguments.only:
        {"ours": ours, "stock": stock}[arguments.only](arguments.data)
        return
    if unknown := set(arguments.names) - set(_WRITERS):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(_WRITERS)}")
    contest(arguments.names or list(_WRITERS), arguments.rows, arguments.rounds, with_stock=not arguments.no_stock)


if __name__ == "__main__":
    main()
