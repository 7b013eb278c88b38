"""A survey is used again only while the data has the same files with the same content."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.ingest.survey import cached
from components.ingest.survey.survey import Survey
from components.settings.ingest import Ingest
from components.storage.hashing import HashCache

LONG_AGO = 1_000_000_000


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    """No survey of another test is known."""
    cached.forget()
    yield
    cached.forget()


def age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the files that were just written count as settled, without waiting for the clock."""
    monkeypatch.setattr("components.storage.hashing._SETTLED_NS", -LONG_AGO)


@pytest.fixture
def table(tmp_path: Path, image: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of rows that refer to images."""
    age(monkeypatch)
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.png").write_bytes(image(number))
    for number in range(2):
        (folder / f"{number}.csv").write_text(f"file,label\n{number}.png,x\n{number + 2}.png,y\n")
    return folder


@pytest.fixture
def folders(tmp_path: Path, image: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images in class folders."""
    age(monkeypatch)
    folder = tmp_path / "data"
    for number in range(4):
        (folder / f"class {number % 2}").mkdir(parents=True, exist_ok=True)
        (folder / f"class {number % 2}" / f"{number}.png").write_bytes(image(number))
    return folder


def take(data: Path, **settings: object) -> Survey:
    """Returns the survey of a folder."""
    cache = HashCache(None)
    try:
        return cached.take(str(data), Ingest(**settings), cache)
    finally:
        cache.close()


def test_unchanged_data_is_surveyed_once(folders: Path) -> None:
    """Planner, driver and executor get the very same object."""
    assert take(folders) is take(folders)


def test_unchanged_rows_are_surveyed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows without images are described by the files that hold them."""
    age(monkeypatch)
    (tmp_path / "rows.csv").write_text("size,label\n1,x\n2,y\n")

    assert take(tmp_path) is take(tmp_path)


def test_an_image_that_appears_is_noticed(table: Path) -> None:
    """Rows may refer to images that are still being copied: no listing of the known files shows them."""
    (late := table / "3.png").rename(table.parent / "3.png")
    before = take(table).digest
    (table.parent / "3.png").rename(late)

    assert take(table).digest != before


def test_other_settings_are_another_survey(table: Path) -> None:
    """They decide which columns there are."""
    assert take(table) is not take(table, label="label")


def test_a_forgotten_survey_is_taken_again(table: Path) -> None:
    """With the same result."""
    first = take(table)
    cached.forget()
    second = take(table)

    assert (second is first, second.digest) == (False, first.digest)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: (data / "1.csv").write_text("file,label\n2.png,z\n"),
        lambda data: (data / "2.csv").write_text("file,label\n2.png,z\n"),
        lambda data: (data / "1.csv").unlink(),
        lambda data: (data / "2.png").write_bytes(b"no image"),
        lambda data: (data / "2.png").unlink(),
    ],
    ids=["altered", "added", "removed", "altered image", "removed image"],
)
def test_a_changed_table_is_surveyed_again(table: Path, change: Callable[[Path], None]) -> None:
    """The images that rows refer to count as data."""
    before = take(table).digest
    change(table)

    assert take(table).digest != before


@pytest.mark.parametrize(
    "change",
    [
        lambda data: (data / "class 0" / "0.png").write_bytes(b"no image"),
        lambda data: (data / "class 0" / "9.png").write_bytes(b"no image"),
        lambda data: (data / "class 0" / "0.png").rename(data / "class 1" / "0.png"),
        lambda data: (data / "class 0" / "out.png").symlink_to("/etc/hostname"),
    ],
    ids=["altered", "added", "moved", "link out of the folder"],
)
def test_changed_class_folders_are_surveyed_again(folders: Path, change: Callable[[Path], None]) -> None:
    """Also if only what is quarantined is another."""
    before = take(folders).digest
    change(folders)

    assert take(folders).digest != before


def test_the_old_time_does_not_hide_a_change(folders: Path) -> None:
    """The stat holds the time of the change itself, which no one can set."""
    victim = folders / "class 0" / "0.png"
    before, stat = take(folders).digest, victim.stat()
    victim.write_bytes(bytes(stat.st_size))
    os.utime(victim, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    assert take(folders).digest != before


def test_files_that_were_just_written_are_hashed_again(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions that were written within one tick of the clock have the same stat."""
    monkeypatch.setattr("components.storage.hashing._SETTLED_NS", LONG_AGO * 1000)
    first, second = take(folders), take(folders)

    assert (second is first, second.digest) == (False, first.digest)
