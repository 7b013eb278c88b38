"""Parquet files of pandas and pyarrow: every value is read, or its row is reported as bad."""

import datetime as dt
import os
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import BadInput
from components.ingest.sources import conversion
from components.ingest.sources.parquet import parquet_decoder
from components.ingest.sources.parquet.parquet_rows import SOURCE
from components.ingest.sources.rows import BadRow, Range
from components.ingest.write import encode_columns

MB = 1 << 20


def read(path: Path, target: int = MB, schema: pa.Schema | None = None) -> tuple[list[dict[str, Any]], list[BadRow]]:
    """Reads a whole file, range by range."""
    schema = schema or SOURCE.schema(path)
    rows: list[dict[str, Any]] = []
    bad: list[BadRow] = []
    for part in SOURCE.divide(path, path.name, target):
        for batch in SOURCE.read(path, part, schema):
            assert batch.columns.schema == schema
            rows += batch.columns.to_pylist()
            bad += batch.bad
    return rows, bad


def write(path: Path, table: Any, **options: Any) -> Path:
    """Writes columns with pyarrow."""
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **options)
    return path


def reasons(bad: list[BadRow]) -> list[tuple[str, str]]:
    """Returns positions and reasons."""
    return [(row.position, row.reason) for row in bad]


def test_a_table_of_pandas_is_read_completely(tmp_path: Path) -> None:
    """Integers of any width, floats, booleans, texts, bytes, categories, times, and missing values."""
    path = tmp_path / "t.parquet"
    pd.DataFrame(
        {
            "small": np.array([1, -2, 3], np.int8),
            "big": [2**62, -(2**63), 0],
            "float": [0.5, None, -1e30],
            "single": np.array([0.1, 0.2, 0.3], np.float32),
            "true": [True, False, True],
            "text": ["naïve 😀", "", None],
            "bytes": [b"\xff\x00", b"", None],
            "kind": pd.Categorical(["a", "b", "a"]),
            "when": pd.to_datetime(["2024-02-29 12:00:00.5", None, "1969-12-31"]),
            "zoned": pd.to_datetime(["2024-06-01 12:00", "2024-01-01 12:00", None]).tz_localize("Europe/Berlin"),
            "tags": [["x", "y"], [], None],
        }
    ).to_parquet(path)

    assert SOURCE.schema(path) == pa.schema(
        {
            "small": pa.int64(), "big": pa.int64(), "float": pa.float64(), "single": pa.float32(), "true": pa.bool_(),
            "text": pa.string(), "bytes": pa.binary(), "kind": pa.string(), "when": pa.string(), "zoned": pa.string(),
            "tags": pa.list_(pa.string()),
        }
    )  # fmt: skip
    f = [float(np.float32(number)) for number in (0.1, 0.2, 0.3)]
    assert read(path) == (
        [
            {
                "small": 1, "big": 2**62, "float": 0.5, "single": f[0], "true": True, "text": "naïve 😀",
                "bytes": b"\xff\x00", "kind": "a", "when": "2024-02-29T12:00:00.5", "zoned": "2024-06-01T10:00:00Z",
                "tags": ["x", "y"],
            },
            {
                "small": -2, "big": -(2**63), "float": None, "single": f[1], "true": False, "text": "", "bytes": b"",
                "kind": "b", "when": None, "zoned": "2024-01-01T11:00:00Z", "tags": [],
            },
            {
                "small": 3, "big": 0, "float": -1e30, "single": f[2], "true": True, "text": None, "bytes": None,
                "kind": "a", "when": "1969-12-31T00:00:00", "zoned": None, "tags": None,
            },
        ],
        [],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (pa.array([1, None], pa.uint64()), pa.int64(), [1, None]),
        (pa.array([1, None], pa.duration("ms")), pa.int64(), [1, None]),
        (pa.array([Decimal("1.25"), None]), pa.float64(), [1.25, None]),
        (pa.array([Decimal("-0.5")], pa.decimal256(60, 3)), pa.float64(), [-0.5]),
        (pa.array([b"ab", None], pa.binary(2)), pa.binary(), [b"ab", None]),
        (pa.array(["é"], pa.large_string()), pa.string(), ["é"]),
        (pa.array([b"\xff"], pa.large_binary()), pa.binary(), [b"\xff"]),
        (pa.array([dt.date(2020, 1, 31), None]), pa.string(), ["2020-01-31", None]),
        (pa.array([dt.date(2020, 1, 31)], pa.date64()), pa.string(), ["2020-01-31"]),
        (pa.array([dt.time(1, 2, 3, 500), dt.time(0)], pa.time64("us")), pa.string(), ["01:02:03.0005", "00:00:00"]),
        (pa.array([dt.datetime(2020, 1, 1, 0, 0, 10)], pa.timestamp("s")), pa.string(), ["2020-01-01T00:00:10"]),  # noqa: DTZ001
        (pa.nulls(2), pa.string(), [None, None]),
        (pa.array([[1], None, []], pa.list_(pa.uint8())), pa.list_(pa.int64()), [[1], None, []]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)), pa.list_(pa.float32()), [[1.0, 2.0], [3.0, 4.0]]),
        (pa.array([["a"]], pa.large_list(pa.string())), pa.list_(pa.string()), [["a"]]),
        (pa.array([[dt.date(2020, 1, 1)]]), pa.list_(pa.string()), [["2020-01-01"]]),
        (pa.array([[Decimal("0.5")]]), pa.list_(pa.float64()), [[0.5]]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_each_type_is_converted(tmp_path: Path, array: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    """And the encoder accepts it."""
    path = write(tmp_path / "t.parquet", {"x": array}, version="2.6")

    assert SOURCE.schema(path) == pa.schema({"x": kind})
    assert read(path) == ([{"x": value} for value in expected], [])
    [batch] = SOURCE.read(path, SOURCE.divide(path, "t", MB)[0], SOURCE.schema(path))
    assert len(encode_columns.encode_columns(batch.columns).records()) == len(expected)


def test_float16_becomes_float32() -> None:
    """Arrow 10 cannot write it to Parquet, but has the type."""
    array, bad = conversion.fit(pa.array(np.array([0.5, np.inf], np.float16)), pa.float32())

    assert (array.to_pylist(), bad) == ([0.5, float("inf")], {})


@pytest.mark.parametrize("kind", [pa.list_(pa.int32(), 2), pa.list_(pa.int32()), pa.large_list(pa.int32())], ids=str)
def test_lists_may_be_a_slice_with_missing_ones(kind: pa.DataType) -> None:
    """Of fixed length too, which Arrow 10 cannot read from a file if values are missing."""
    array, bad = conversion.fit(pa.array([[1, 2], None, [3, 4]], kind).slice(1), pa.list_(pa.int64()))

    assert (array.to_pylist(), bad) == ([None, [3, 4]], {})


def test_structs_are_flattened_with_dots(tmp_path: Path) -> None:
    """A missing struct has missing children."""
    path = write(tmp_path / "t.parquet", {"a": [{"x": 1, "y": "q"}, None], "b": [1, 2]})

    assert read(path) == ([{"a.x": 1, "a.y": "q", "b": 1}, {"a.x": None, "a.y": None, "b": 2}], [])


@pytest.mark.parametrize(
    "column",
    [[{"x": {"y": 1}}], [[[1]]], [[{"x": 1}]], pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))],
    ids=["struct in struct", "list in list", "struct in list", "map"],
)
def test_nested_columns_are_rejected_with_advice(tmp_path: Path, column: Any) -> None:
    """A record is flat."""
    path = write(tmp_path / "deep.parquet", {"a": column})

    with pytest.raises(BadInput, match=r"deep\.parquet: column 'a.*too deeply nested.*json_normalize"):
        SOURCE.schema(path)


