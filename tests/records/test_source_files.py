"""The list of source files is read back as it was written, in parts."""

from pathlib import Path

import pytest

from components.records import source_files

ROWS = [("cats/1.jpg", 20, "a1"), ("cats/caf\\xe9.jpg", 0, "stat 0:7:7:1"), ("dogs/2.jpg", 1 << 40, "a2")]


def test_files_are_read_back_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part has a bounded number of files."""
    monkeypatch.setattr(source_files, "_ROWS", 2)
    source_files.write(tmp_path, iter(ROWS))

    assert list(source_files.read(tmp_path)) == ROWS
    assert sorted(path.name for path in (tmp_path / "sources").iterdir()) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]


def test_an_artifact_of_an_earlier_version_has_no_list(tmp_path: Path) -> None:
    """The plan then says that the data has changed, not which files."""
    with pytest.raises(FileNotFoundError, match="no list of source files; the artifact is from an earlier version"):
        list(source_files.read(tmp_path))
