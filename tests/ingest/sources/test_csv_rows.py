"""CSV files written by Python's csv module, by pandas, and by hand with all kinds of faults."""

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import BadInput, SettingsError
from components.ingest.sources import text_ranges
from components.ingest.sources.csv import csv_rows
from components.ingest.sources.csv.csv_header import CsvFormat
from components.ingest.sources.csv.csv_records import NOT_CLOSED
from components.ingest.sources.csv.csv_rows import SOURCE, CsvRows
from components.ingest.sources.rows import BadRow, Decision, Range
from components.records.quarantine import RAW_LIMIT
from components.settings.ingest import Ingest
from tests.ingest.sources.reading import TARGETS, WHOLE, Rows, read

NAME = "table.csv"
MIXED = pa.schema([("id", pa.int64()), ("share", pa.float64()), ("sure", pa.bool_()), ("text", pa.string())])

Write = Callable[[bytes | str], Path]


def texts(*names: str) -> pa.Schema:
    """Returns a schema of text columns."""
    return pa.schema([(name, pa.string()) for name in names])


def named(names: list[str], rows: list[list[str]]) -> Rows:
    """Returns cells as rows."""
    return [dict(zip(names, row, strict=True)) for row in rows]


class TestSchema:
    """Names come from the header, types from the first megabyte."""

    def test_types(self, tmp_path: Path) -> None:
        """Integers, floats, booleans and text are inferred; dates, times and columns without values are text."""
        pd.DataFrame(
            {
                "int": [1, -2],
                "float": [0.5, 1e10],
                "bool": [True, False],
                "text": ["a", "b"],
                "date": ["2020-01-01", "2021-12-31"],
                "time": ["2020-01-01 10:00:00", "2020-01-01 10:00:01"],
                "none": [None, None],
                "gaps": [1.5, None],
            }
        ).to_csv(tmp_path / "t.csv", index=False)

        assert SOURCE.schema(tmp_path / "t.csv") == pa.schema(
            [
                ("int", pa.int64()), ("float", pa.float64()), ("bool", pa.bool_()), ("text", pa.string()),
                ("date", pa.string()), ("time", pa.string()), ("none", pa.string()), ("gaps", pa.float64()),
            ]
        )  # fmt: skip

    def test_integers_then_floats(self, write: Write) -> None:
        """A column is float if one of its cells is, however late."""
        assert SOURCE.schema(write("x\n" + "1\n" * 100_000 + "0.5\n")).types == [pa.float64()]

    def test_codes_are_text(self, write: Write) -> None:
        """Numbers that would change when written back are text: postal codes, hexadecimal, twenty digits."""
        path = write("post,hex,long\n01067,0x1F,12345678901234567890\n80331,0xFF,1\n")

        assert SOURCE.schema(path) == texts("post", "hex", "long")

    def test_missing_numbers(self, write: Write) -> None:
        """The spellings of a missing number in R, Excel and SQL do not make a column text."""
        path = write('a,b\n1,NA\n,2.5\nNULL,""\n')

        assert SOURCE.schema(path).types == [pa.int64(), pa.float64()]
        assert read(SOURCE, path) == ([{"a": 1, "b": None}, {"a": None, "b": 2.5}, {"a": None, "b": None}], [])

    def test_a_few_odd_cells(self, write: Write) -> None:
        """One cell in eleven with another type makes a bad row; two in twelve make the column text."""
        good = "1,0.5,true,x\n-2,2,false,1\n" * 5
        path = write("id,share,sure,text\n" + good + "?,?,?,?\n")
        rows, bad = read(SOURCE, path)

        assert SOURCE.schema(path) == MIXED
        assert len(rows) == 10
        assert bad == [BadRow("line 12", "column id: '?' is not of type int64", b"?,?,?,?")]
        assert SOURCE.schema(write("id,share,sure,text\n" + good + "?,?,?,?\n" * 2)) == texts(*MIXED.names)

    def test_bad_rows_do_not_count(self, write: Write) -> None:
        """Rows with too many cells do not change the types."""
        assert SOURCE.schema(write('a,b\nx,y,z\n1,2\n"z\n')).types == [pa.int64(), pa.int64()]

    def test_header_is_quoted(self, write: Write) -> None:
        """A quoted name may hold delimiters, quotes and line ends."""
        assert SOURCE.schema(write('"a,b","c\nd","e""f",ü\n1,2,3,4\n')).names == ["a,b", "c\nd", 'e"f', "ü"]

    @pytest.mark.parametrize("content", ["", " \n\n ", "\ufeff", "a,b", "a,b\n", "a,b\r\n \r\n\r\n"])
    def test_no_rows(self, content: str, write: Write, tmp_path: Path) -> None:
        """A file without rows, plain or gzip, is rejected by `schema` and by `divide`."""
        packed = tmp_path / "t.csv.gz"
        packed.write_bytes(gzip.compress(content.encode()))

        for path in (write(content), packed):
            with pytest.raises(BadInput, match=rf"{path.name}: 0 examples"):
                SOURCE.schema(path)
            with pytest.raises(BadInput, match=rf"{path.name}: 0 examples"):
                SOURCE.divide(path, "t.csv", WHOLE)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (
                "a,b,a\n1,2,3\n",
                r"table\.csv: two columns of the header are called 'a'; .*ingest\.header=no if the first line is data",
            ),
            (
                ",a\n0,1\n",
                r"table\.csv: column 1 of the header has no name; .*ingest\.header=no if the first line is data",
            ),
            ("a, \n0,1\n", r"table\.csv: column 2 of the header has no name"),
            (b"a,\xff\n0,1\n", r"table\.csv: column 2 of the header: .* is not UTF-8"),
            ('a,"b\n0,1\n', r"table\.csv: line 1, the header: a quoted cell is not closed"),
            ("a,b\n1,2\n".encode("utf-16"), r"table\.csv: is UTF-16; expected UTF-8"),
        ],
    )
    def test_bad_header(self, content: bytes | str, reason: str, write: Write) -> None:
        """A header that cannot be used is rejected with file and column."""
        with pytest.raises(BadInput, match=reason):
            SOURCE.schema(write(content))

    def test_unreadable(self, tmp_path: Path) -> None:
        """A missing file is rejected with its name."""
        with pytest.raises(BadInput, match=r"none\.csv: cannot be read: No such file"):
            SOURCE.schema(tmp_path / "none.csv")