def test_two_columns_of_one_name_are_rejected(tmp_path: Path) -> None:
    """One of them would be lost."""
    path = write(tmp_path / "twice.parquet", {"a": [{"x": 1}], "a.x": [2]})

    with pytest.raises(BadInput, match=r"twice\.parquet: several columns have the name 'a\.x'"):
        SOURCE.schema(path)


def test_the_unnamed_index_of_pandas_is_left_out(tmp_path: Path) -> None:
    """It is the row number in a former table; an index with a name is kept."""
    frame = pd.DataFrame({"x": [1, 2, 3]})
    frame[frame.x > 1].to_parquet(tmp_path / "i.parquet")
    frame.set_index(pd.Index(["a", "b", "c"], name="key")).to_parquet(tmp_path / "k.parquet")

    assert read(tmp_path / "i.parquet") == ([{"x": 2}, {"x": 3}], [])
    assert SOURCE.schema(tmp_path / "k.parquet").names == ["x", "key"]


def test_numbers_that_are_not_finite_are_bad_rows(tmp_path: Path) -> None:
    """A9: with row and column; a number too large for float32 would be infinite in a record."""
    table = {
        "n": list(range(7)),
        "f": [1.0, float("nan"), float("inf"), 1e300, None, 1e38, 2.0],
        "l": [[1.0], [], None, [0.0], [0.5, float("-inf"), float("nan")], [], []],
    }
    rows, bad = read(write(tmp_path / "t.parquet", table))

    assert [row["n"] for row in rows] == [0, 5, 6]
    assert reasons(bad) == [
        ("row 2", "column 'f' holds nan"),
        ("row 3", "column 'f' holds inf"),
        ("row 4", "column 'f' holds 1e+300, beyond the range of float32"),
        ("row 5", "column 'l' holds -inf at value 2 of its list"),
    ]
    assert bad[0].raw == b"{'n': 1, 'f': nan, 'l': []}"


