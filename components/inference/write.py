"""Writes the predictions of one work unit: Parquet, JSON Lines or TFRecord.

| column        | content                                                                                  |
|---------------|------------------------------------------------------------------------------------------|
| file          | path of the input file, relative to the data                                             |
| row           | its row, from 1 (CSV, JSON Lines: its first line); null if the file is one record         |
| label         | the label in the data; null if it has none                                               |
| prediction    | predicted class, or predicted quantity                                                   |
| probability   | of the predicted class                                                                   |
| probabilities | of all classes; their names are in the manifest and in the metadata of a Parquet file     |
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from components.ingest.write.encode_columns import encode_columns
from components.records import checksum
from components.records.tfrecord import TFRecordWriter, frame_batch
from components.serving.reading import Reading

Format = Literal["parquet", "jsonl", "tfrecord"]
FORMATS: tuple[Format, ...] = ("parquet", "jsonl", "tfrecord")
CLASSES = b"penstock.classes"  # in the metadata of a Parquet file: JSON


def schema(reading: Reading) -> pa.Schema:
    """Returns the columns of predictions."""
    common = [("file", pa.string()), ("row", pa.int64())]
    if reading.kind == "quantity":
        return pa.schema([*common, ("label", pa.float64()), ("prediction", pa.float32())])
    fields = [
        *common,
        ("label", pa.string()),
        ("prediction", pa.string()),
        ("probability", pa.float32()),
        ("probabilities", pa.list_(pa.float32(), len(reading.classes))),
    ]
    return pa.schema(fields, {CLASSES: orjson.dumps(reading.classes)})


def batch(
    files: pa.Array, rows: pa.Array, labels: pa.Array, outputs: npt.NDArray[np.float32], reading: Reading
) -> pa.RecordBatch:
    """Returns the predictions of one batch."""
    columns = [files, rows, labels.cast(pa.float64() if reading.kind == "quantity" else pa.string())]
    if reading.kind == "quantity":
        return pa.RecordBatch.from_arrays([*columns, pa.array(outputs)], schema=schema(reading))
    best = outputs.argmax(axis=1)
    columns += [
        pa.array(reading.classes, pa.string()).take(pa.array(best)),
        pa.array(outputs[np.arange(len(best)), best]),
        pa.FixedSizeListArray.from_arrays(pa.array(outputs.reshape(-1)), len(reading.classes)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema(reading))


def write(path: Path, batches: Sequence[pa.RecordBatch], reading: Reading, form: Format) -> str:
    """Writes a file, and returns its checksum."""
    if form == "tfrecord":
        with TFRecordWriter(path) as writer:
            for each in batches:
                writer.write_framed(frame_batch(encode_columns(_flat(each)).records().array))
        return writer.checksum
    table = pa.Table.from_batches(batches, schema(reading))
    if form == "jsonl":
        path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in table.to_pylist()))
    else:
        import pyarrow.parquet as pq

        pq.write_table(table, path, row_group_size=1 << 16)
    return checksum.of_file(path)


def _flat(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch without lists of fixed size, which tf.Examples do not have."""
    arrays: list[Any] = []
    for column in rows.columns:
        if pa.types.is_fixed_size_list(column.type):
            width = column.type.list_size
            offsets = np.arange(len(column) + 1, dtype=np.int32) * width
            arrays.append(pa.ListArray.from_arrays(pa.array(offsets), column.flatten()))
        else:
            arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, rows.schema.names)
