"""Label, text, date and unused columns, types set by the user, and names in records."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from components import refs
from components.errors import BadInput, SettingsError
from components.ingest.sources.rows import Sample
from components.ingest.sources.set_types import SET_BY_USER
from components.ingest.survey import columns

HERE = Path("rows.csv")
TENSOR = pa.field("pixels", pa.binary(), metadata={"dtype": "<f4", "shape": "28,28"})


def texts(*names: str, **others: pa.DataType) -> pa.Schema:
    """Returns a schema of text columns, and of columns with other types."""
    return pa.schema([*((name, pa.string()) for name in names), *others.items()])


class TestLabel:
    """Finding the label column."""

    @pytest.mark.parametrize(
        ("names", "found"),
        [
            (["text", "label"], "label"),
            (["Class", "text"], "Class"),
            (["x", "Y"], "Y"),
            (["category", "label", "y"], "label"),
            (["image/class/text", "image/class/label"], "image/class/label"),
            (["meta.target", "text"], "meta.target"),
            (["labelled", "classes_taken"], ""),
        ],
    )
    def test_a_column_with_a_usual_name_is_the_label(self, names: list[str], found: str) -> None:
        """Names match in any case and at the end of a path; the most usual name comes first."""
        assert columns.label_column(texts(*names), "") == found

    def test_the_setting_decides(self) -> None:
        """Other columns may have a usual name."""
        assert columns.label_column(texts("label", "species"), "species") == "species"

    def test_a_misspelt_setting_is_reported_with_the_nearest_name(self) -> None:
        """The message has a suggestion."""
        with pytest.raises(SettingsError, match=r"setting ingest.label: no column 'klass' .* did you mean 'class'\?"):
            columns.label_column(texts("text", "class"), "klass")

    def test_lists_and_tensors_are_no_labels(self) -> None:
        """Their names do not matter."""
        schema = pa.schema([pa.field("y", pa.binary(), metadata=TENSOR.metadata), ("labels", pa.list_(pa.int64()))])

        assert columns.label_column(schema, "") == ""


class TestTypes:
    """Column types that the user has set."""

    def test_a_type_is_set(self) -> None:
        """For a list, the type is that of its values; the metadata marks columns that the user has set."""
        schema = pa.schema([("code", pa.int64()), ("prices", pa.list_(pa.int64())), ("name", pa.string())])
        marked = {SET_BY_USER: b""}

        assert columns.with_types(schema, {"code": "text", "prices": "float"}).equals(
            pa.schema(
                [
                    pa.field("code", pa.string(), metadata=marked),
                    pa.field("prices", pa.list_(pa.float64()), metadata=marked),
                    ("name", pa.string()),
                ]
            ),
            check_metadata=True,
        )

    def test_an_unknown_column_is_reported_with_the_nearest_name(self) -> None:
        """A misspelt column is not ignored."""
        with pytest.raises(SettingsError, match=r"setting ingest.columns: no column 'cod' .* did you mean 'code'\?"):
            columns.with_types(texts("code"), {"cod": "text"})

    def test_the_type_of_a_tensor_cannot_be_set(self) -> None:
        """Only bytes are accepted."""
        with pytest.raises(SettingsError, match=r"'pixels' is a tensor of float32 28 x 28, expected bytes"):
            columns.with_types(pa.schema([TENSOR]), {"pixels": "int"})


class TestRecords:
    """Column names in records."""

    def test_every_record_has_an_id(self) -> None:
        """It is the last column."""
        assert columns.record_schema(texts("text")) == pa.schema([("text", pa.string()), ("id", pa.int64())])

    @pytest.mark.parametrize(
        ("names", "own"),
        [(["id"], "record_id"), (["record_id"], "id"), (["id", "record_id", "record_id_2"], "record_id_3")],
    )
    def test_a_column_of_the_user_is_never_replaced(self, names: list[str], own: str) -> None:
        """The record id gets the next free name."""
        assert columns.record_schema(texts(*names)).names == [*names, own]

    @pytest.mark.parametrize(
        ("names", "expected"),
        [
            (["path", "label"], ["image", "label", "id"]),
            (["label", "image"], ["label", "image", "id"]),
            (["path", "image"], ["path", "image", "id"]),
        ],
    )
    def test_images_replace_their_paths(self, names: list[str], expected: list[str]) -> None:
        """The column is called `image`, unless there is such a column."""
        images = "image" if names == ["label", "image"] else "path"

        assert columns.record_schema(texts(*names), images).names == expected


class TestText:
    """Finding the text column."""

    @pytest.mark.parametrize(
        ("schema", "setting", "others", "expected"),
        [
            (texts("author", "said"), ("said",), (), ("said",)),
            (texts("author", "Review"), (), (), ("Review",)),
            (texts("title", "body", "text"), (), (), ("text",)),
            (texts("said", n=pa.int64()), (), (), ("said",)),
            (texts("said", "label", "image"), (), ("label", "image"), ("said",)),
            (pa.schema([("said", pa.large_string()), ("n", pa.float64())]), (), (), ("said",)),
        ],
        ids=["setting", "usual name", "most usual name", "the only one", "not the label", "large strings"],
    )
    def test_it_is_found(
        self, schema: pa.Schema, setting: tuple[str, ...], others: tuple[str, ...], expected: tuple[str, ...]
    ) -> None:
        """By the setting, else by name, else as the only text column."""
        assert columns.text_columns(HERE, schema, setting, others, list) == expected

    @pytest.mark.parametrize(
        ("schema", "reason"),
        [
            (
                texts("author", "said"),
                ("2 candidates (author, said)", ", or join several: --set ingest.text=author,said"),
            ),
            (texts(n=pa.int64(), m=pa.float64()), ("none of n, m is text", "")),
        ],
        ids=["too many", "none"],
    )
    def test_an_ambiguous_text_column_is_an_error(self, schema: pa.Schema, reason: tuple[str, str]) -> None:
        """A17: the message has the setting, and that columns of free text can be joined."""
        with pytest.raises(BadInput) as error:
            columns.text_columns(HERE, schema, (), (), list)

        assert str(error.value) == (
            f"rows.csv: no column for the text: {reason[0]}; name it with --set ingest.text=COLUMN{reason[1]}"
        )

    def test_a_misspelt_column_is_reported(self) -> None:
        """The message has a suggestion."""
        with pytest.raises(SettingsError, match=r"ingest\.text: no column 'sayd' in the data; did you mean 'said'\?"):
            columns.text_columns(HERE, texts("author", "said"), ("said", "sayd"), (), list)


@pytest.fixture
def dates_of(tmp_path: Path) -> Callable[..., list[str]]:
    """Returns the date columns of a table."""

    def find(header: str, *rows: str, others: tuple[str, ...] = ()) -> list[str]:
        path = tmp_path / "rows.csv"
        path.write_text("\n".join([header, *rows, ""]))
        source = refs.load("components.ingest.sources.csv.csv_rows:SOURCE")
        return columns.date_columns(Sample(source, path, source.schema(path)), others)

    return find


class TestDates:
    """Columns whose first values are all dates."""

    def test_days_and_times_are_found(self, dates_of: Callable[..., list[str]]) -> None:
        """Values may be missing, and times may have a zone."""
        rows = ["2026-11-16,2026-11-16T08:30:00Z,a", ",2026-11-16 08:30,2026-11-16"]

        assert dates_of("day,moment,word", *rows) == ["day", "moment"]

    def test_one_other_value_makes_it_a_category(self, dates_of: Callable[..., list[str]]) -> None:
        """All values must be dates."""
        assert dates_of("day", "2026-11-16", "soon") == []

    def test_a_column_without_values_is_no_date(self, dates_of: Callable[..., list[str]]) -> None:
        """Its type is unknown."""
        assert dates_of("day,n", ",1", ",2") == []

    def test_columns_with_another_meaning_are_no_dates(self, dates_of: Callable[..., list[str]]) -> None:
        """A label of dates is a class name."""
        assert dates_of("day,label", "2026-11-16,2026-11-16", others=("label",)) == ["day"]

    def test_only_ascii_digits_make_a_date(self) -> None:
        """TensorFlow reads 0 to 9 only; Python's int() reads these digits too."""
        assert not columns.are_dates(pa.array(["٢٠٢٦-١١-١٦"]))


