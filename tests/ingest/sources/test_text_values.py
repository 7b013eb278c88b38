"""A10 and A12: every kind of text is kept or reported, for every source and writer."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components import refs
from components.errors import BadInput
from components.ingest.sources.csv import csv_rows
from components.ingest.sources.csv.csv_records import NOT_CLOSED
from components.ingest.sources.rows import BadRow
from tests.ingest.sources import reading
from tests.ingest.sources.reading import WHOLE, Rows

KINDS = {
    "plain": "plain",
    "emoji": "👩‍👩‍👧 😀 🇩🇪",
    "combining marks": "e\u0301 is not \u00e9",
    "right to left": "\u202eabc שלום مرحبا\u200f",
    "NUL": "before\0after",
    "line ends": "a\r\nb\rc\n\n\u2028d\u0085e",
    "blank": " \t ",
    "empty": "",
    "quotes": '"a", ""b"" and \'c\'; \\ too',
    "mark": "\ufeffat the start, in\ufeffside",
    "formula": "=cmd|' /C calc'!A0",
    "spelling of missing": "NULL",
    "number": "007",
    "beyond the first plane": "𐍈\U0010ffff",
}
TEXTS = list(KINDS.values())
NOT_UTF8 = b"caf\xe9"
FOR_NUL = "\ue000"  # the csv module of Python 3.10 does not write NUL, other programs do


def by_csv(path: Path) -> None:
    """Writes with the csv module."""
    out = io.StringIO()
    texts = [text.replace("\0", FOR_NUL) for text in TEXTS]
    csv.writer(out, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([["n", "text"], *enumerate(texts)])
    path.write_bytes(out.getvalue().replace(FOR_NUL, "\0").encode())


def by_pandas(path: Path) -> None:
    """Writes with pandas, everything quoted: it leaves a carriage return bare otherwise."""
    texts = [text.replace("\0", FOR_NUL) for text in TEXTS]
    content = pd.DataFrame({"n": range(len(texts)), "text": texts}).to_csv(index=False, quoting=csv.QUOTE_ALL)
    path.write_bytes(content.replace(FOR_NUL, "\0").encode())


def by_json(path: Path) -> None:
    """Writes with the json module, half of the lines in ASCII."""
    lines = [json.dumps({"n": number, "text": text}, ensure_ascii=number % 2 == 0) for number, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines), encoding="utf-8", newline="")


def by_pyarrow(path: Path) -> None:
    """Writes with pyarrow."""
    pq.write_table(pa.table({"n": range(len(TEXTS)), "text": TEXTS}), path)


def by_numpy(path: Path) -> None:
    """Writes with NumPy."""
    np.savez(path, n=np.arange(len(TEXTS)), text=np.array(TEXTS))


def by_tensorflow(path: Path) -> None:
    """Writes with TensorFlow."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number, text in enumerate(TEXTS):
            made = tf.train.Example()
            made.features.feature["n"].int64_list.value.append(number)
            made.features.feature["text"].bytes_list.value.append(text.encode())
            writer.write(made.SerializeToString())


SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
WRITERS = [
    ("t.csv", "csv.csv_rows", by_csv),
    ("t.tsv", "csv.csv_rows", by_csv),
    ("p.csv", "csv.csv_rows", by_pandas),
    ("t.jsonl", "jsonl.jsonl_rows", by_json),
    ("t.parquet", "parquet.parquet_rows", by_pyarrow),
    ("t.npz", "arrays.array_rows", by_numpy),
    ("t.tfrecord", "tfrecord_rows", by_tensorflow),
]


def read(path: Path, module: str, target: int = WHOLE) -> tuple[Rows, list[BadRow]]:
    """Reads a file as text."""
    return reading.read(refs.load(f"components.ingest.sources.{module}:SOURCE"), path, SCHEMA, target)


@pytest.mark.parametrize(("name", "module", "write"), WRITERS, ids=[f"{name}-{w.__name__}" for name, _, w in WRITERS])
def test_every_kind_of_text_is_kept(name: str, module: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    """A10: nothing is cut at NUL or taken as missing, wherever the file is divided."""
    write(tmp_path / name)

    for target in (1, 60, WHOLE):
        assert read(tmp_path / name, module, target) == ([{"n": n, "text": text} for n, text in enumerate(TEXTS)], [])


def not_utf8_array() -> pa.Array:
    """Returns strings of which one is not UTF-8."""
    plain = pa.array([b"a", NOT_UTF8, b"b"], pa.binary())
    return pa.Array.from_buffers(pa.string(), 3, plain.buffers())


def write_not_utf8(path: Path) -> None:
    """Writes three rows, the second of which is not UTF-8."""
    if path.suffix == ".csv":
        path.write_bytes(b"n,text\n0,a\n1," + NOT_UTF8 + b"\n2,b\n")
    elif path.suffix == ".jsonl":
        path.write_bytes(b'{"n": 0, "text": "a"}\n{"n": 1, "text": "' + NOT_UTF8 + b'"}\n{"n": 2, "text": "b"}\n')
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"n": [0, 1, 2], "text": not_utf8_array()}), path)
    else:
        np.savez(path, n=np.arange(3), text=np.array([b"a", NOT_UTF8, b"b"]))


