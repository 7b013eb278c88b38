"""A remote listing is sorted into class folders one folder at a time, with the same result as name by name."""

import itertools
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import BadInput
from components.ingest.sources import Found, class_folders, image_folder, text_folder
from components.storage.entries import Entries
from components.storage.objects import ObjectPath
from components.storage.paths import DataPath
from components.storage.uri_path import RemoteStat

PARTS = [["", "a/", "a-b/", ".h/", "b/", " /"], ["", "x/", ".y/", "_z/"], ["1.jpg", ".2.jpg", "3.txt", "4"]]
NAMES = ["".join(parts) for parts in itertools.product(*PARTS)]


def found(data: DataPath, rules: class_folders.FolderRules, entries: Entries | None = None) -> Found | str:
    """Returns what was found, or why nothing was."""
    try:
        listed = class_folders.find(data, rules, entries)
    except BadInput as error:
        return str(error).replace(str(data), "DATA")
    assert entries is None or list((listed.entries or Entries()).names) == [file.path for file in listed.files]
    return Found(list(listed.files), listed.quarantined, listed.ignored)


@settings(max_examples=60)
@given(names=st.sets(st.sampled_from(NAMES), min_size=1), texts=st.booleans())
def test_files_are_those_of_a_local_folder(names: set[str], texts: bool) -> None:
    """With the same classes, quarantined and ignored files: plain folders, hidden ones, files beside them."""
    rules = text_folder._RULES if texts else image_folder._RULES
    entries = Entries()
    entries.extend(sorted(names), [RemoteStat(1, 1, "e")] * len(names))
    with tempfile.TemporaryDirectory() as home:
        for name in names:
            path = Path(home, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")

        assert found(ObjectPath("s3://bucket/data"), rules, entries) == found(Path(home), rules)


def test_runs_of_any_length_are_those_of_the_outermost_folders() -> None:
    """Short and long ones, and files beside them."""
    lengths = [1, 2, 3, 4, 7, 8, 9, 1000, 1]
    names = sorted(["file", *(f"c{at}/{number}" for at, length in enumerate(lengths) for number in range(length))])
    entries = Entries()
    entries.extend(names, [RemoteStat(1, 1, "e")] * len(names))
    ends = list(itertools.accumulate([*lengths, 1], initial=0))

    assert list(class_folders._runs(entries.names)) == list(itertools.pairwise(ends))
