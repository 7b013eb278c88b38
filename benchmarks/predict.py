"""`penstock predict` against plain loops over the SavedModel: batches of 32, and of 1, one call after another.

    images    10,000 JPEGs of 32 x 32      a served image model (runs/image/serving: `make demo`)
    photos    2,000 JPEGs of 500 x 375     the same
    rows      100,000 rows of a CSV file   a served model of a table (runs/tabular/serving: `make demo TASK=tabular`)

python -m benchmarks.predict images --model runs/image/serving --rounds 5
python -m benchmarks.predict rows --model runs/tabular/serving --rounds 5

A loop reads, converts and predicts; it checks and writes nothing. Imports and loading the model are not measured.
`signature` calls the model alone, with all images in memory, in one thread: what the CPU has to do in any case.
"""

import argparse
import csv
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.ingest_images import CACHE, data_of, write_photos, write_small

_ME = "benchmarks.predict"
_RECORDS = {"images": 10_000, "photos": 2_000, "rows": 100_000}
_CONTENDERS = {"ours": 0, "loop": 32, "single": 1, "signature": 128}  # records per batch; 0: Penstock decides
_TARGET = 2.0  # times the loop


def data_for(part: str, model: str) -> Path:
    """Returns the data of a case; generates it first if it is missing."""
    if part == "rows":
        return _rows(model)
    return data_of(write_small if part == "images" else write_photos, _RECORDS[part])


def _rows(model: str) -> Path:
    """Returns a CSV file with the columns that a model reads."""
    from components.inference import find_model

    found = find_model.find(Path(model))
    target = CACHE / f"predict-rows-{found.digest[:12]}.csv"
    if not target.exists():
        random = np.random.default_rng(7)
        columns = [_values(argument.kind, random) for argument in found.reading.arguments]
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([argument.column for argument in found.reading.arguments])
            writer.writerows(zip(*columns, strict=True))
    return target


def _values(kind: str, random: Any) -> Any:
    count = _RECORDS["rows"]
    if kind == "float":
        return np.round(random.normal(size=count), 4)
    numbers = random.integers(2 if kind == "bool" else 10, size=count)
    return numbers if kind in ("int", "bool") else [f"v{number}" for number in numbers]


def ours(model: str, data: str) -> None:
    """Predicts with Penstock."""
    from components.inference import find_model, run  # noqa: F401
    from components.inference import model as models
    from pipelines.predict import PredictRequest, predict

    found = find_model.find(Path(model))
    models.load(str(found.path), found.digest, found.reading)
    with tempfile.TemporaryDirectory(dir=CACHE) as home:
        measure.report(lambda: predict(PredictRequest(Path(model), data, Path(home, "out"))))


def loop(part: str, model: str, data: str, batch: int, *, alone: bool) -> None:
    """Predicts in a plain loop; `alone`: in one thread, without reading."""
    import tensorflow as tf

    from components.inference import find_model

    if alone:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    found = find_model.find(Path(model))
    served = tf.saved_model.load(str(found.path))
    signature = served.signatures["raw"]
    if part == "rows":
        measure.report(lambda: _loop_rows(signature, data, found.reading, batch))
        return
    files = sorted(Path(data).rglob("*.jpg"))
    read = (
        dict(zip(files, [file.read_bytes() for file in files], strict=True)).__getitem__ if alone else Path.read_bytes
    )
    measure.report(lambda: _loop_images(signature, files, read, batch))


def _loop_images(signature: Any, files: Sequence[Path], read: Callable[[Path], bytes], batch: int) -> None:
    import tensorflow as tf

    (name,) = signature.structured_input_signature[1]
    for start in range(0, len(files), batch):
        contents = [read(file) for file in files[start : start + batch]]
        signature(**{name: tf.constant(contents)})["probabilities"].numpy()


def _loop_rows(signature: Any, data: str, reading: Any, batch: int) -> None:
    import pandas as pd  # type: ignore[import-untyped]
    import tensorflow as tf

    specs = signature.structured_input_signature[1]
    for rows in pd.read_csv(data, chunksize=batch):
        values = {a.name: tf.constant(rows[a.column].to_list(), specs[a.name].dtype) for a in reading.arguments}
        next(iter(signature(**values).values())).numpy()


def compare(part: str, model: str, rounds: int) -> None:
    """Prints both rates, and their ratio."""
    common = ["-m", _ME, part, "--model", model, "--data", str(data_for(part, model))]
    names = ["ours", "loop"] if part == "rows" else list(_CONTENDERS)
    runs = measure.in_turn({name: [*common, "--only", name] for name in names}, rounds)
    medians = {name: measure.median(done) for name, done in runs.items()}
    for name, each in medians.items():
        rate, cpu = _RECORDS[part] / each.seconds, each.cpu / _RECORDS[part] * 1e6
        print(f"{part:<8}{name:<10}{rate:>10,.0f} records per second{cpu:>10,.0f} us of CPU each")
    ratio = medians["loop"].seconds / medians["ours"].seconds
    print(f"{part:<8}ratio     {ratio:>10.2f}   target {_TARGET}: {'passed' if ratio >= _TARGET else 'MISSED'}")


def main() -> None:
    """Measures one case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(_RECORDS))
    parser.add_argument("--model", required=True, help="a serving folder, or a version in it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=list(_CONTENDERS), help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only == "ours":
        ours(asked.model, asked.data)
    elif asked.only:
        loop(asked.part, asked.model, asked.data, _CONTENDERS[asked.only], alone=asked.only == "signature")
    else:
        compare(asked.part, asked.model, asked.rounds)


if __name__ == "__main__":
    main()
