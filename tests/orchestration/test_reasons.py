"""The reason of a node whose data or settings changed."""

import pytest

from pipelines.orchestration.reasons import data_difference, difference


class TestDataDifference:
    """How two sets of files differ."""

    @pytest.mark.parametrize(
        ("old", "new", "text"),
        [
            ({"a": "1"}, {"a": "1"}, "data changed"),
            ({"a": "1"}, {"b": "1"}, "data changed: 1 moved (a to b)"),
            ({"a": "1"}, {"a": "2"}, "data changed: 1 altered (a)"),
            ({"a": "1"}, {"a": "1", "c": "3", "b": "2"}, "data changed: 2 added (b)"),
            ({"a": "1", "c": "3", "b": "2"}, {"a": "1"}, "data changed: 2 removed (b)"),
            ({"a": "1"}, {"a": "1", "b": "1"}, "data changed: 1 added (b)"),
            ({"a": "1", "b": "1"}, {"a": "1"}, "data changed: 1 removed (b)"),
            (
                {"a": "1", "b": "2", "c": "3", "d": "4"},
                {"e": "1", "b": "9", "c": "3", "f": "5"},
                "data changed: 1 moved (a to e), 1 altered (b), 1 added (f), 1 removed (d)",
            ),
            ({"a": "1", "b": "2"}, {"a": "2", "b": "1"}, "data changed: 2 altered (a)"),
            (
                {f"cats/{index}": str(index) for index in range(1_200)},
                {f"dogs/{index}": str(index) for index in range(1_200)},
                "data changed: 1,200 moved (cats/0 to dogs/0)",
            ),
            (
                {"cats/1": "1", "cats/2": "1"},
                {"dogs/1": "1", "dogs/2": "1"},
                "data changed: 2 moved (cats/1 to dogs/1)",
            ),
        ],
    )
    def test_every_kind_of_change_is_counted_with_an_example(
        self, old: dict[str, str], new: dict[str, str], text: str
    ) -> None:
        """Moved files first, then altered, added and removed ones."""
        assert data_difference(old, new) == text


def test_several_changed_settings_are_counted() -> None:
    """The first one is named."""
    old = {"settings": {"train": {"epochs": 3, "seed": 1}}}
    new = {"settings": {"train": {"epochs": 4, "seed": 2}}, "code": {}, "packages": {}, "upstream": {}}

    assert difference(old, new) == "setting train.epochs changed: 3 to 4 and 1 more"