class TestDivide:
    """Ranges begin and end at record ends."""

    def test_ranges(self, write: Write) -> None:
        """Ranges are contiguous, leave out the header, and have the number of their first line."""
        path = write("a,b\n1,2\n3,4\n5,6\n7,8\n")

        assert SOURCE.divide(path, "x/table.csv", 8) == [
            Range("x/table.csv", 4, 12, 2, 8),
            Range("x/table.csv", 12, 20, 4, 8),
        ]

    def test_first_lines(self, write: Write) -> None:
        """Lines are numbered as in an editor: quoted line ends, CRLF and blank lines count."""
        path = write('a,b\r\n1,"x\ny"\r\n\r\n2,"\n\n"\n3,z\n4,"q\r\nr"\n')
        whole = path.read_bytes()

        for target in TARGETS:
            for part in SOURCE.divide(path, "t.csv", target):
                assert part.first == len(whole[: part.start].splitlines()) + 1

    def test_unclosed_quote_does_not_stop_dividing(self, write: Write) -> None:
        """The file is divided after a quote that is never closed, too."""
        path = write('a,b\n1,"x\n' + "1,2\n" * 100)

        assert len(SOURCE.divide(path, "t.csv", 40)) == 11

    def test_gzip_is_one_range(self, tmp_path: Path) -> None:
        """A gzip file cannot be divided."""
        path = tmp_path / "t.csv.gz"
        path.write_bytes(gzip.compress(b"a\n" + b"1\n" * 1000))

        assert SOURCE.divide(path, "t.csv.gz", 1) == [Range("t.csv.gz", 0, path.stat().st_size, 2, path.stat().st_size)]


