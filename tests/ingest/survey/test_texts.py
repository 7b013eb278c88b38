"""A17: several text columns are joined into one, before they are written."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from components.errors import SettingsError
from components.ingest.config import Needs
from components.ingest.sources.rows import Sample
from components.ingest.survey import survey, texts
from components.ingest.survey.survey import Table
from components.settings.ingest import Ingest
from components.storage.hashing import HashCache

NEEDS = Needs(label="label", roles=("text",))


def table_of(path: Path, needs: Needs = NEEDS, **settings: object) -> Table:
    """Returns the columns that the survey finds."""
    found = survey.take(str(path), Ingest.model_validate(settings), HashCache(None), needs).table
    assert found is not None
    return found


@pytest.fixture
def news(tmp_path: Path) -> Path:
    """News with two texts, of which some are missing or empty."""
    rows = [
        {"kind": "a", "title": "T1", "n": 1, "body": "B1"},
        {"kind": "b", "title": None, "n": 2, "body": "B2"},
        {"kind": "a", "title": "T3", "n": 3, "body": ""},
        {"kind": "b", "title": None, "n": 4, "body": None},
    ]
    path = tmp_path / "news.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_texts_are_joined_in_the_order_of_the_setting(news: Path) -> None:
    """A17: the parts are left out of the record; a missing or empty text has no separator."""
    table = table_of(news, label="kind", text="title,body", text_separator=" | ")

    assert Sample(table.source, news, table.schema).rows.to_pylist() == [
        {"label": "a", "n": 1, "title_body": "T1 | B1"},
        {"label": "b", "n": 2, "title_body": "B2"},
        {"label": "a", "n": 3, "title_body": "T3"},
        {"label": "b", "n": 4, "title_body": ""},
    ]
    assert table.notes == ()


def test_the_default_separator_is_a_line_end(news: Path) -> None:
    """A17: so the parts stay apart for every tokenizer."""
    table = table_of(news, label="kind", text=("body", "title"))

    assert Sample(table.source, news, table.schema).rows.column(2)[0].as_py() == "B1\nT1"


def test_other_text_columns_are_named(news: Path) -> None:
    """A17: the user sees which column is not the text, in the order of the file; ids and categories are no texts."""
    rows = [{"k": "a", "id": f"id {n}", "channel": "web shop", "title": f"A title {n}", "body": "B"} for n in range(9)]
    news.write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert table_of(news, label="k").notes == (
        "text read from body, not from title; --set ingest.text=title,body joins columns, ingest.unused drops them",
    )
    assert table_of(news, label="k", unused="title").notes == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("title,n", "column 'n' is int64, expected text (--set ingest.columns.n=text)"),
        ("title,kind", "column 'kind' has another use"),
        ("title,bodi", "no column 'bodi' in the data; did you mean 'body'?"),
    ],
)
def test_columns_that_are_no_text_are_rejected(news: Path, text: str, reason: str) -> None:
    """A17: numbers, the label, and names that do not exist."""
    with pytest.raises(SettingsError) as error:
        table_of(news, label="kind", text=text)

    assert str(error.value) == f"setting ingest.text: {reason}"


def test_texts_and_bytes_are_joined_as_bytes() -> None:
    """A17: TFRecords hold bytes."""
    fields = (pa.field("a", pa.binary()), pa.field("b", pa.string()))
    joined = texts.JoinedTexts(inner=None, fields=fields, separator="-")  # type: ignore[arg-type]

    assert joined._join([pa.array([b"\xff", None]), pa.array(["x", "y"])]).to_pylist() == [b"\xff-x", b"y"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": "title,title"}, "setting ingest.text: column 'title' occurs twice; name each column once"),
        (
            {"text": "title,body", "split_by": "title"},
            (
                "setting ingest.split_by: column 'title' is joined into 'title_body' by ingest.text=title,body; "
                "name a column that is not joined"
            ),
        ),
        (
            {"text": "title,kind"},
            (
                "setting ingest.text: title, kind would be joined into the column 'title_kind', which the data has "
                "already; rename that column, or name the columns in another order"
            ),
        ),
    ],
    ids=["twice", "split", "existing"],
)
def test_columns_that_cannot_be_joined(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    """A17: the message names the column and what to do."""
    path = tmp_path / "a.csv"
    path.write_text("label,title,kind,title_kind,body\nx,one,a,b,two\ny,three,a,b,four\n")

    with pytest.raises(SettingsError) as error:
        table_of(path, **settings)

    assert str(error.value) == message