def not_utf8(*values: bytes) -> pa.Array:
    """Returns strings that are not valid UTF-8."""
    plain = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(plain), plain.buffers())


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (pa.array([1, 2**63, 2], pa.uint64()), "cannot be int64: Integer value 9223372036854775808 not in range"),
        (pa.array([[1], [2, None], [3]]), "cannot be list<item: int64>: a value inside the list is missing"),
        (not_utf8(b"a", b"\xff", b"b"), "cannot be string: Invalid UTF8 payload"),
        (pa.array([0, 2**31 - 1, 0], pa.int32()).view(pa.date32()), "cannot be string: date outside the years"),
    ],
    ids=["uint64", "list", "utf-8", "date"],
)
def test_a_value_that_cannot_be_converted_is_a_bad_row(tmp_path: Path, array: pa.Array, reason: str) -> None:
    """The rows around it are good."""
    rows, bad = read(write(tmp_path / "t.parquet", {"n": [1, 2, 3], "x": array}, version="2.6"))

    assert [row["n"] for row in rows] == [1, 3]
    assert [row.position for row in bad] == ["row 2"]
    assert bad[0].reason.startswith(f"column 'x' {reason}")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns 5,000 rows in row groups of 700, some of them bad."""
    number = np.arange(5_000)
    floats = np.where(number % 1_000 == 999, np.nan, number / 7)
    table = pa.table({"n": number, "f": floats, "s": [f"text {each % 50}" for each in number]})
    return write(tmp_path_factory.mktemp("plain") / "t.parquet", table, row_group_size=700)


@pytest.mark.parametrize("target", [1, 10_000, 1 << 40])
def test_any_target_gives_the_same_rows(plain: Path, target: int) -> None:
    """In order, none lost, none twice: rows in = rows out + bad rows."""
    rows, bad = read(plain, target)

    assert [row["n"] for row in rows] == [n for n in range(5_000) if n % 1_000 != 999]
    assert [row.position for row in bad] == [f"row {n}" for n in (1_000, 2_000, 3_000, 4_000, 5_000)]
    assert rows == read(plain, 1 << 40)[0]


@settings(deadline=None, max_examples=30)
@given(groups=st.integers(1, 60), target=st.integers(1, 3_000), start=st.integers(0, 99), count=st.integers(1, 100))
def test_any_range_is_its_own_rows(
    tmp_path_factory: pytest.TempPathFactory, groups: int, target: int, start: int, count: int
) -> None:
    """Whichever row groups it begins and ends in."""
    path = write(tmp_path_factory.mktemp("any") / "t.parquet", {"n": list(range(100))}, row_group_size=groups)
    part = Range("t", start, min(100, start + count), start + 1, 0)
    batches = list(SOURCE.read(path, part, SOURCE.schema(path)))
    ranges = SOURCE.divide(path, "t", target)

    assert [n for batch in batches for n in batch.columns["n"].to_pylist()] == list(range(part.start, part.stop))
    assert [0, *(each.stop for each in ranges)] == [*(each.start for each in ranges), 100]
    assert all(each.first == each.start + 1 for each in ranges)


@pytest.mark.parametrize("step", [slice(None), slice(None, None, 2), slice(None, None, -1), slice(2, 3)])
def test_ranges_may_be_read_in_any_order(plain: Path, step: slice) -> None:
    """The decoder continues where it is if it can: all ranges, every other one, backwards, one twice."""
    schema = SOURCE.schema(plain)
    parts = SOURCE.divide(plain, "t", 1_000)[step]

    def numbers(part: Range) -> list[int]:
        return [n for batch in SOURCE.read(plain, part, schema) for n in batch.columns["n"].to_pylist()]

    expected = [[n for n in range(part.start, part.stop) if n % 1_000 != 999] for part in parts]
    assert [numbers(part) for part in parts] == expected
    assert [numbers(part) for part in parts] == expected


def test_a_file_that_was_rewritten_is_opened_again(tmp_path: Path) -> None:
    """Even if the next range is the one that the decoder would continue with."""
    path = write(tmp_path / "t.parquet", {"n": list(range(100))})
    schema, halves = SOURCE.schema(path), [Range("t", 0, 50, 1, 0), Range("t", 50, 100, 51, 0)]
    list(SOURCE.read(path, halves[0], schema))
    write(tmp_path / "t.parquet", {"n": list(range(1000, 1100))})
    [batch] = SOURCE.read(path, halves[1], schema)

    assert batch.columns["n"].to_pylist() == list(range(1050, 1100))


def test_small_row_groups_are_packed_and_large_ones_divided(tmp_path: Path) -> None:
    """To about the target; at most eight pieces, as each decodes all rows before it."""
    numbers = {"n": np.random.default_rng(0).permutation(20_000)}
    small = write(tmp_path / "small.parquet", numbers, row_group_size=100)
    large = write(tmp_path / "large.parquet", numbers)

    assert 5 <= len(SOURCE.divide(small, "s", 40_000)) <= 12
    assert all(20_000 < part.size <= 40_000 for part in SOURCE.divide(small, "s", 40_000)[:-1])
    assert len(SOURCE.divide(large, "l", 70_000)) == 3
    assert len(SOURCE.divide(large, "l", 1)) == 8


def test_batches_are_bounded_in_rows_and_bytes(tmp_path: Path) -> None:
    """Batches of rows with images have fewer rows."""
    long = [os.urandom(MB) for _ in range(20)]
    images = write(tmp_path / "i.parquet", {"image": long}, use_dictionary=False)
    numbers = write(tmp_path / "n.parquet", {"n": list(range(20_000))})

    def sizes(path: Path) -> list[int]:
        [part] = SOURCE.divide(path, "p", 1 << 40)
        return [batch.columns.num_rows for batch in SOURCE.read(path, part, SOURCE.schema(path))]

    assert sizes(images) == [7, 7, 6]
    assert sizes(numbers) == [8192, 8192, 3616]


def test_the_schema_decides_what_is_read(tmp_path: Path) -> None:
    """Values are converted to its types; columns that the file lacks are missing, other columns are not read."""
    path = write(tmp_path / "t.parquet", {"n": ["1", "x", "3"], "i": [1, 2, 3], "left": [0, 0, 0]})
    schema = pa.schema({"i": pa.float64(), "n": pa.int64(), "absent": pa.string()})
    rows, bad = read(path, schema=schema)

    assert rows == [{"i": 1.0, "n": 1, "absent": None}, {"i": 3.0, "n": 3, "absent": None}]
    assert reasons(bad) == [
        ("row 2", "column 'n' cannot be int64: Failed to parse string: 'x' as a scalar of type int64")
    ]
    assert len(read(path, schema=pa.schema({"absent": pa.int64()}))[0]) == 3


def test_a_type_that_cannot_be_converted_is_rejected(tmp_path: Path) -> None:
    """As a whole, because every row would be bad."""
    path = write(tmp_path / "t.parquet", {"x": [1]})

    with pytest.raises(BadInput, match=r"t\.parquet: column 'x' is int64, which cannot become binary"):
        read(path, schema=pa.schema({"x": pa.binary()}))


def test_a_file_name_need_not_be_utf8(tmp_path: Path) -> None:
    """Names on disk are bytes."""
    path = tmp_path / os.fsdecode(b"we\xffird.parquet")
    path.write_bytes(write(tmp_path / "t.parquet", {"x": [1]}).read_bytes())

    assert read(path) == ([{"x": 1}], [])


def test_a_file_without_rows_is_rejected(tmp_path: Path) -> None:
    """A3: with its name and the count."""
    path = write(tmp_path / "none.parquet", {"x": pa.array([], pa.int64())})

    with pytest.raises(BadInput, match=r"none\.parquet: 0 examples"):
        SOURCE.schema(path)
    with pytest.raises(BadInput, match=r"none\.parquet: 0 examples"):
        SOURCE.divide(path, "none.parquet", MB)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"<html>not found</html>", b"PAR1" + bytes(100) + b"PAR1"])
def test_other_content_is_rejected(tmp_path: Path, content: bytes) -> None:
    """With the name of the file."""
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)

    with pytest.raises(BadInput, match=r"bad\.parquet: cannot be read as Parquet"):
        SOURCE.schema(path)


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    """B9: without a traceback."""
    with pytest.raises(BadInput, match=r"gone\.parquet: cannot be read as Parquet.*No such file"):
        SOURCE.schema(tmp_path / "gone.parquet")


def outcome(path: Path) -> list[dict[str, Any]] | BadInput:
    """Returns the rows, or the reason why there are none; any other error fails the test."""
    try:
        rows, bad = read(path, 1_000)
    except BadInput as error:
        return error
    assert len(rows) + len(bad) == 60
    return rows


def test_a_truncated_or_extended_file_is_rejected(tmp_path: Path) -> None:
    """A2: wherever it is truncated."""
    path = write(tmp_path / "cut.parquet", {"n": list(range(60)), "s": ["x"] * 60})
    whole = path.read_bytes()

    for content in [*(whole[:length] for length in range(0, len(whole), 13)), whole + b"garbage"]:
        path.write_bytes(content)
        assert "cut.parquet" in str(outcome(path))


@pytest.mark.slow
def test_a_flipped_bit_in_the_footer_is_reported_or_harmless(tmp_path: Path) -> None:
    """A1: no row is lost silently, and no error of Arrow is raised."""
    path = write(tmp_path / "flip.parquet", {"n": list(range(60)), "l": [[1, 2]] * 60}, row_group_size=25)
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    rejected = 0
    for bit in range(footer * 8, len(whole) * 8, 23):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        found = outcome(path)
        rejected += isinstance(found, BadInput) and "flip.parquet" in str(found)

    assert rejected > 100


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (signal.SIGSEGV, r"the decoder process crashed \(exit code -11\); the file may be damaged"),
        (signal.SIGKILL, r"the decoder process was killed \(SIGKILL\), possibly out of memory"),
    ],
)
def test_a_decoder_that_crashes_names_the_file(tmp_path: Path, cause: signal.Signals, message: str) -> None:
    """A1: a few flipped bits in a thousand crash the process that decodes them, which is not this one."""
    path = write(tmp_path / "large.parquet", {"x": [os.urandom(MB) for _ in range(20)]}, use_dictionary=False)
    [part] = SOURCE.divide(path, "l", 1 << 40)
    reading = SOURCE.read(path, part, SOURCE.schema(path))
    next(reading)
    [worker] = parquet_decoder._decoders._leased
    os.kill(worker._process.pid, cause)

    with pytest.raises(BadInput, match=rf"large\.parquet: cannot be decoded: {message}"):
        list(reading)


def test_a_decoder_that_dies_while_idle_is_replaced(plain: Path) -> None:
    """The next file is read by a new one."""
    assert len(read(plain)[0]) == 4_995
    for worker in parquet_decoder._decoders._idle:
        psutil.Process(worker._process.pid).kill()
        worker._process.wait()

    assert len(read(plain)[0]) == 4_995


def test_a_reader_may_stop_half_way(plain: Path) -> None:
    """The rest of its rows is not read as the reply to the next request."""
    schema, [part] = SOURCE.schema(plain), SOURCE.divide(plain, "t", 1 << 40)
    stopped = SOURCE.read(plain, part, schema)
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]

    assert len(read(plain)[0]) == 4_995


@pytest.mark.parametrize("compression", ["gzip", "zstd", "snappy"])
def test_damaged_pages_are_reported(tmp_path: Path, compression: str) -> None:
    """A1: they cannot be decompressed, or not to the same length."""
    path = write(tmp_path / "pages.parquet", {"s": [f"text {n * n}" for n in range(5_000)]}, compression=compression)
    damaged = bytearray(path.read_bytes())
    damaged[2_000:2_100] = bytes(100)
    path.write_bytes(damaged)

    with pytest.raises(BadInput, match=r"pages\.parquet: cannot be read as Parquet"):
        read(path)
