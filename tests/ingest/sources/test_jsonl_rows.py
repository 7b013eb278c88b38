"""JSON Lines files written by Python's json module, by pandas, and by hand with all kinds of faults."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import BadInput
from components.ingest.sources import text_ranges
from components.ingest.sources.jsonl import jsonl_rows
from components.ingest.sources.jsonl.jsonl_rows import SOURCE
from components.ingest.sources.rows import BadRow, Range
from components.records.quarantine import RAW_LIMIT
from tests.ingest.sources.reading import TARGETS, WHOLE, Rows, read

NAME = "rows.jsonl"
MIXED = pa.schema(
    [
        ("id", pa.int64()), ("share", pa.float64()), ("sure", pa.bool_()), ("text", pa.string()),
        ("ids", pa.list_(pa.int64())), ("shares", pa.list_(pa.float64())), ("tags", pa.list_(pa.string())),
        ("in.id", pa.int64()), ("in.tags", pa.list_(pa.string())),
    ]
)  # fmt: skip

Write = Callable[[bytes | str], Path]


def lines(*rows: Any) -> str:
    """Returns rows as the json module writes them."""
    return "".join(json.dumps(row) + "\n" for row in rows)


class TestSchema:
    """Keys and types come from the first megabyte."""

    def test_types(self, write: Write) -> None:
        """Values, lists of values and objects of both have types; null and missing keys do not count."""
        path = write(
            lines(
                {"id": 1, "share": 2, "sure": None, "text": "a", "ids": [], "shares": [1], "tags": ["a"]},
                {"id": None, "share": 0.5, "sure": True, "text": "b", "ids": [1], "shares": [2, 0.5], "tags": []},
                {"in": {"id": 5, "tags": ["x"]}},
            )
        )

        assert SOURCE.schema(path) == MIXED

    def test_most_values_decide(self, write: Write) -> None:
        """The most frequent type is that of the column, and lines with others are bad."""
        path = write(lines({"a": 1}, {"a": "x"}, {"a": 2.5}))
        rows, bad = read(SOURCE, path)

        assert rows == [{"a": 1.0}, {"a": 2.5}]
        assert [row.position for row in bad] == ["line 2"]

    def test_no_values(self, write: Write) -> None:
        """A key without values is text, and a list that is always empty is a list of text."""
        assert SOURCE.schema(write(lines({"a": None, "b": []}))) == pa.schema(
            [("a", pa.string()), ("b", pa.list_(pa.string()))]
        )

    def test_bad_lines_do_not_count(self, write: Write) -> None:
        """Lines that are not objects do not change the types."""
        assert SOURCE.schema(write('nonsense\n[1]\n{"a": 1}\n')) == pa.schema([("a", pa.int64())])

    @pytest.mark.parametrize("content", ["", " \n\n ", "\ufeff", "\r\n"])
    def test_no_rows(self, content: str, write: Write, tmp_path: Path) -> None:
        """A file without lines, plain or gzip, is rejected by `schema` and by `divide`."""
        packed = tmp_path / "t.jsonl.gz"
        packed.write_bytes(gzip.compress(content.encode()))

        for path in (write(content), packed):
            with pytest.raises(BadInput, match=rf"{path.name}: 0 examples"):
                SOURCE.schema(path)
            with pytest.raises(BadInput, match=rf"{path.name}: 0 examples"):
                SOURCE.divide(path, "t.jsonl", WHOLE)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ('[{"a": 1}, {"a": 2}]\n', r"rows\.jsonl: 0 examples in its first .* expected one JSON object per line"),
            ('{"a": 1}\n{"b": {"c": {"d": 1}}}\n', r"rows\.jsonl: line 2: key 'b\.c' is nested too deep: {\"d\":1}"),
            ('{"a": [{"b": 1}]}\n', r"rows\.jsonl: line 1: key 'a' is nested too deep: .* flatten it"),
            ('{"a": [[1, 2]]}\n', r"rows\.jsonl: line 1: key 'a' is nested too deep: .* flatten it"),
            ('{"": 1}\n', r"rows\.jsonl: a key is empty"),
            ('{"a": 1}\n'.encode("utf-16"), r"rows\.jsonl: is UTF-16; expected UTF-8"),
        ],
    )
    def test_rejected(self, content: bytes | str, reason: str, write: Write) -> None:
        """A file that cannot be a table is rejected with the reason."""
        with pytest.raises(BadInput, match=reason):
            SOURCE.schema(write(content))


class TestDivide:
    """Ranges begin and end at line ends."""

    def test_ranges(self, write: Write) -> None:
        """Ranges are contiguous and have the number of their first line."""
        path = write('{"a": 1}\n{"a": 2}\n{"a": 3}\n')

        assert SOURCE.divide(path, "x/rows.jsonl", 10) == [
            Range("x/rows.jsonl", 0, 9, 1, 9),
            Range("x/rows.jsonl", 9, 18, 2, 9),
            Range("x/rows.jsonl", 18, 27, 3, 9),
        ]

    def test_gzip_is_one_range(self, tmp_path: Path) -> None:
        """A gzip file cannot be divided."""
        path = tmp_path / "t.jsonl.gz"
        path.write_bytes(gzip.compress(b'{"a": 1}\n' * 1000))
        size = path.stat().st_size

        assert SOURCE.divide(path, "t.jsonl.gz", 1) == [Range("t.jsonl.gz", 0, size, 1, size)]


TEXT = st.text(st.sampled_from('a,"\\\t\n\r\u2028\x00é😀{}') | st.characters(codec="utf-8"), max_size=8)
INT = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(-3e38, 3e38)
ROW = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | INT,
        "share": st.none() | FLOAT,
        "sure": st.none() | st.booleans(),
        "text": st.none() | TEXT,
        "ids": st.none() | st.lists(INT, max_size=3),
        "shares": st.none() | st.lists(FLOAT, max_size=3),
        "tags": st.none() | st.lists(TEXT, max_size=3),
        "in": st.fixed_dictionaries({"id": INT}, optional={"tags": st.lists(TEXT, max_size=3)}),
    },
)


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row as it is read: flat, with null for missing values."""
    inner = row.get("in", {})
    values = row | {"in.id": inner.get("id"), "in.tags": inner.get("tags")}
    return {name: values.get(name) for name in MIXED.names}


