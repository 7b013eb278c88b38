"""Promise A6: ids and unused columns do not identify a record."""

import uuid
from pathlib import Path
from typing import Any

import orjson
import pytest

from components.errors import BadInput, SettingsError
from components.ingest.config import Needs
from components.ingest.survey import identity, survey
from components.settings.ingest import Ingest
from components.storage.hashing import HashCache

ROWS = 12
TEXTS = [f"a text, number {number % 5}" for number in range(ROWS)]
UUIDS = [str(uuid.UUID(int=number << 64)) for number in range(ROWS)]


def left_out(
    folder: Path,
    columns: dict[str, list[Any]],
    unused: tuple[str, ...] = (),
    needs: Needs = Needs(),  # noqa: B008 - frozen
) -> list[str]:
    """Returns the columns of a table that do not identify its records."""
    path = folder / "a.jsonl"
    columns = {**columns, "label": ["x", "y"] * (ROWS // 2)}
    rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    table = survey.take(str(path), Ingest(unused=unused), HashCache(None), needs).table
    assert table is not None
    return identity.left_out(table.schema, table.label)


@pytest.mark.parametrize("name", ["id", "ID", "user_id", "PassengerId", "key", "review-uuid", "index", "Unnamed: 0"])
@pytest.mark.parametrize("values", [list(range(0, 3 * ROWS, 3)), [f"k{number}" for number in range(ROWS)]])
def test_a_column_named_like_an_id_is_left_out(name: str, values: list[Any], tmp_path: Path) -> None:
    """A6: integers and short strings, if no two are equal."""
    assert left_out(tmp_path, {"text": TEXTS, name: values}) == [name]


@pytest.mark.parametrize(
    "columns",
    [
        {"user_id": [number % 5 for number in range(ROWS)]},  # repeated
        {"user_id": [None, *range(ROWS - 1)]},  # missing
        {"id": [number / 7 for number in range(ROWS)]},  # a quantity
        {"key": [f"{number}" * 100 for number in range(ROWS)]},  # long
        {"paid": list(range(0, 3 * ROWS, 3))},
        {"age": list(range(ROWS))},
        {"note": [f"n{number}" for number in range(ROWS)]},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_other_columns_identify_the_record(columns: dict[str, Any], tmp_path: Path) -> None:
    """A6: whatever their values are."""
    assert left_out(tmp_path, {"text": TEXTS, **columns}) == []


def test_uuids_are_left_out(tmp_path: Path) -> None:
    """A6: whatever the name of the column is."""
    assert left_out(tmp_path, {"text": TEXTS, "ref": UUIDS}) == ["ref"]


def test_a_first_column_that_counts_up_identifies_the_record(tmp_path: Path) -> None:
    """A6: a month may be a feature; only a name or UUIDs show an id."""
    assert left_out(tmp_path, {"month": list(range(ROWS)), "text": TEXTS}) == []


@pytest.mark.parametrize("sexes", [["f", "m"], [["f"], ["m"]], [None, 1.5]], ids=["text", "list", "number"])
def test_ids_take_part_where_the_other_columns_have_few_contents(sexes: list[Any], tmp_path: Path) -> None:
    """A6: else all records of one content would go to one split, and a split might be empty."""
    columns = {"user_id": list(range(ROWS)), "sex": sexes * (ROWS // 2), "smoker": ["yes"] * ROWS}

    assert left_out(tmp_path, columns) == []
    assert left_out(tmp_path, {**columns, "age": list(range(20, 20 + ROWS))}) == ["user_id"]


def test_unused_columns_are_left_out(tmp_path: Path) -> None:
    """A6: as the user sets them."""
    assert left_out(tmp_path, {"text": TEXTS, "source": ["web"] * ROWS}, unused=("source",)) == ["source"]


def test_the_only_feature_identifies_the_record(tmp_path: Path) -> None:
    """A6: even if it looks like an id."""
    assert left_out(tmp_path, {"id": list(range(ROWS)), "ref": UUIDS}) == []


def test_the_text_column_identifies_the_record(tmp_path: Path) -> None:
    """A6: even if all texts are UUIDs."""
    needs = Needs(label="label", roles=("text",))

    assert left_out(tmp_path, {"text": UUIDS, "place": ["a"] * ROWS}, needs=needs) == []


@pytest.mark.parametrize(
    ("inputs", "unused", "expected"),
    [
        (
            ("number", "category"),
            ("fare",),
            (
                "trip_id, rider_id look like ids and are inputs of the model; "
                "--set ingest.unused=fare,trip_id,rider_id leaves them out"
            ),
        ),
        (
            ("number",),
            ("rider_id",),
            "trip_id looks like an id and is an input of the model; --set ingest.unused=rider_id,trip_id leaves it out",
        ),
        (("text",), (), ""),
        (("number", "category"), ("trip_id", "rider_id"), ""),
    ],
)
def test_an_id_that_the_model_reads_is_warned_of(
    inputs: tuple[str, ...], unused: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    """A17: the served model would require it; a task that reads other columns gives no warning."""
    path = tmp_path / "a.jsonl"
    rows = [{"trip_id": 3 * n, "rider_id": f"r{n}", "fare": n % 4, "label": "xy"[n % 2]} for n in range(ROWS)]
    path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    table = survey.take(str(path), Ingest(unused=unused), HashCache(None), Needs(label="label", inputs=inputs)).table

    assert table is not None
    assert table.warnings == tuple(filter(None, [expected]))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"label": "class"},
            SettingsError,
            (
                "setting ingest.label: no column 'class' in the data; known: column_1, column_2 (first line of a.csv "
                "read as data: '1' is a number like those below it in column 1; --set ingest.header=yes reads it as "
                "column names, ingest.names names the columns)"
            ),
        ),
        (
            {"header": "yes"},
            BadInput,
            (
                "{path}: no column for the label among 1, x (first line of a.csv read as column names because of "
                "ingest.header = yes, but it looks like data: '1' is a number like those below it in column 1; "
                "--set ingest.header=no reads it as data); name it with --set ingest.label=COLUMN"
            ),
        ),
    ],
)
def test_a_missing_label_column_comes_with_the_decision_on_the_first_line(
    settings: dict[str, str], error: type[Exception], message: str, tmp_path: Path
) -> None:
    """A17: the user sees why there is no such column."""
    path = tmp_path / "a.csv"
    path.write_text("1,x\n2,y\n")

    with pytest.raises(error) as raised:
        survey.take(str(path), Ingest.model_validate(settings), HashCache(None), Needs(label="label"))
    assert str(raised.value) == message.format(path=path)