FOR_NUL = "\ue000"  # the csv module of Python 3.10 does not write NUL, other programs do
CELL = st.text(
    st.sampled_from(f'ab1,;"\t\n\r é😀\u0301\u202e={FOR_NUL}') | st.characters(codec="utf-8", exclude_characters="\0"),
    max_size=8,
)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=12)
)


@pytest.mark.slow
class TestAnyText:
    """Values of other programs come back unchanged, wherever the file is divided."""

    @settings(max_examples=60, deadline=None)
    @given(TABLES, st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.sampled_from([".csv", ".tsv", ".csv.gz"]))
    def test_by_csv(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], quoting: int, suffix: str
    ) -> None:
        """Text written by the csv module is the same for every target."""
        out = io.StringIO()
        names = [f"c{number}" for number in range(len(rows[0]))]
        delimiter = "\t" if suffix == ".tsv" else ","
        csv.writer(out, quoting=quoting, delimiter=delimiter).writerows([names, *rows])  # type: ignore[arg-type]
        path = tmp_path_factory.mktemp("csv") / f"t{suffix}"
        content = out.getvalue().replace(FOR_NUL, "\0").encode()
        path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
        expected = [[cell.replace(FOR_NUL, "\0") for cell in row] for row in rows]

        for target in TARGETS:
            assert read(SOURCE, path, texts(*names), target) == (named(names, expected), [])

    @pytest.mark.all
    @settings(max_examples=60, deadline=None)
    @given(TABLES)
    def test_by_pandas(self, tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
        """Text written by pandas is the same for every target."""
        # pandas does not quote a carriage return, so it is a line end for every reader.
        rows = [[cell.replace("\r", "") for cell in row] for row in rows]
        names = [f"c{number}" for number in range(len(rows[0]))]
        path = tmp_path_factory.mktemp("csv") / "t.csv"
        pd.DataFrame(rows, columns=names).to_csv(path, index=False)

        for target in TARGETS:
            assert read(SOURCE, path, texts(*names), target) == (named(names, rows), [])

    @pytest.mark.all
    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.integers(-(2**63), 2**63 - 1),
                st.floats(-3e38, 3e38),
                st.booleans(),
                CELL.map(lambda text: "x" + text.replace("\r", "")),
            ),
            min_size=1,
            max_size=12,
        )
    )
    def test_types(self, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, float, bool, str]]) -> None:
        """Numbers and booleans written by pandas come back exactly, with inferred types."""
        path = tmp_path_factory.mktemp("csv") / "t.csv"
        pd.DataFrame(rows, columns=MIXED.names).to_csv(path, index=False)

        assert SOURCE.schema(path) == MIXED
        for target in TARGETS:
            assert read(SOURCE, path, MIXED, target) == ([dict(zip(MIXED.names, row, strict=True)) for row in rows], [])

    @pytest.mark.slow
    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(
            st.sampled_from(['"', '""', ",", "\n", "\r\n", "\r", "a", "1", "2.5", " ", "NA", "true", "nan", "\ufeff"]),
            min_size=1,
        ).map("".join).filter(lambda text: bool(text.strip(" \r\n"))),
        st.sampled_from([1, 2, 3, 16, 64]),
    )  # fmt: skip
    def test_garbage(self, tmp_path_factory: pytest.TempPathFactory, body: str, block: int) -> None:
        """The result for a row depends neither on where the file is divided, nor on the rows around it."""
        path = tmp_path_factory.mktemp("csv") / "t.csv"
        path.write_text(f"id,share,text\n{body}", newline="")
        schema = pa.schema([("id", pa.int64()), ("share", pa.float64()), ("text", pa.string())])
        expected = read(SOURCE, path, schema)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_rows, "_BLOCK", block)
            patch.setattr(text_ranges, "_DIVIDE_BLOCK", block)
            for target in (1, 9, WHOLE):
                assert read(SOURCE, path, schema, target) == expected


