"""Promise A9: a number that a record cannot hold is a bad row with file and column; it is never written as infinity."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components import refs
from components.ingest.survey import detect
from components.ingest.write.encode_columns import encode_columns

TOO_LARGE = 1e300


def csv(home: Path) -> Path:
    """A cell."""
    (home / "a.csv").write_text(f"x,y\n1.5,a\n{TOO_LARGE},b\n,c\n")
    return home / "a.csv"


def jsonl(home: Path) -> Path:
    """A value."""
    (home / "a.jsonl").write_text(f'{{"x": 1.5}}\n{{"x": {TOO_LARGE}}}\n{{"x": null}}\n')
    return home / "a.jsonl"


def parquet(home: Path) -> Path:
    """A double."""
    pq.write_table(pa.table({"x": [1.5, TOO_LARGE, None]}), home / "a.parquet")
    return home / "a.parquet"


def parquet_list(home: Path) -> Path:
    """A double in a list."""
    pq.write_table(pa.table({"x": [[1.5, 2], [3, -TOO_LARGE], None]}), home / "a.parquet")
    return home / "a.parquet"


def numbers(home: Path) -> Path:
    """A value of a vector."""
    np.savez(home / "a.npz", x=np.array([1.5, TOO_LARGE]))
    return home / "a.npz"


def tensors(home: Path) -> Path:
    """A value of a tensor, whose bytes go into the record as they are."""
    np.save(home / "a.npy", np.array([[1.5, 2.5], [3.5, -TOO_LARGE]]))
    return home / "a.npy"


def complex_tensors(home: Path) -> Path:
    """An imaginary part."""
    np.save(home / "a.npy", np.array([[1.5, 2.5], [3.5, TOO_LARGE * 1j]]))
    return home / "a.npy"


def tfrecords(home: Path) -> Path:
    """Floats have 32 bits already: other programs write infinity."""
    with tf.io.TFRecordWriter(str(home / "a.tfrecord")) as writer:
        for value in (1.5, float("inf"), None):
            floats = {} if value is None else {"x": tf.train.Feature(float_list=tf.train.FloatList(value=[value]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=floats)).SerializeToString())
    return home / "a.tfrecord"


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (csv, ("line 3", "column x: '1e+300' is not a finite number (double, in the range of 32-bit floats)")),
        (jsonl, ("line 2", "key 'x': 1e+300 is not of type double in the range of 32-bit floats")),
        (parquet, ("row 2", "column 'x' holds 1e+300, beyond the range of float32")),
        (parquet_list, ("row 2", "column 'x' holds -1e+300, beyond the range of float32 at value 2 of its list")),
        (numbers, ("row 2", "array 'x' holds 1e+300, beyond the range of float32")),
        (tensors, ("row 2", "array 'a' holds -1e+300, beyond the range of float32 at (1)")),
        (complex_tensors, ("row 2", "array 'a' holds 0+1e+300j, beyond the range of float32 at (1)")),
        (tfrecords, ("byte offset 33", "feature 'x' holds inf")),
    ],
)
def test_a_number_beyond_float32_is_a_bad_row(
    write: Callable[[Path], Path], expected: tuple[str, str], tmp_path: Path
) -> None:
    """A9: with its position; the rows around it are read, and missing values stay missing."""
    path = write(tmp_path)
    source: Any = refs.load(detect.locate(str(path)).source)
    schema = source.schema(path)
    batches = [each for part in source.divide(path, path.name, 1 << 40) for each in source.read(path, part, schema)]
    encoded = b"".join(record for batch in batches for record in encode_columns(batch.columns).records().rows())
    whole = pa.Table.from_batches([batch.columns for batch in batches]).column(0)

    assert [(bad.position, bad.reason) for batch in batches for bad in batch.bad] == [expected]
    assert np.array(np.inf, "<f4").tobytes() not in encoded
    assert whole.null_count == (0 if path.suffix.startswith(".np") else 1)
