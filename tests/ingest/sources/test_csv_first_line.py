"""A17: whether the first line of CSV files is a header is decided from the lines below it, once for all files."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from components.errors import BadInput
from components.ingest.sources.csv.csv_first_line import HeaderVerdict, check_header, compare, decide
from components.ingest.sources.rows import MAX_ROW, Decision

UNKNOWN = "it may be data, nothing distinguishes it from the lines below it"
NO_DIGIT = "has no digit, unlike the values below it in"
IF_NAMES = "--set ingest.header=yes reads it as column names"
IF_DATA = "--set ingest.header=no reads it as data"


def lines(*rows: str) -> HeaderVerdict:
    """Returns the verdict on the first of some lines."""
    first, *rest = (row.split(",") for row in rows)
    return compare(first, list(zip(*rest, strict=True)))


@pytest.mark.parametrize(
    ("rows", "is_header", "reason"),
    [
        (["age,name", "31,Ann", "45,Bob"], True, "'age' is text above numbers in column 1"),
        (["ok,name", "true,Ann", "false,Bob"], True, "'ok' is text above truth values in column 1"),
        (
            ["day,name", "2024-05-01,Ann", "2024-05-02,Bob"],
            True,
            "'day' has no digit, unlike the values below it in column 1",
        ),
        (
            ["code,name", "AB-17,Ann", "XYZ-5,Bob"],
            True,
            "'code' has no digit, unlike the values below it in column 1",
        ),
        (["Main Street,good", "1 Oak Ave,bad", "2 Oak Ave,fine"], None, UNKNOWN),
        (
            ["id,2019,2020", "7,1,2", "8,3,4"],
            False,
            "'2019' is a number like those below it in column 2, although 'id' is text above numbers in column 1",
        ),
        (
            ["5.1,unknown,0", "4.9,3,1", "4.7,2,0"],
            False,
            "'5.1' is a number like those below it in column 1, although 'unknown' is text above numbers in column 2",
        ),
        (
            ["5-01,no", "5-02,3", "5-03,2"],
            False,
            "'5-01' has the form of the values below it in column 1, although 'no' is text above numbers in column 2",
        ),
        (
            ["1,pending", "2,2024-05-02", "3,2024-05-03"],
            False,
            f"'1' is a number like those below it in column 1, although 'pending' {NO_DIGIT} column 2",
        ),
        (
            ["3,Samsung Galaxy phone", "1,iPhone 7 8 GB", "2,iPhone 8 16 GB"],
            False,
            "'3' is a number like those below it in column 1",
        ),
        (["a,", "1,x", "2,y"], True, "'a' is text above numbers in column 1"),
        ([",name", "0,Ann", "1,Bob"], True, "its first cell is empty above row numbers"),
        (["kind,said", "spam,buy", "ham,hi", "spam,pay"], None, UNKNOWN),
        (
            ["kind,said", "spam,buy", "ham,hi", "spam,pay", "ham,yo"],
            True,
            "its cells do not occur again in their columns",
        ),
        (["3,Title,Text", "4,Other,More"], False, "'3' is a number like those below it in column 1"),
        (["?,5,Ann", "1,6,Bob", "2,7,Eve"], False, "'5' is a number like those below it in column 2"),
        (["nan,5", "1,6", "2,7"], False, "'5' is a number like those below it in column 2"),
        (["2024-05-01,x", "2024-05-02,y"], False, "'2024-05-01' has the form of the values below it in column 1"),
        (["spam,", "ham,hi"], False, "its cell 2 is empty"),
        (["yes,yes", "no,maybe"], False, "'yes' occurs twice in it"),
        (["spam,buy", "ham,hi", "spam,pay", "ham,yo", "spam,go"], False, "'spam' occurs again in column 1"),
        (["x" * 41 + ",a", "y" * 50 + ",b"], False, "its cell 1 is a long text like those below it"),
        (["What do you think of us? Please answer in a word,who", "good,a", "bad,b"], None, UNKNOWN),
        (["a,b", "c,d"], None, UNKNOWN),
    ],
)
def test_types_and_uniqueness_decide(rows: list[str], is_header: bool | None, reason: str) -> None:
    """A17: every rule, with the reason that the user sees."""
    assert lines(*rows) == HeaderVerdict(is_header, reason)


def files(folder: Path, *contents: str) -> list[Path]:
    """Writes CSV files with the names a.csv, b.csv and c.csv."""
    paths = [folder / f"{name}.csv" for name, _ in zip("abc", contents, strict=False)]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content)
    return paths


def decided(paths: Sequence[Path], names: Sequence[str] = (), known: Sequence[str] = ()) -> tuple[bool, Decision]:
    """Returns the decision on all files."""
    return decide(paths, names, known, MAX_ROW)


class TestFiles:
    """One decision for all files."""

    def test_a_clear_header_needs_no_note(self, tmp_path: Path) -> None:
        """A17: the usual case is silent."""
        assert decided(files(tmp_path, "n,t\n1,x\n", "n,t\nx,y\n")) == (True, Decision())

    def test_data_is_announced(self, tmp_path: Path) -> None:
        """A17: a file that cannot be decided follows the others."""
        assert decided(files(tmp_path, "x,y\n", "1,2\n3,4\n")) == (
            False,
            Decision(
                "first line of b.csv read as data: '1' is a number like those below it in column 1; "
                f"{IF_NAMES}, ingest.names names the columns"
            ),
        )

    def test_an_unknown_first_line_stays_a_header(self, tmp_path: Path) -> None:
        """A17: a message says so; with `ingest.names` the line is data, because names then need no header."""
        [path] = files(tmp_path, "a,b\nc,d\n")

        assert decided([path]) == (
            True,
            Decision(f"first line of a.csv read as column names: {UNKNOWN}; {IF_DATA}", is_clear=False),
        )
        assert decided([path], names=["x", "y"]) == (
            False,
            Decision(f"first line of a.csv read as data: {UNKNOWN}; {IF_NAMES}"),
        )

    def test_a_header_by_setting_that_looks_like_data(self, tmp_path: Path) -> None:
        """A17: `ingest.header = yes` is followed, with a warning; a line that looks like names has none."""
        data, header = files(tmp_path, "1,x\n2,y\n", "n,t\n1,x\n")
        reason = "'1' is a number like those below it in column 1"
        because = f"because of ingest.header = yes, but it looks like data: {reason}; {IF_DATA}"

        assert [check_header(data, names, (), MAX_ROW) for names in ((), ("n", "t"))] == [
            Decision(f"first line of a.csv read as column names {because}", is_clear=False),
            Decision(f"first line of a.csv replaced by ingest.names {because}", is_clear=False),
        ]
        assert check_header(header, (), (), MAX_ROW) == Decision()

    @pytest.mark.parametrize("settings", [{"known": ["2019"]}, {"names": ["2019", "2020"]}])
    def test_settings_that_name_its_cells_make_it_a_header(
        self, tmp_path: Path, settings: dict[str, list[str]]
    ) -> None:
        """A17: such as --label 2019."""
        assert decided(files(tmp_path, "2019,2020\n1,2\n3,4\n"), **settings) == (True, Decision())

    def test_files_that_disagree_are_an_error(self, tmp_path: Path) -> None:
        """A17: the message has both files, their reasons and the setting."""
        with pytest.raises(BadInput) as error:
            decided(files(tmp_path, "n,t\n1,x\n", "1,x\n2,y\n"))

        assert str(error.value) == (
            f"{tmp_path}/b.csv: its first line looks like data ('1' is a number like those below it in column 1), but "
            f"that of {tmp_path}/a.csv like column names ('n' is text above numbers in column 1); all files of a data "
            "set need the same form: correct them, or set ingest.header to yes or no"
        )