@pytest.mark.usefixtures("small_windows")
class TestForms:
    """Different ways to write the same table."""

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("last", [True, False])
    def test_line_ends(self, end: str, last: bool, write: Write) -> None:
        """LF, CRLF and CR end lines, and the last one may be missing."""
        path = write(end.join(["a,b", "1,x", "2,y"]) + end * last)

        assert read(SOURCE, path) == ([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], [])

    def test_byte_order_mark(self, write: Write) -> None:
        """A byte order mark at the start of the file is not part of the first name; elsewhere it is text."""
        path = write("\ufeffa\nx\n\ufeffy\n")

        assert read(SOURCE, path) == ([{"a": "x"}, {"a": "\ufeffy"}], [])

    def test_blank_lines(self, write: Write) -> None:
        """Blank lines are no rows, also before the header, but count as lines."""
        path = write("\n \na,b\n\n1,2\n   \n\n3\n\n")

        for target in TARGETS:
            assert read(SOURCE, path, target=target) == (
                [{"a": 1, "b": 2}],
                [BadRow("line 8", "1 cells, expected 2 as in the header", b"3")],
            )

    def test_quoted_line_ends(self, write: Write) -> None:
        """A record is never divided inside quotes."""
        path = write('a,b\n"1\n2\r\n3","x"",\n""y"\n"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n","\n"\n')

        rows = [{"a": "1\n2\r\n3", "b": 'x",\n"y'}, {"a": "\n" * 20, "b": "\n"}]

        assert [read(SOURCE, path, target=target) for target in TARGETS] == [(rows, [])] * len(TARGETS)

    def test_empty_strings(self, write: Write) -> None:
        """Text is never missing: neither an empty cell, nor NA or null."""
        path = write('a,b\n"",\nNA,null\n')

        assert read(SOURCE, path, texts("a", "b")) == ([{"a": "", "b": ""}, {"a": "NA", "b": "null"}], [])

    def test_text_is_kept(self, write: Write) -> None:
        """NUL, formulas, blanks, combining and right-to-left characters and inner quotes are kept."""
        cells = ["x\x00y", "=cmd|' /C calc'!A0", "  a ", "e\u0301", "\u202eabc", '5" pipe', "-1+1"]
        path = write("a,b\n" + "".join(f"{cell},1\n" for cell in cells))

        assert read(SOURCE, path) == ([{"a": cell, "b": 1} for cell in cells], [])

    def test_tabs(self, tmp_path: Path) -> None:
        """The delimiter of a .tsv file is the tab, and a row of empty cells is a row."""
        (tmp_path / "t.tsv").write_text("a\tb\n1,5\tx\n\t\n")

        assert read(SOURCE, tmp_path / "t.tsv") == ([{"a": "1,5", "b": "x"}, {"a": "", "b": ""}], [])

    @pytest.mark.parametrize("sign", [";", "\t"])
    def test_a_header_without_commas(self, sign: str, write: Write) -> None:
        """The delimiter is then a semicolon or tab, and a comma is part of a cell."""
        content = f"a{sign}b\n1,5{sign}x\n2,5{sign}\n"

        assert read(SOURCE, write(content)) == ([{"a": "1,5", "b": "x"}, {"a": "2,5", "b": ""}], [])

    def test_a_single_quoted_column(self, write: Write) -> None:
        """A semicolon in quotes is not a delimiter."""
        assert read(SOURCE, write('"a;b"\nx\n')) == ([{"a;b": "x"}], [])

    def test_columns_in_another_order(self, write: Write) -> None:
        """Columns are matched by name, so files of a data set may order them differently."""
        path = write("text,share,sure,id\nx,0.5,true,7\nx,y,true,7\n")

        rows, bad = read(SOURCE, path, MIXED)

        assert rows == [{"id": 7, "share": 0.5, "sure": True, "text": "x"}]
        assert [row.position for row in bad] == ["line 3"]

    def test_other_columns(self, write: Write) -> None:
        """A file with other columns than the schema is rejected."""
        with pytest.raises(BadInput, match=r"missing \['c'\], not in the schema \['b'\]"):
            read(SOURCE, write("a,b\n1,2\n"), texts("a", "c"))


