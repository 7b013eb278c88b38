"""Output that is safe for terminals and spreadsheets, and the cells of its tables."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.filesize import decimal

from components.errors import BadInput
from pipelines.inspection import inspect
from pipelines.inspection.cells import cell, cell_of_list, escape_formula
from pipelines.inspection.printer import _blocks
from tests.inspection.conftest import expected, image_file, inspected


def test_control_characters() -> None:
    """They are escaped in values, column names and classes; rich's markup is plain text."""
    bell, red, turned = "ring\a", "\x1b[31mred\x1b[0m", "txt\u202egnp"
    pq.write_table(
        pa.table({f"a{red}": [bell, "two\r\nlines\t", "[bold]x[/]"], "label": [red, turned, "nul\0"]}),
        "rows.parquet",
    )

    assert inspected("rows.parquet") == expected(r"""
    path     rows.parquet
    kind     Parquet
    files    1, SIZE
    records  3
    bad      0

    column               type    missing  distinct   length
    a\x1b[31mred\x1b[0m  string        0         3  5 to 11
    label                string        0         3  4 to 12

    classes by label    records
    \x1b[31mred\x1b[0m        1
    nul\x00                   1
    txt\u202egnp              1

    #  a\x1b[31mred\x1b[0m  label
    1  ring\x07             \x1b[31mred\x1b[0m
    2  two\r\nlines\t       txt\u202egnp
    3  [bold]x[/]           nul\x00
    """).replace("SIZE", decimal(Path("rows.parquet").stat().st_size))


def test_file_names_that_are_not_utf_8() -> None:
    """They are escaped in the output and in errors."""
    folder = os.fsdecode(b"set\xff\x1b[31m")
    Path(folder, "cat").mkdir(parents=True)
    Path(folder, "cat", os.fsdecode(b"a\nb\xfe.png")).write_bytes(image_file((1, 1, 1)))
    Path(folder, "cat", os.fsdecode(b"c\xfe.png")).write_bytes(b"no")

    shown = inspected(folder)

    assert shown.isprintable() or set(shown) - {"\n"} == {each for each in shown if each.isprintable()}
    assert shown.splitlines()[0] == r"path     set\xff\x1b[31m"
    assert r"1 × not an image, such as cat/c\xfe.png" in shown
    assert r"1  cat/a\nb\xfe.png" in shown
    with pytest.raises(BadInput, match=r"^none\\xff\\x1b\[31m: 0 examples: no such file or folder"):
        inspected(os.fsdecode(b"none\xff\x1b[31m"))


def test_formulas() -> None:
    """They are escaped in a file, which a spreadsheet might open, but not on a screen."""
    cells = ["=cmd|'/c calc'!A0", "+1", "-x", "@sum", "plain"]
    pq.write_table(pa.table({"=1+1": cells, "label": ["=a", "-5", "b", "c", "d"]}), "rows.parquet")

    with Path("out.txt").open("w") as stream:
        inspect("rows.parquet", stream)
    written = [line.split() for line in Path("out.txt").read_text().splitlines()]

    assert written[-6:] == [
        ["#", "'=1+1", "label"],
        ["1", "'=cmd|'/c", "calc'!A0", "'=a"],
        ["2", "+1", "-5"],
        ["3", "'-x", "b"],
        ["4", "'@sum", "c"],
        ["5", "plain", "d"],
    ]
    assert ["'=a", "1"] in written
    assert "'=" not in inspected("rows.parquet")


def test_long_values_and_many_columns() -> None:
    """A label and a text of 10 MB, and a thousand columns, have a short output."""
    long = "x" * 10_000_000
    many = {f"c{number}": [number] for number in range(1000)}
    pq.write_table(pa.table({"text": [long], **many, "label": [long]}), "rows.parquet")

    shown = inspected("rows.parquet")

    assert len(shown) < 30_000
    assert "10,000,000" in shown
    assert "… 801 more columns" in shown
    assert "… 962 more columns" in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "true"),
        (0.1, "0.1"),
        (1234567, "1234567"),
        (b"caf\xc3\xa9", "café"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 2000, "PNG, 2.0 kB"),
        (b"\xff\x00\x01\x02\x03", "\\xff\\x00\\x01\\x02… 5 bytes"),
        ("a" * 100, "a" * 21 + "…" + "a" * 10),
        ("\x1b[2J", "\\x1b[2J"),
    ],
)
def test_cell(value: object, shown: str) -> None:
    """Any value is short and on one line."""
    assert cell(value) == shown


def test_lists() -> None:
    """The first values, and the length of a long list."""
    assert cell_of_list([1, 2], 2) == "[1, 2]"
    assert cell_of_list([0.5] * 8, 784) == "[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, … 784]"


def test_escape_formula() -> None:
    """Text that a spreadsheet would run is escaped; numbers are not."""
    escaped = [escape_formula(text) for text in ("=1", " =1", "-1", "-1e5", "- x", "a=1", "–")]

    assert escaped == ["'=1", "' =1", "-1", "-1e5", "'- x", "a=1", "–"]


def test_columns_are_divided_into_lines() -> None:
    """As many as fit; a column that is too wide has its own line."""
    assert _blocks([3, 3, 3, 100, 3], 12) == [[0, 1], [2], [3], [4]]
