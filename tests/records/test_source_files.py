"""The list of source files is read back as it was written, in parts."""

from pathlib import Path

import pytest

from components.records import source_files

ROWS = [("cats/1.jpg", 20, "a1"), ("cats/caf\\xe9.jpg", 0, "stat 0:7:7:1"), ("dogs/2.jpg", 1 << 40, "a2")]


def test_files_are_read_back_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part has a bounded number of files."""
    monkeypatch.setattr(source_files, "_ROWS", 2)
    source_files.write(tmp_path, *zip(*ROWS, strict=True))

    assert list(source_files.read(tmp_path, 3)) == ROWS
    assert sorted(path.name for path in (tmp_path / "sources").iterdir()) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]


def test_an_artifact_of_an_earlier_version_has_no_list(tmp_path: Path) -> None:
    """The plan then says that the data has changed, not which files."""
    with pytest.raises(FileNotFoundError, match="no list of source files; the artifact is from an earlier version"):
        list(source_files.read(tmp_path, 3))


def test_what_an_earlier_try_left_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are removed, and unfinished files have other names."""
    monkeypatch.setattr(source_files, "_ROWS", 1)
    source_files.write(tmp_path, *zip(*ROWS, strict=True))
    source_files.write(tmp_path, *zip(*ROWS[:1], strict=True))
    (tmp_path / "sources" / ".part-00001.parquet.tmp").write_bytes(b"PAR1")

    assert list(source_files.read(tmp_path, 1)) == ROWS[:1]


def test_a_list_without_some_of_the_files_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest has their number."""
    monkeypatch.setattr(source_files, "_ROWS", 1)
    source_files.write(tmp_path, *zip(*ROWS, strict=True))
    (tmp_path / "sources" / "part-00002.parquet").unlink()

    with pytest.raises(ValueError, match="2 source files, but the manifest has 3; ingest the data again"):
        list(source_files.read(tmp_path, 3))
