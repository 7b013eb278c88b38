"""Which columns of strings are the text and which are dates: by name, by what stands in them, or as the user says."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from components import refs
from components.errors import BadInput, SettingsError
from components.ingest.survey import columns as known_columns
from components.ingest.survey.columns import date_columns, meaning_of, text_column, with_meanings

HERE = Path("rows.csv")


def columns(*names: str, **others: pa.DataType) -> pa.Schema:
    """Returns columns of text, and of other types."""
    return pa.schema([*((name, pa.string()) for name in names), *others.items()])


class TestText:
    """The column that is cut into tokens."""

    @pytest.mark.parametrize(
        ("schema", "asked", "others", "expected"),
        [
            (columns("author", "said"), "said", (), "said"),
            (columns("author", "Review"), "", (), "Review"),
            (columns("title", "body", "text"), "", (), "text"),
            (columns("said", n=pa.int64()), "", (), "said"),
            (columns("said", "label", "image"), "", ("label", "image"), "said"),
            (pa.schema([("said", pa.large_string()), ("n", pa.float64())]), "", (), "said"),
        ],
        ids=["asked for", "called so", "called so first", "the only one", "not the label", "large strings"],
    )
    def test_it_is_found(self, schema: pa.Schema, asked: str, others: tuple[str, ...], expected: str) -> None:
        """As asked for, else by name, else because there is no other."""
        assert text_column(HERE, schema, asked, others) == expected

    @pytest.mark.parametrize(
        ("schema", "said"),
        [
            (columns("author", "said"), "2 candidates (author, said)"),
            (columns(n=pa.int64(), m=pa.float64()), "none of n, m is text"),
        ],
        ids=["too many", "none"],
    )
    def test_what_cannot_be_known_is_asked_for(self, schema: pa.Schema, said: str) -> None:
        """With the flag that answers."""
        with pytest.raises(BadInput) as refused:
            text_column(HERE, schema, "", ())

        assert str(refused.value) == f"rows.csv: no column for the text: {said}; name it with --set ingest.text=COLUMN"

    def test_a_misspelt_column_is_told(self) -> None:
        """With what was probably meant."""
        with pytest.raises(SettingsError, match=r"ingest\.text: no column 'sayd' in the data; did you mean 'said'\?"):
            text_column(HERE, columns("author", "said"), "sayd", ())


@pytest.fixture
def dates_of(tmp_path: Path) -> Callable[..., list[str]]:
    """Returns the columns of a table that are dates."""

    def find(header: str, *rows: str, others: tuple[str, ...] = ()) -> list[str]:
        path = tmp_path / "rows.csv"
        path.write_text("\n".join([header, *rows, ""]))
        source = refs.load("components.ingest.sources.csv_rows:SOURCE")
        return date_columns(source, path, source.schema(path), others)

    return find


class TestDates:
    """Columns whose first values are all dates."""

    def test_days_and_times_are_found(self, dates_of: Callable[..., list[str]]) -> None:
        """With gaps, with a zone and without."""
        rows = ["2026-11-16,2026-11-16T08:30:00Z,a", ",2026-11-16 08:30,2026-11-16"]

        assert dates_of("day,moment,word", *rows) == ["day", "moment"]

    def test_a_single_other_value_makes_it_a_category(self, dates_of: Callable[..., list[str]]) -> None:
        """Nothing is guessed at."""
        assert dates_of("day", "2026-11-16", "soon") == []

    def test_a_column_without_any_value_is_none(self, dates_of: Callable[..., list[str]]) -> None:
        """All gaps could be anything."""
        assert dates_of("day,n", ",1", ",2") == []

    def test_what_is_something_else_already_is_not_looked_at(self, dates_of: Callable[..., list[str]]) -> None:
        """A label of dates names classes."""
        assert dates_of("day,label", "2026-11-16,2026-11-16", others=("label",)) == ["day"]

    def test_digits_that_no_reader_knows_are_no_date(self) -> None:
        """TensorFlow reads 0 to 9: Python alone would take these for a date."""
        assert not known_columns._are_dates(pa.array(["٢٠٢٦-١١-١٦"]))


def test_what_is_known_is_kept_with_the_column() -> None:
    """Beside what was known before."""
    known = pa.schema([pa.field("said", pa.string(), metadata={b"set": b"1"}), ("day", pa.string()), ("n", pa.int64())])
    found = with_meanings(known, "said", ["day"])

    assert {field.name: meaning_of(field) for field in found} == {"said": "text", "day": "date", "n": ""}
    assert found.field("said").metadata == {b"set": b"1", b"meaning": b"text"}


class TestUnused:
    """Columns that no model is to see."""

    def test_they_are_marked(self) -> None:
        """Numbers too."""
        known = columns("customer", "kind", n=pa.int64())
        unused = known_columns.unused_columns(known, ["customer", "n"], {"kind"})
        found = with_meanings(known, "", [], unused)

        assert {field.name: meaning_of(field) for field in found} == {"customer": "unused", "kind": "", "n": "unused"}

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("kind", "setting ingest.unused: the model needs 'kind'; remove it from the list"),
            ("costumer", "setting ingest.unused: no column 'costumer' in the data; did you mean 'customer'?"),
        ],
    )
    def test_what_is_needed_or_unknown_is_refused(self, name: str, said: str) -> None:
        """It is a setting that is wrong."""
        with pytest.raises(SettingsError) as error:
            known_columns.unused_columns(columns("customer", "kind"), [name], {"kind"})

        assert str(error.value) == said


def test_without_a_text_nothing_is_marked() -> None:
    """A table has none."""
    known = columns("kind", n=pa.int64())

    assert with_meanings(known, "", []).equals(known, check_metadata=True)