def test_meanings_are_stored_in_the_metadata() -> None:
    """Other metadata is kept."""
    known = pa.schema([pa.field("said", pa.string(), metadata={b"set": b"1"}), ("day", pa.string()), ("n", pa.int64())])
    found = columns.with_meanings(known, ["said"], ["day"])

    assert {field.name: columns.meaning_of(field) for field in found} == {"said": "text", "day": "date", "n": ""}
    assert found.field("said").metadata == {b"set": b"1", b"meaning": b"text"}


class TestUnused:
    """Columns that models do not use."""

    def test_they_are_marked(self) -> None:
        """Columns of any type can be unused."""
        known = texts("customer", "kind", n=pa.int64())
        unused = columns.unused_columns(known, ["customer", "n"], {"kind"})
        found = columns.with_meanings(known, [], [], unused)

        assert {field.name: columns.meaning_of(field) for field in found} == {
            "customer": "unused",
            "kind": "",
            "n": "unused",
        }

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("kind", "setting ingest.unused: the model needs 'kind'; remove it from the list"),
            ("costumer", "setting ingest.unused: no column 'costumer' in the data; did you mean 'customer'?"),
        ],
    )
    def test_a_needed_or_unknown_column_is_rejected(self, name: str, message: str) -> None:
        """The message has the setting."""
        with pytest.raises(SettingsError) as error:
            columns.unused_columns(texts("customer", "kind"), [name], {"kind"})

        assert str(error.value) == message


def test_without_meanings_the_schema_is_unchanged() -> None:
    """No metadata is added."""
    known = texts("kind", n=pa.int64())

    assert columns.with_meanings(known, [], []).equals(known, check_metadata=True)


def test_columns_are_described() -> None:
    """Types have the names of the settings; notes have dtype and shape of tensors, label and image paths."""
    schema = pa.schema(
        [
            ("age", pa.int64()),
            ("share", pa.float32()),
            ("words", pa.list_(pa.string())),
            ("ok", pa.bool_()),
            ("raw", pa.binary()),
            TENSOR,
            ("file", pa.string()),
            ("class", pa.string()),
        ]
    )

    assert columns.describe(schema, "class", "file") == [
        ("age", "int", ""),
        ("share", "float", ""),
        ("words", "list of text", ""),
        ("ok", "bool", ""),
        ("raw", "bytes", ""),
        ("pixels", "tensor", "float32 28 x 28"),
        ("file", "text", "image paths"),
        ("class", "text", "label"),
    ]
