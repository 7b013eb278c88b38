"""Facts that are read from the artifacts of a run."""

from pathlib import Path

import pytest

from components.records import manifest
from components.records.manifest import Manifest
from pipelines.report import gather


@pytest.mark.parametrize(
    ("classes", "label", "source", "expected"),
    [
        ({"train": {"a": 1, "b": 2}}, "label", "kind", "kind: classification in 2 classes"),
        ({"train": {}}, "label", "price", "price: regression"),
        ({"train": {"a": 1, "b": 2}}, "label", "", "names of the folders: classification in 2 classes"),
        ({"train": {}}, "", "", ""),
    ],
)
def test_label_and_notes_come_from_the_manifest(
    classes: dict[str, dict[str, int]], label: str, source: str, expected: str, tmp_path: Path
) -> None:
    """A17: the column has the name that it has in the data."""
    made = Manifest("", 3, (), (), classes, 0, {}, 0, (), label, source, ("first line read as data",))
    manifest.write(tmp_path, made, ())

    stored = manifest.read(tmp_path)

    assert (stored, gather._label(stored)) == (made, expected)
