"""Parts take the columns of their roles."""

import orjson
import pytest

from components import tasks
from components.errors import SettingsError
from components.records.roles import Column, Layout
from components.tasks import NAMES, Part, assign
from components.tasks import parts as shipped
from components.tasks.assign import Assigned

IMAGE, SAID = Column("image", "image", "string"), Column("said", "text", "string")
SIZE, DAY, KIND = (
    Column("size", "number", "float32"), Column("day", "date", "string"), Column("kind", "category", "string"),
)  # fmt: skip
UNUSED = Column("many", "unused", "float32")


def layout(*columns: Column) -> Layout:
    """Returns a layout with these columns."""
    return Layout("label", "class", columns)


def test_each_part_takes_the_columns_of_its_roles() -> None:
    """In the order of the schema; no part takes unused columns."""
    found = assign.assign(tasks.get("multimodal").parts, layout(SIZE, IMAGE, KIND, SAID, UNUSED, DAY))

    assert found == (
        Assigned(shipped.IMAGE, (IMAGE,)),
        Assigned(shipped.TEXT, (SAID,)),
        Assigned(shipped.TABLE, (SIZE, KIND, DAY)),
    )


def test_a_part_without_columns_is_skipped() -> None:
    """A multimodal task does not need numbers."""
    found = assign.assign(tasks.get("multimodal").parts, layout(IMAGE, SAID))

    assert [each.part for each in found] == [shipped.IMAGE, shipped.TEXT]


def test_data_without_a_matching_column_is_rejected() -> None:
    """The message has the expected roles and the columns of the schema."""
    with pytest.raises(SettingsError) as error:
        assign.assign(tasks.get("tabular").parts, layout(SAID, UNUSED))

    assert str(error.value) == (
        "no column to learn from; expected one with the role number or category or date; "
        "the schema has said (text), many (unused)"
    )


def test_assigned_parts_survive_json() -> None:
    """As in a node's custom_config."""
    found = assign.assign(tasks.get("multimodal").parts, layout(SIZE, IMAGE, SAID))
    values = orjson.loads(orjson.dumps([each.to_dict() for each in found]))

    assert assign.read(values) == found


@pytest.mark.parametrize("name", NAMES)
def test_every_reference_of_a_task_can_be_loaded(name: str) -> None:
    """Sources, fits, features, encoders and the model; a misspelled one would fail only in a run."""
    from components import refs

    task = tasks.get(name)
    for ref in (*task.sources, *task.fits, *task.features, *task.encoders, task.model):
        assert refs.load(ref) is not None


def test_tasks_share_their_parts() -> None:
    """No encoder is used by two different parts."""
    encoders: dict[str, set[Part]] = {}
    for name in NAMES:
        for part in tasks.get(name).parts:
            encoders.setdefault(part.encoder, set()).add(part)

    assert {encoder: len(made) for encoder, made in encoders.items()} == dict.fromkeys(encoders, 1)
