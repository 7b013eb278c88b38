"""A small table that tests of predictions share, and a network that reads it."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from components.serving.reading import Argument, Reading
from tests.inference.conftest import CLASSES

TABLE = (Argument("size", "size", "number", "float"), Argument("name_", "name", "category", "text"))
ROWS = [(1.5, "a", "high"), (None, "bb", "low"), (4.0, "", "high")]
TOTALS = np.array([2.5, 2.5, 4.0], np.float32)
HIGH = 1 / (1 + np.exp(2 - TOTALS))
IMAGE = (Argument("image", "image", "image", "bytes"),)


def predictions(out: Path) -> pa.Table:
    """Returns all predictions in order."""
    return pa.concat_tables([pq.read_table(file) for file in sorted(out.glob("predictions-*.parquet"))])


def write_csv(folder: Path, labelled: bool, header: bool = True) -> Path:
    """Writes the rows as CSV; the label is in the middle."""
    lines = [["size", "kind", "name"]] * header
    lines += [["" if size is None else str(size), label, name] for size, name, label in ROWS]
    kept = [line if labelled else [line[0], line[2]] for line in lines]
    (folder / "rows.csv").write_text("".join(",".join(line) + "\n" for line in kept))
    return folder / "rows.csv"


def save_network(folder: Path) -> None:
    """Saves a network of two dense layers, whose last digits depend on the number of rows that it gets at once."""
    arguments = (Argument("size", "size", "number", "float"), Argument("review", "review", "text", "text"))
    random = np.random.default_rng(3)
    module = tf.Module()
    module.first, module.second = (
        tf.Variable(random.normal(size=shape), dtype=tf.float32) for shape in [(9, 64), (64, 2)]
    )

    def raw(size: Any, review: Any) -> dict[str, Any]:
        codes = tf.io.decode_raw(review, tf.uint8, fixed_length=8)
        inputs = tf.concat([size[:, tf.newaxis], tf.cast(codes, tf.float32) / 128], axis=1)
        return {"probabilities": tf.nn.softmax(tf.nn.relu(inputs @ module.first) @ module.second / 8)}

    specs = {"size": tf.TensorSpec([None], tf.float32, "size"), "review": tf.TensorSpec([None], tf.string, "review")}
    module.raw = tf.function(raw, autograph=False)
    tf.saved_model.save(module, str(folder), signatures={"raw": module.raw.get_concrete_function(**specs)})
    Reading(arguments, "label", "class", CLASSES, label_source="kind").write(folder)