LOOSE = pa.schema([("id", pa.int64()), ("share", pa.float64()), ("text", pa.string()), ("tags", pa.list_(pa.string()))])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
ANY_ROW = st.dictionaries(st.sampled_from([*LOOSE.names, "other"]), ANY, max_size=3)


def fits(row: dict[str, Any]) -> bool:
    """Whether a row fits the schema; texts with half a surrogate pair cannot be UTF-8."""
    kinds: dict[str, Callable[[Any], bool]] = {
        "id": lambda value: type(value) is int and -(2**63) <= value < 2**63,
        "share": lambda value: type(value) is float and abs(value) < 3e38,
        "text": lambda value: type(value) is str and "\ud800" not in value,
        "tags": lambda value: type(value) is list and all(type(each) is str and "\ud800" not in each for each in value),
    }
    return row.keys() <= kinds.keys() and all(value is None or kinds[name](value) for name, value in row.items())


@pytest.mark.slow
class TestAnyValue:
    """Values of other programs come back unchanged, wherever the file is divided."""

    @settings(max_examples=60, deadline=None)
    @given(st.lists(ROW, min_size=1, max_size=12), st.booleans(), st.sampled_from([".jsonl", ".jsonl.gz"]))
    def test_by_json(self, tmp_path_factory: pytest.TempPathFactory, rows: Rows, ascii_only: bool, suffix: str) -> None:
        """Values written by the json module are the same for every target."""
        content = "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows).encode()
        path = tmp_path_factory.mktemp("json") / f"t{suffix}"
        path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)

        for target in TARGETS:
            assert read(SOURCE, path, MIXED, target) == ([flat(row) for row in rows], [])

    @settings(max_examples=100, deadline=None)
    @given(st.lists(ANY_ROW, min_size=1, max_size=12), st.sampled_from(TARGETS))
    def test_of_any_kind(self, tmp_path_factory: pytest.TempPathFactory, rows: Rows, target: int) -> None:
        """Any value of the json module comes back equal, or is a bad row with its line."""
        path = tmp_path_factory.mktemp("json") / "t.jsonl"
        path.write_text(lines(*rows))
        got, bad = read(SOURCE, path, LOOSE, target)
        bad_lines = {int(row.position.removeprefix("line ")) for row in bad}
        good = [row for number, row in enumerate(rows, 1) if number not in bad_lines]

        assert got == [{name: row.get(name) for name in LOOSE.names} for row in good]
        assert len(got) + len(bad) == len(rows)
        assert not [row for row in rows if fits(row) and row not in good], "rows that fit the schema are kept"

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(INT, TEXT.map("x".__add__)), min_size=1, max_size=12))
    def test_by_pandas(self, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]]) -> None:
        """Values written by pandas are the same for every target, with inferred types."""
        path = tmp_path_factory.mktemp("json") / "t.jsonl"
        pd.DataFrame(rows, columns=["id", "text"]).to_json(path, orient="records", lines=True)

        for target in TARGETS:
            assert read(SOURCE, path, target=target) == ([{"id": number, "text": text} for number, text in rows], [])

    @pytest.mark.slow
    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(
            st.sampled_from(
                [
                    "\n", "\n", "\r\n", " ", "{", "}", "[1]", "null", '"a"', '{"id": 1}', '{"id": 1.5}', '{"id": true}',
                    '{"share": 1}', '{"share": 1e39}', '{"text": "x"}', '{"in": {"id": 1}}', '{"in": {"x": 1}}', "{}",
                    '{"ids": [1, null]}', '{"ids": [1.0]}', '{"tags": ["x"]}', '{"id": 9223372036854775808}',
                ]
            ),
            min_size=1,
        ).map("".join).filter(lambda text: bool(text.strip())),
        st.sampled_from([1, 16, 64]),
    )  # fmt: skip
    def test_garbage(self, tmp_path_factory: pytest.TempPathFactory, body: str, block: int) -> None:
        """The result for a line depends neither on where the file is divided, nor on the lines around it."""
        path = tmp_path_factory.mktemp("json") / "t.jsonl"
        path.write_text(body, newline="")
        rows, bad = read(SOURCE, path, MIXED)

        assert len(rows) + len(bad) == sum(1 for line in body.splitlines() if line.strip())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jsonl_rows, "_BLOCK", block)
            patch.setattr(text_ranges, "_DIVIDE_BLOCK", block)
            for target in (1, 9, WHOLE):
                assert read(SOURCE, path, MIXED, target) == (rows, bad)


