"""`penstock predict` against a plain loop over the SavedModel: batches of 32, one call after another.

    images    10,000 JPEGs of 32 x 32      a served image model (runs/image/serving: `make demo`)
    rows      100,000 rows of a CSV file   a served model of a table (runs/tabular/serving: `make demo TASK=tabular`)

python -m benchmarks.predict images --model runs/image/serving --rounds 5
python -m benchmarks.predict rows --model runs/tabular/serving --rounds 5

The loop reads, converts and predicts; it checks and writes nothing. Imports and loading the model are not measured.
"""

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.ingest_images import CACHE, data_of, write_small

_ME = "benchmarks.predict"
_IMAGES, _ROWS, _BATCH = 10_000, 100_000, 32
_TARGETS = {"images": 2.0, "rows": 2.0}


def data_for(part: str, model: str) -> Path:
    """Returns the data of a case; generates it first if it is missing."""
    return data_of(write_small, _IMAGES) if part == "images" else _rows(model)


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
    if kind == "float":
        return np.round(random.normal(size=_ROWS), 4)
    numbers = random.integers(2 if kind == "bool" else 10, size=_ROWS)
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


def loop(part: str, model: str, data: str) -> None:
    """Predicts in a plain loop."""
    import tensorflow as tf

    from components.inference import find_model

    found = find_model.find(Path(model))
    served = tf.saved_model.load(str(found.path))
    signature = served.signatures["raw"]
    measure.report(lambda: (_loop_images if part == "images" else _loop_rows)(signature, data, found.reading))


def _loop_images(signature: Any, data: str, reading: Any) -> None:
    import tensorflow as tf

    (argument,) = reading.arguments
    files = sorted(Path(data).rglob("*.jpg"))
    for start in range(0, len(files), _BATCH):
        contents = [file.read_bytes() for file in files[start : start + _BATCH]]
        signature(**{argument.name: tf.constant(contents)})["probabilities"].numpy()


def _loop_rows(signature: Any, data: str, reading: Any) -> None:
    import pandas as pd  # type: ignore[import-untyped]
    import tensorflow as tf

    specs = signature.structured_input_signature[1]
    for rows in pd.read_csv(data, chunksize=_BATCH):
        values = {a.name: tf.constant(rows[a.column].to_list(), specs[a.name].dtype) for a in reading.arguments}
        next(iter(signature(**values).values())).numpy()


def compare(part: str, model: str, rounds: int) -> None:
    """Prints both rates, and their ratio."""
    common = ["-m", _ME, part, "--model", model, "--data", str(data_for(part, model))]
    runs = measure.in_turn({name: [*common, "--only", name] for name in ("ours", "loop")}, rounds)
    count = _IMAGES if part == "images" else _ROWS
    rates = {name: count / measure.median(done).seconds for name, done in runs.items()}
    for name, rate in rates.items():
        print(f"{part:<8}{name:<8}{rate:>12,.0f} records per second")
    ratio, target = rates["ours"] / rates["loop"], _TARGETS[part]
    print(f"{part:<8}ratio   {ratio:>12.2f}   target {target}: {'passed' if ratio >= target else 'MISSED'}")


def main() -> None:
    """Measures one case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(_TARGETS))
    parser.add_argument("--model", required=True, help="a serving folder, or a version in it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["ours", "loop"], help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only == "ours":
        ours(asked.model, asked.data)
    elif asked.only:
        loop(asked.part, asked.model, asked.data)
    else:
        compare(asked.part, asked.model, asked.rounds)


if __name__ == "__main__":
    main()