@pytest.mark.usefixtures("small_windows")
class TestBadRows:
    """Every row becomes a record or a bad row with its line."""

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            (b"1,2", "2 cells, expected 4 as in the header"),
            (b'1,2,true,"x",', "5 cells, expected 4 as in the header"),
            (b"1.0,2,true,x", "column id: '1.0' is not of type int64"),
            (b"9223372036854775808,2,true,x", "column id: '9223372036854775808' is not of type int64"),
            (b"\xff,2,true,x", "column id: '\\\\xff' is not of type int64"),
            (b'1,"many",true,x', "column share: 'many' is not a finite number (double, in the range of 32-bit floats)"),
            (b"1,NaN,true,x", "column share: 'NaN' is not a finite number (double, in the range of 32-bit floats)"),
            (b"1,-inf,true,x", "column share: '-inf' is not a finite number (double, in the range of 32-bit floats)"),
            (b"1,1e400,true,x", "column share: '1e400' is not a finite number (double, in the range of 32-bit floats)"),
            (b"1,-1e39,true,x", "column share: '-1e39' is not a finite number (double, in the range of 32-bit floats)"),
            (b"1,2,maybe,x", "column sure: 'maybe' is not of type bool"),
            (b"1,2,true,a\xffb", "column text: 'a\\\\xffb' is not UTF-8 text"),
            (b'1,2,true,"x', "a quoted cell is not closed, or text follows its closing quote"),
            (b'1,2,true,"x" y', "a quoted cell is not closed, or text follows its closing quote"),
            (b'1,2,true,""x""', "a quoted cell is not closed, or text follows its closing quote"),
            (b"x" * 5000, "1 cells, expected 4 as in the header"),
        ],
    )
    def test_reasons(self, row: bytes, reason: str, write: Write) -> None:
        """A bad row has its line, its reason with column, value and type, and its bytes; its neighbours are kept."""
        path = write(b'id,share,sure,text\r\n1,0.5,true,"a\r\nb"\r\n\r\n' + row + b'\r\n 2 , 1e3,False,"c"\r\n')

        good = [
            {"id": 1, "share": 0.5, "sure": True, "text": "a\r\nb"},
            {"id": 2, "share": 1000.0, "sure": False, "text": "c"},
        ]
        for target in (1, 30, WHOLE):
            assert read(SOURCE, path, MIXED, target) == (good, [BadRow("line 5", reason, row[:RAW_LIMIT])])

    def test_unclosed_quote_spoils_its_line_only(self, write: Write) -> None:
        """Rows after a quote that is never closed are kept, quoted ones too."""
        path = write('a,b\n1,"open\n2,x\n3,"y\nz"\n4,"also open\n5,""\n')

        rows, bad = read(SOURCE, path)

        assert rows == [{"a": 2, "b": "x"}, {"a": 3, "b": "y\nz"}, {"a": 5, "b": ""}]
        assert [row.position for row in bad] == ["line 2", "line 6"]

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just(True), st.integers(-99, 99), st.sampled_from(["x", "a\nb", 'c"d', "é,", ""])),
                st.tuples(
                    st.just(False), st.just(0), st.sampled_from(['x,"a', "1", "1,2,3", "1.5,a", '1,"a"b', "x,y"])
                ),
            ),
            min_size=1,
        ),
        st.sampled_from(TARGETS),
    )
    def test_in_is_out_plus_bad(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[bool, int, str]], target: int
    ) -> None:
        """Bad lines among good ones have their line numbers, and every good row is kept."""
        out, lines = io.StringIO("a,b\r\n", newline=""), []
        out.seek(0, io.SEEK_END)
        for good, number, text in rows:
            lines.append(len(out.getvalue().splitlines()) + 1)
            if good:
                csv.writer(out).writerow([number, text])
            else:
                out.write(text + "\r\n")
        path = tmp_path_factory.mktemp("csv") / "t.csv"
        path.write_text(out.getvalue(), newline="")

        got, bad = read(SOURCE, path, pa.schema([("a", pa.int64()), ("b", pa.string())]), target)

        assert got == [{"a": number, "b": text} for good, number, text in rows if good]
        assert [row.position for row in bad] == [
            f"line {line}" for line, (good, _, _) in zip(lines, rows, strict=True) if not good
        ]


