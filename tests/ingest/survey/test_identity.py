"""Promise A6: ids and unused columns do not identify a record."""

import uuid
from pathlib import Path
from typing import Any

import orjson
import pytest

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
