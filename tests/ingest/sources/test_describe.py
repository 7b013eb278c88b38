"""`RowBatch.describe` returns position and raw bytes of a good row, whose image may turn out to be bad later."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.ingest.sources.csv.csv_rows import SOURCE as CSV
from components.ingest.sources.jsonl.jsonl_rows import SOURCE as JSONL
from components.ingest.sources.parquet.parquet_rows import SOURCE as PARQUET
from components.ingest.sources.rows import RowSource

CLEAN_CSV = b'n,text\n1,a\n\n2,"b\nb"\n3,c\r\n'
CLEAN_JSONL = b'{"n": 1, "text": "a"}\n\n{"n": 2, "text": "b"}\n'


def described(source: RowSource, path: Path) -> list[tuple[Any, str, bytes]]:
    """Returns the number in each good row, with its position and raw bytes."""
    [part] = source.divide(path, path.name, 1 << 30)
    found = []
    for batch in source.read(path, part, source.schema(path)):
        assert batch.describe is not None
        numbers = batch.columns.column(0).to_pylist()
        found += [(number, *batch.describe(row)) for row, number in enumerate(numbers)]
    return found


@pytest.mark.parametrize("bad", [b"", b"x,y,z\n", b"4,d,d\n\n"])
def test_csv(tmp_path: Path, bad: bytes) -> None:
    """Lines are counted through blank ones, quoted line ends and bad rows."""
    (tmp_path / "a.csv").write_bytes(CLEAN_CSV + bad + b"5,e\n")
    more = bad.count(b"\n")

    assert described(CSV, tmp_path / "a.csv") == [
        (1, "line 2", b"1,a"),
        (2, "line 4", b'2,"b\nb"'),
        (3, "line 6", b"3,c"),
        (5, f"line {7 + more}", b"5,e"),
    ]


@pytest.mark.parametrize("bad", [b"", b"{\n", b'{"n": "x"}\n\n'])
def test_jsonl(tmp_path: Path, bad: bytes) -> None:
    """Lines are counted through blank and bad ones."""
    (tmp_path / "a.jsonl").write_bytes(CLEAN_JSONL + bad + b'{"n": 5}\n')
    more = bad.count(b"\n")

    assert described(JSONL, tmp_path / "a.jsonl") == [
        (1, "line 1", b'{"n": 1, "text": "a"}'),
        (2, "line 3", b'{"n": 2, "text": "b"}'),
        (5, f"line {4 + more}", b'{"n": 5}'),
    ]


@pytest.mark.parametrize("share", [0.5, float("nan")])
def test_parquet(tmp_path: Path, share: float) -> None:
    """Rows are counted through bad ones."""
    pq.write_table(pa.table({"n": [1, 2, 3], "share": [0.5, share, 0.5]}), tmp_path / "a.parquet")

    assert described(PARQUET, tmp_path / "a.parquet") == [
        (number, f"row {number}", f"{{'n': {number}, 'share': 0.5}}".encode())
        for number in (1, 2, 3)
        if number != 2 or share == 0.5
    ]