@pytest.mark.usefixtures("small_windows")
class TestForms:
    """Different ways to write the same rows."""

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize("last", [True, False])
    def test_line_ends(self, end: str, last: bool, write: Write) -> None:
        """LF and CRLF end lines, the last one may be missing, and blank lines are no rows."""
        path = write("\ufeff" + end.join(['{"a": 1}', "", "  ", '{"a": 2}']) + end * last)

        assert read(SOURCE, path) == ([{"a": 1}, {"a": 2}], [])

    def test_keys_in_any_order(self, write: Write) -> None:
        """Keys may come in any order and may be missing."""
        path = write('{"a": 1, "b": "x"}\n{"b": "y", "a": 2}\n{"b": "z"}\n{}\n')

        assert read(SOURCE, path) == (
            [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": None, "b": "z"}, {"a": None, "b": None}],
            [],
        )

    def test_empty_objects(self, write: Write) -> None:
        """An empty object where no value is expected is neither a column nor a fault."""
        path = write(lines({"a": 1, "meta": {}, "in": {}}, {"a": 2, "in": {"b": 3}}, {"a": 4, "meta": {}}))

        assert read(SOURCE, path) == ([{"a": 1, "in.b": None}, {"a": 2, "in.b": 3}, {"a": 4, "in.b": None}], [])

    def test_integers_where_floats_are_expected(self, write: Write) -> None:
        """An integer that a float cannot hold exactly becomes the nearest float."""
        path = write(lines({"a": 2**63 + 1, "b": [1, 2**60 + 1]}, {"a": 0.5, "b": [0.5]}))

        assert read(SOURCE, path) == (
            [{"a": float(2**63 + 1), "b": [1.0, float(2**60 + 1)]}, {"a": 0.5, "b": [0.5]}],
            [],
        )


@pytest.mark.usefixtures("small_windows")
class TestBadRows:
    """Every line becomes a record or a bad row with its number."""

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b'{"id": 1', "not JSON: unexpected end of data (character 9)"),
            (b'{"id": 1} {"id": 2}', "not JSON: unexpected content after document (character 11)"),
            (b'{"share": NaN}', "key 'share': NaN is not of type double in the range of 32-bit floats"),
            (b'{"share": NaN,}', "not JSON: unexpected character, expected a JSON value (character 11)"),
            (
                b'{"share": NaN, "text": "\\ud800"}',
                "not JSON: unexpected character, expected a JSON value (character 11)",
            ),
            (b'{"share": 1e400}', "not JSON: number is infinity when parsed as double (character 11)"),
            (b'{"text": "\xff"}', "not JSON: str is not valid UTF-8: surrogates not allowed (character 1)"),
            (b'[{"id": 1}]', 'not a JSON object but [{"id":1}]'),
            (b"null", "not a JSON object but null"),
            (b'{"id": "5"}', "key 'id': \"5\" is not of type int64"),
            (b'{"id": 1.0}', "key 'id': 1.0 is not of type int64"),
            (b'{"id": true}', "key 'id': true is not of type int64"),
            (b'{"id": 9223372036854775808}', "key 'id': 9223372036854775808 is not of type int64"),
            (b'{"share": -1e39}', "key 'share': -1e+39 is not of type double in the range of 32-bit floats"),
            (b'{"share": true}', "key 'share': true is not of type double in the range of 32-bit floats"),
            (b'{"sure": 1}', "key 'sure': 1 is not of type bool"),
            (b'{"text": 1}', "key 'text': 1 is not of type string"),
            (b'{"text": {"x": 1}}', "key 'text.x' is not in the schema; its value is 1"),
            (b'{"ids": 1}', "key 'ids': 1 is not of type list of int64"),
            (b'{"ids": [1, null]}', "key 'ids': [1,null] is not of type list of int64"),
            (
                b'{"shares": [1e39]}',
                "key 'shares': [1e+39] is not of type list of double in the range of 32-bit floats",
            ),
            (b'{"tags": [["x"]]}', "key 'tags': [[\"x\"]] is not of type list of string"),
            (b'{"in": {"id": {}}}', "key 'in.id': {} is not of type int64"),
            (b'{"id": {}}', "key 'id': {} is not of type int64"),
            (b'{"id": {"": {}}}', "key 'id.' is not in the schema; its value is {}"),
            (b'{"tags": {}}', "key 'tags': {} is not of type list of string"),
            (b'{"in": {"id": 1}, "in.id": 2}', "key 'in.id' occurs twice, with a dot and as an object"),
            (b'{"id": 1, "other": [2]}', "key 'other' is not in the schema; its value is [2]"),
            (b"x" * 5000, "not JSON: unexpected character, expected a JSON value (character 1)"),
        ],
    )
    def test_reasons(self, line: bytes, reason: str, write: Write) -> None:
        """A bad line has its number, its reason with key, value and type, and its bytes; its neighbours are kept."""
        path = write(b'{"id": 1}\r\n\r\n' + line + b'\r\n{"id": 2}\r\n')

        good = [flat({"id": 1}), flat({"id": 2})]
        for target in (1, 30, WHOLE):
            assert read(SOURCE, path, MIXED, target) == (good, [BadRow("line 3", reason, line[:RAW_LIMIT])])

    def test_smaller_types(self, write: Write) -> None:
        """A schema may have smaller types; values that do not fit are bad."""
        path = write('{"a": 200, "b": 0.5}\n{"a": 100, "b": 2}\n')

        assert read(SOURCE, path, pa.schema([("a", pa.int8()), ("b", pa.float32())])) == (
            [{"a": 100, "b": 2.0}],
            [BadRow("line 1", "key 'a': 200 is not of type int8", b'{"a": 200, "b": 0.5}')],
        )


