"""A type that the user has set is the type in the records, for every source."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components.ingest.sources.arrays.array_rows import SOURCE as ARRAYS
from components.ingest.sources.csv.csv_rows import SOURCE as CSV
from components.ingest.sources.jsonl.jsonl_rows import SOURCE as JSONL
from components.ingest.sources.parquet.parquet_rows import SOURCE as PARQUET
from components.ingest.sources.rows import BadRow, RowSource
from components.ingest.sources.tfrecord_rows import SOURCE as RECORDS
from components.ingest.survey.columns import with_types
from components.settings.ingest import ColumnType
from tests.ingest.sources import reading


def read(source: RowSource, path: Path, **types: ColumnType) -> tuple[list[dict[str, Any]], list[BadRow]]:
    """Returns all rows of a file and the bad ones, with column types of the user."""
    return reading.read(source, path, with_types(source.schema(path), types))


def write_csv(path: Path, column: str, cells: list[str]) -> Path:
    """Writes one column of cells as they are."""
    path.write_text("\n".join([column, *cells]) + "\n")
    return path


def write_jsonl(path: Path, values: list[Any]) -> Path:
    """Writes one column `v`."""
    path.write_bytes(b"".join(orjson.dumps({"v": value}) + b"\n" for value in values))
    return path


class TestCsv:
    """Cells are text and can be read as any type."""

    @pytest.mark.parametrize(
        ("cells", "kind", "values"),
        [
            (["7", "08", "1.50"], "text", ["7", "08", "1.50"]),
            (["1", "2"], "float", [1.0, 2.0]),
            (["1", "0"], "bool", [True, False]),
            (["007", "010"], "int", [7, 10]),
            (["7", "8"], "bytes", [b"7", b"8"]),
        ],
    )
    def test_a_type_is_read(self, tmp_path: Path, cells: list[str], kind: ColumnType, values: list[Any]) -> None:
        """Text is read as in the file: no digit of a code is lost."""
        path = write_csv(tmp_path / "a.csv", "v", cells)

        assert read(CSV, path, v=kind) == ([{"v": value} for value in values], [])

    def test_a_cell_of_another_type_is_a_bad_row(self, tmp_path: Path) -> None:
        """The other cells have the type of the user."""
        path = write_csv(tmp_path / "a.csv", "v", ["1", "1.5", "2"])

        assert read(CSV, path, v="int") == (
            [{"v": 1}, {"v": 2}],
            [BadRow("line 3", "column v: '1.5' is not of type int64", b"1.5")],
        )


class TestJsonl:
    """Values have types of their own, and are converted."""

    @pytest.mark.parametrize(
        ("values", "kind", "expected"),
        [
            ([7, 1.5, True, "x", None], "text", ["7", "1.5", "true", "x", None]),
            (["7", " -8 ", 9, 9.0, "9.0"], "int", [7, -8, 9, 9, 9]),
            (["1.5", "1e3", 2, None], "float", [1.5, 1000.0, 2.0, None]),
            (["true", 0, "1", False], "bool", [True, False, True, False]),
            (["é", 1], "bytes", ["é".encode(), b"1"]),
            ([["1", 2], []], "int", [[1, 2], []]),
        ],
    )
    def test_values_are_converted(
        self, tmp_path: Path, values: list[Any], kind: ColumnType, expected: list[Any]
    ) -> None:
        """Numbers become text and text numbers, also inside lists; missing values stay missing."""
        path = write_jsonl(tmp_path / "a.jsonl", values)

        assert read(JSONL, path, v=kind) == ([{"v": value} for value in expected], [])

    def test_a_value_that_cannot_be_converted_is_a_bad_row(self, tmp_path: Path) -> None:
        """The reason has the original value."""
        path = write_jsonl(tmp_path / "a.jsonl", [1, "x", 1.5, True])

        assert read(JSONL, path, v="int") == (
            [{"v": 1}],
            [
                BadRow("line 2", "key 'v': \"x\" is not of type int64", b'{"v":"x"}'),
                BadRow("line 3", "key 'v': 1.5 is not of type int64", b'{"v":1.5}'),
                BadRow("line 4", "key 'v': true is not of type int64", b'{"v":true}'),
            ],
        )

    def test_other_columns_are_not_converted(self, tmp_path: Path) -> None:
        """A number in a text column is a bad row, unless the user has set the type to text."""
        (tmp_path / "a.jsonl").write_bytes(b'{"v": "a", "w": 1}\n{"v": 2, "w": 2}\n{"v": "c", "w": 3}\n')
        rows, bad = read(JSONL, tmp_path / "a.jsonl", w="text")

        assert (rows, [each.position for each in bad]) == ([{"v": "a", "w": "1"}, {"v": "c", "w": "3"}], ["line 2"])


class TestParquet:
    """Columns are cast."""

    @pytest.mark.parametrize(
        ("column", "kind", "values"),
        [
            (pa.array([7, None]), "text", ["7", None]),
            (pa.array(["7", "8"]), "int", [7, 8]),
            (pa.array(["1.5", "2"]), "float", [1.5, 2.0]),
            (pa.array([1, 0]), "bool", [True, False]),
            (pa.array(["é"]), "bytes", ["é".encode()]),
            (pa.array([[1, 2], []]), "float", [[1.0, 2.0], []]),
        ],
    )
    def test_a_column_is_cast(self, tmp_path: Path, column: pa.Array, kind: ColumnType, values: list[Any]) -> None:
        """The values of lists are cast, too."""
        pq.write_table(pa.table({"v": column}), tmp_path / "a.parquet")

        assert read(PARQUET, tmp_path / "a.parquet", v=kind) == ([{"v": value} for value in values], [])

    def test_a_value_that_cannot_be_cast_is_a_bad_row(self, tmp_path: Path) -> None:
        """The other rows are kept."""
        pq.write_table(pa.table({"v": ["7", "x"]}), tmp_path / "a.parquet")
        rows, bad = read(PARQUET, tmp_path / "a.parquet", v="int")

        assert (rows, [each.position for each in bad]) == ([{"v": 7}], ["row 2"])


def test_arrays_of_single_values_are_cast(tmp_path: Path) -> None:
    """Numeric classes can be read as text."""
    np.savez(tmp_path / "a.npz", y=np.array([1, 2]), x=np.zeros((2, 3), np.float32))
    rows, bad = read(ARRAYS, tmp_path / "a.npz", y="text")

    assert ([row["y"] for row in rows], bad) == (["1", "2"], [])


@pytest.mark.parametrize(
    ("feature", "kind", "value"),
    [
        (tf.train.Feature(int64_list=tf.train.Int64List(value=[7])), "text", "7"),
        (tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"7"])), "int", 7),
        (tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"1.5"])), "float", 1.5),
        (tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"seven"])), "text", "seven"),
        (tf.train.Feature(int64_list=tf.train.Int64List(value=[1])), "bool", True),
    ],
)
def test_features_of_other_programs_are_cast(tmp_path: Path, feature: Any, kind: ColumnType, value: Any) -> None:
    """A numeric class in a TFRecord can be read as text."""
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(tf.train.Example(features=tf.train.Features(feature={"v": feature})).SerializeToString())

    assert read(RECORDS, tmp_path / "a.tfrecord", v=kind) == ([{"v": value}], [])
