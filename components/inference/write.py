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

import contextlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from components.ingest.write.encode_columns import encode_columns
from components.records import checksum
from components.records.tfrecord.framing import TFRecordWriter, frame_batch
from components.serving.reading import Reading

Format = Literal["parquet", "jsonl", "tfrecord"]
_GROUP_VALUES = 1 << 20  # probabilities per row group: bounds the memory of a file with many classes
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


class PredictionWriter:
    """Writes one file of predictions; `records` and `checksum` are those of the file once it is closed."""

    def __init__(self, path: Path, reading: Reading, form: Format) -> None:
        self._path, self._reading, self._form = path, reading, form
        self._waiting: list[pa.RecordBatch] = []
        self._stack = contextlib.ExitStack()
        self.records = 0
        self.checksum = ""

    def __enter__(self) -> "PredictionWriter":
        if self._form == "tfrecord":
            self._records = self._stack.enter_context(TFRecordWriter(self._path))
        elif self._form == "jsonl":
            self._stream = self._stack.enter_context(self._path.open("wb"))
        else:
            import pyarrow.parquet as pq

            self._parquet = self._stack.enter_context(pq.ParquetWriter(self._path, schema(self._reading)))
        return self

    def __exit__(self, *failed: object) -> None:
        with self._stack:
            if not any(failed):
                self._flush()
        if not any(failed):
            self.checksum = checksum.of_file(self._path)

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends a batch."""
        self._waiting.append(rows)
        self.records += rows.num_rows
        values = sum(each.num_rows for each in self._waiting) * max(1, len(self._reading.classes))
        if values >= _GROUP_VALUES:
            self._flush()

    def _flush(self) -> None:
        """Writes what waits: the rows of one row group, as large as the data alone decides."""
        waiting, self._waiting = self._waiting, []
        if self._form == "tfrecord":
            for each in waiting:
                self._records.write_framed(frame_batch(encode_columns(_flat(each)).records().array))
            return
        table = pa.Table.from_batches(waiting, schema(self._reading))
        if self._form == "jsonl":
            self._stream.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in table.to_pylist())
        elif table.num_rows:
            self._parquet.write_table(table)


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