class TestLarge:
    """Memory is bounded by the block, or by the longest line."""

    def test_batches(self, write: Write) -> None:
        """A range is read in batches of a few megabytes."""
        path = write('{"a": 123456789, "b": "abcdefghijkl"}\n' * 150_000)
        (part,) = SOURCE.divide(path, "t.jsonl", WHOLE)

        sizes = [batch.columns.nbytes for batch in SOURCE.read(path, part, SOURCE.schema(path))]

        assert len(sizes) == 3
        assert max(sizes) < 3 << 20

    def test_large_value(self, write: Write) -> None:
        """A value that is larger than a block is read whole."""
        text = "word \n" * 900_000
        path = write(lines({"a": text}) + "x\n" + lines({"a": "y"}))

        rows, bad = read(SOURCE, path, target=1 << 20)

        assert rows == [{"a": text}, {"a": "y"}]
        assert [row.position for row in bad] == ["line 2"]

    def test_damaged_gzip(self, tmp_path: Path) -> None:
        """A truncated gzip file is an error, never fewer rows."""
        path = tmp_path / "t.jsonl.gz"
        path.write_bytes(gzip.compress(b'{"a": 1}\n' * 100_000)[:-9])

        with pytest.raises(BadInput, match=r"t\.jsonl\.gz: damaged or truncated gzip data"):
            read(SOURCE, path, pa.schema([("a", pa.int64())]))