@pytest.mark.parametrize(
    ("name", "module", "position", "reason"),
    [
        ("t.csv", "csv.csv_rows", "line 3", "column text: 'caf\\\\xe9' is not UTF-8 text"),
        (
            "t.jsonl",
            "jsonl.jsonl_rows",
            "line 2",
            "not JSON: str is not valid UTF-8: surrogates not allowed (character 1)",
        ),
        ("t.parquet", "parquet.parquet_rows", "row 2", "column 'text' cannot be string: Invalid UTF8 payload"),
        ("t.npz", "arrays.array_rows", "row 2", "array 'text' cannot be string: Invalid UTF8 payload"),
    ],
)
def test_text_that_is_not_utf8_is_a_bad_row(name: str, module: str, position: str, reason: str, tmp_path: Path) -> None:
    """A10: the bad row has its position, and its neighbours are kept."""
    write_not_utf8(tmp_path / name)
    rows, bad = read(tmp_path / name, module)

    assert rows == [{"n": 0, "text": "a"}, {"n": 2, "text": "b"}]
    assert [(row.position, row.reason) for row in bad] == [(position, reason)]


DIRTY = (
    b"\xef\xbb\xbfid,share,note\r\n"  # a mark before the header, as Excel writes it
    b"1,0.5,plain\r\n"
    b'2,1.5,"two\r\nlines, ""quoted"""\r\n'
    b"3,2.5\r\n"
    b"4,3.5,x,y\r\n"
    b"five,4.5,words for a number\r\n"
    b"6,n/a,a missing number\r\n"
    b"7,many,no number\r\n"
    b"8,5.5,=cmd|' /C calc'!A0\r\n"
    b'9,6.5,"never closed\r\n'
    b"\r\n"
    b'10,7.5,"closed" and more\r\n'
    b"11,8.5,caf\xe9\r\n"
    b"12,9.5,last"
)
SHARE = "is not a finite number (double, in the range of 32-bit floats)"


@pytest.mark.parametrize("target", [1, 40, WHOLE])
def test_a_dirty_table(target: int, tmp_path: Path) -> None:
    """A12: every row becomes a record, or a bad row with line, reason and text."""
    (tmp_path / "dirty.csv").write_bytes(DIRTY)
    schema = pa.schema([("id", pa.int64()), ("share", pa.float64()), ("note", pa.string())])
    rows, bad = reading.read(csv_rows.SOURCE, tmp_path / "dirty.csv", schema, target)

    assert [tuple(row.values()) for row in rows] == [
        (1, 0.5, "plain"),
        (2, 1.5, 'two\r\nlines, "quoted"'),
        (6, None, "a missing number"),
        (8, 5.5, "=cmd|' /C calc'!A0"),
        (12, 9.5, "last"),
    ]
    assert bad == [
        BadRow("line 5", "2 cells, expected 3 as in the header", b"3,2.5"),
        BadRow("line 6", "4 cells, expected 3 as in the header", b"4,3.5,x,y"),
        BadRow("line 7", "column id: 'five' is not of type int64", b"five,4.5,words for a number"),
        BadRow("line 9", f"column share: 'many' {SHARE}", b"7,many,no number"),
        BadRow("line 11", NOT_CLOSED, b'9,6.5,"never closed'),
        BadRow("line 13", NOT_CLOSED, b'10,7.5,"closed" and more'),
        BadRow("line 14", "column note: 'caf\\\\xe9' is not UTF-8 text", b"11,8.5,caf\xe9"),
    ]


def test_a_header_with_a_repeated_name_is_rejected(tmp_path: Path) -> None:
    """A12: the name would be ambiguous."""
    (tmp_path / "twice.csv").write_bytes(b"\xef\xbb\xbfid,note,id\n1,x,2\n")

    with pytest.raises(BadInput, match=r"twice\.csv: two columns of the header are called 'id'; rename one of them"):
        csv_rows.SOURCE.schema(tmp_path / "twice.csv")