class TestLarge:
    """Memory is bounded by the block, or by the longest record."""

    def test_batches(self, write: Write) -> None:
        """A range is read in batches of a few megabytes."""
        path = write("a,b\n" + "123456789,abcdefghijkl\n" * 600_000)
        (part,) = SOURCE.divide(path, "t.csv", WHOLE)

        sizes = [batch.columns.nbytes for batch in SOURCE.read(path, part, SOURCE.schema(path))]

        assert len(sizes) == 4
        assert max(sizes) < 6 << 20

    def test_large_cell(self, write: Write) -> None:
        """A cell that is larger than a block is read whole, and later line numbers are right."""
        cell = "word \n" * 900_000
        path = write(f'a,b\n1,"{cell}"\n2\n3,x\n')

        assert read(SOURCE, path, pa.schema([("a", pa.int64()), ("b", pa.string())]), 1 << 20) == (
            [{"a": 1, "b": cell}, {"a": 3, "b": "x"}],
            [BadRow("line 900003", "1 cells, expected 2 as in the header", b"2")],
        )

    def test_endless_line(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file without line ends is rejected before it fills the memory."""
        source = CsvRows(CsvFormat(1 << 20))
        monkeypatch.setattr(text_ranges, "_DIVIDE_BLOCK", 1 << 16)
        monkeypatch.setattr(csv_rows, "_BLOCK", 1 << 16)
        path = write(b"a,b\n1,2\n" + bytes(2 << 20))

        with pytest.raises(BadInput, match=r"table\.csv: line 3 is longer than ingest\.max_row_mb = 1;"):
            source.divide(path, "t.csv", 1 << 20)
        with pytest.raises(BadInput, match=r"table\.csv: line 3 is longer than ingest\.max_row_mb = 1;"):
            read(source, path, texts("a", "b"))

    def test_endless_quote(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        """A quote that is open for longer than the longest record counts as never closed."""
        monkeypatch.setattr(csv_rows, "_BLOCK", 64)
        monkeypatch.setattr(text_ranges, "_DIVIDE_BLOCK", 64)
        path = write('a,b\n1,"x\n' + "2,y\n" * 100 + '3,"z"\n')

        for target in (1, 50, WHOLE):
            rows, bad = read(CsvRows(CsvFormat(256)), path, target=target)
            assert rows == [{"a": 2, "b": "y"}] * 100 + [{"a": 3, "b": "z"}]
            assert [row.position for row in bad] == ["line 2"]

    def test_file_that_shrinks(self, write: Write) -> None:
        """A file that shrank after it was divided is an error, never fewer rows."""
        path = write("a\n" + "1\n" * 100)
        (part,) = SOURCE.divide(path, "t.csv", WHOLE)
        path.write_text("a\n" + "1\n" * 50)

        with pytest.raises(BadInput, match=r"table\.csv: ends at byte 102, expected 202"):
            list(SOURCE.read(path, part, texts("a")))


class TestGzip:
    """Gzip files are read completely, or rejected."""

    def test_by_pandas(self, tmp_path: Path) -> None:
        """A table compressed by pandas is read, with line numbers of the text."""
        path = tmp_path / "t.csv.gz"
        pd.DataFrame({"a": [1, 2], "b": ["x\ny", "z"]}).to_csv(path, index=False)
        rows, bad = read(SOURCE, path, pa.schema([("a", pa.int64()), ("b", pa.int64())]))

        assert rows == []
        assert [row.position for row in bad] == ["line 2", "line 4"]
        assert read(SOURCE, path) == ([{"a": 1, "b": "x\ny"}, {"a": 2, "b": "z"}], [])

    def faults(self) -> Iterator[bytes]:
        """Yields damaged files."""
        whole = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(20_000)))
        yield whole[:-4]
        yield whole[: len(whole) // 2]
        yield whole[:5000] + bytes([whole[5000] ^ 8]) + whole[5001:]
        yield b"a,b\n1,2\n"

    def test_damage(self, tmp_path: Path) -> None:
        """A gzip file that is truncated, altered or not compressed is an error, never fewer rows."""
        path = tmp_path / "t.csv.gz"
        for content in self.faults():
            path.write_bytes(content)
            with pytest.raises(BadInput, match=r"t\.csv\.gz: damaged or truncated gzip data"):
                read(SOURCE, path, pa.schema([("a", pa.int64()), ("b", pa.int64())]))


NEWS = '"3","A title","Some ""text"",\nof two lines"\n\n"4","Other","More"\n"5","only two"\n"1","Last","End"\n'
NEWS_ROWS: Rows = [
    {"column_1": 3, "column_2": "A title", "column_3": 'Some "text",\nof two lines'},
    {"column_1": 4, "column_2": "Other", "column_3": "More"},
    {"column_1": 1, "column_2": "Last", "column_3": "End"},
]


class TestWithoutHeader:
    """A17: the first line is a row."""

    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.parametrize("start", ["", "\ufeff", "\n \n"])
    def test_every_row_is_read_once(self, write: Write, target: int, start: str) -> None:
        """A17: columns are numbered; ranges and line numbers begin with the first line, also after a BOM."""
        source, decision = SOURCE.configure([write(start + NEWS)], Ingest())

        rows, bad = read(source, write(start + NEWS), target=target)

        assert decision.text.startswith(
            "first line of table.csv read as data: '3' is a number like those below it in column 1"
        )
        blank = start.count("\n")
        assert rows == NEWS_ROWS
        assert bad == [
            BadRow(f"line {5 + blank}", "2 cells, expected 3 as in most rows", b'"5","only two"'),
        ]

    def test_gzip_and_tabs(self, tmp_path: Path) -> None:
        """A17: a compressed TSV file is the same."""
        path = tmp_path / "t.tsv.gz"
        path.write_bytes(gzip.compress(b"1\tx\n2\ty\n"))
        source, _ = SOURCE.configure([path], Ingest())

        assert read(source, path) == ([{"column_1": 1, "column_2": "x"}, {"column_1": 2, "column_2": "y"}], [])

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"header": "no"}, [{"column_1": "a", "column_2": "b"}, {"column_1": "1", "column_2": "2"}]),
            ({"header": "yes"}, [{"a": 1, "b": 2}]),
            ({"header": "yes", "names": "x,y"}, [{"x": 1, "y": 2}]),
            ({"header": "no", "names": "x,y"}, [{"x": "a", "y": "b"}, {"x": "1", "y": "2"}]),
            ({"names": "a,b"}, [{"a": 1, "b": 2}]),
        ],
    )
    def test_settings(self, write: Write, options: dict[str, str], expected: Rows) -> None:
        """A17: `ingest.header` and `ingest.names` decide, and no decision is announced."""
        path = write("a,b\n1,2\n")
        source, decision = SOURCE.configure([path], Ingest.model_validate(options))

        assert (read(source, path)[0], decision) == (expected, Decision())

    def test_names_for_all_columns(self, write: Write) -> None:
        """A17: fewer or more names than columns are rejected."""
        path = write("1,2\n3,4\n")
        source, _ = SOURCE.configure([path], Ingest(names=("a", "b", "c")))
        with pytest.raises(SettingsError) as error:
            source.schema(path)

        assert str(error.value) == f"setting ingest.names: {path} has 2 columns, 3 names are set; give one per column"

    def test_distinct_names(self, write: Write) -> None:
        """A17: the same name for two columns is rejected."""
        with pytest.raises(SettingsError) as error:
            SOURCE.configure([write("1,2\n")], Ingest(names=("a", "a")))

        assert str(error.value) == "setting ingest.names: a name occurs twice in a, a; make them distinct"

    def test_a_broken_first_line_is_a_bad_row(self, write: Write) -> None:
        """A17: with ingest.header = no it does not stop the run."""
        path = write('1,"x" y\n2,z\n')
        source, _ = SOURCE.configure([path], Ingest(header="no"))

        assert read(source, path) == ([{"column_1": 2, "column_2": "z"}], [BadRow("line 1", NOT_CLOSED, b'1,"x" y')])
