"""A task's parts take the columns of their roles; the features and encodings of all of them make one model."""

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
LEFT_OUT = Column("many", "unused", "float32")


def layout(*columns: Column) -> Layout:
    """Returns what the data has."""
    return Layout("label", "class", columns)


def test_each_part_takes_the_columns_of_its_roles() -> None:
    """In the order of the schema; what is unused goes to nobody."""
    found = assign.assign(tasks.get("multimodal").parts, layout(SIZE, IMAGE, KIND, SAID, LEFT_OUT, DAY))

    assert found == (
        Assigned(shipped.IMAGE, (IMAGE,)),
        Assigned(shipped.TEXT, (SAID,)),
        Assigned(shipped.TABLE, (SIZE, KIND, DAY)),
    )


def test_a_part_without_columns_is_left_out() -> None:
    """An image and a text without numbers are a multimodal task too."""
    found = assign.assign(tasks.get("multimodal").parts, layout(IMAGE, SAID))

    assert [each.part for each in found] == [shipped.IMAGE, shipped.TEXT]


def test_without_any_column_there_is_nothing_to_learn_from() -> None:
    """The message has what was expected, and what there is."""
    with pytest.raises(SettingsError) as refused:
        assign.assign(tasks.get("tabular").parts, layout(SAID, LEFT_OUT))

    assert str(refused.value) == (
        "no column to learn from: expected one of number, category, date; "
        "the schema's columns: said (text), many (unused)"
    )


def test_parts_travel_as_plain_values() -> None:
    """Through JSON, as a node's custom_config does."""
    found = assign.assign(tasks.get("multimodal").parts, layout(SIZE, IMAGE, SAID))
    told = orjson.loads(orjson.dumps([each.to_dict() for each in found]))

    assert assign.read(told) == found


@pytest.mark.parametrize("name", NAMES)
def test_every_reference_of_a_task_can_be_loaded(name: str) -> None:
    """Sources, fits, features, encoders and the model: a misspelt one would be found by the first run only."""
    from components import refs

    task = tasks.get(name)
    for ref in (*task.sources, *task.fits, *task.features, *task.encoders, task.model):
        assert refs.load(ref) is not None


def test_what_two_tasks_share_is_one_object() -> None:
    """No task has a part of its own that does what another's does."""
    encoders: dict[str, set[Part]] = {}
    for name in NAMES:
        for part in tasks.get(name).parts:
            encoders.setdefault(part.encoder, set()).add(part)

    assert {encoder: len(made) for encoder, made in encoders.items()} == dict.fromkeys(encoders, 1)
