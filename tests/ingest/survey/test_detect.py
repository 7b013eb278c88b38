"""Finding the files and the source of a path, folder or pattern."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from components.errors import BadInput, SettingsError
from components.ingest.survey.detect import IMAGE_FOLDER, TEXT_FOLDER, Located, locate

CSV = "components.ingest.sources.csv.csv_rows:SOURCE"
TFRECORD = "components.ingest.sources.tfrecord_rows:SOURCE"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with tables, one of them in a sub-folder, and hidden files."""
    for name in ("b.csv", "a.csv.gz", "old/c.CSV", ".hidden.csv", "_SUCCESS", ".git/x.csv"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text("x\n1\n")
    return tmp_path / "data"


def test_all_files_of_a_folder_are_found(data: Path) -> None:
    """Tables are sorted and found at any depth; hidden files and markers are not data."""
    assert locate(str(data)) == Located(data, ("a.csv.gz", "b.csv", "old/c.CSV"), CSV)


def test_a_file_is_found_alone(data: Path) -> None:
    """Files beside it are ignored."""
    assert locate(str(data / "b.csv")) == Located(data, ("b.csv",), CSV)


def test_a_pattern_selects_files(data: Path) -> None:
    """Paths are relative to the folder before the first wildcard."""
    assert locate(str(data / "*.csv")) == Located(data, ("b.csv",), CSV)


def test_shards_of_tfx_are_found_by_name(tmp_path: Path) -> None:
    """Their names have no suffix."""
    (tmp_path / "data_tfrecord-00000-of-00001.gz").write_bytes(b"")

    assert locate(str(tmp_path)).source == TFRECORD


def test_files_without_rows_are_class_folders_of_images(tmp_path: Path) -> None:
    """A folder without tables is a folder of classes."""
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.jpg").write_bytes(b"")

    assert locate(str(tmp_path)) == Located(tmp_path, (), IMAGE_FOLDER)


def test_several_formats_are_rejected(data: Path) -> None:
    """The message says how to select one."""
    (data / "d.jsonl").write_text("{}")
    with pytest.raises(SettingsError) as error:
        locate(str(data))

    assert str(error.value) == (
        f"{data}: files of several formats (.CSV, .csv, .gz, .jsonl); select one with a pattern, such as '*.csv'"
    )


@pytest.mark.parametrize("name", ["none", "none/*.csv", "*.parquet"])
def test_no_file_is_an_error(data: Path, name: str) -> None:
    """A3: a missing path, and a pattern without a match, is 0 examples."""
    with pytest.raises(BadInput, match="0 examples"):
        locate(str(data / name))


def test_links_that_lead_outside_are_not_followed(data: Path, tmp_path: Path) -> None:
    """D4: only files inside the folder are data."""
    (tmp_path / "secret.csv").write_text("x\n1\n")
    (data / "link.csv").symlink_to(tmp_path / "secret.csv")

    located = locate(str(data))

    assert "link.csv" not in located.files
    assert located.links_outside == ("link.csv",)


@pytest.mark.parametrize("name", ["notes.txt", "*.txt"])
def test_an_unsupported_file_is_rejected(data: Path, name: str) -> None:
    """Its folder is not read as images instead."""
    (data / "notes.txt").write_text("x")

    with pytest.raises(BadInput, match=r"unsupported file notes\.txt; expected class"):
        locate(str(data / name))


def test_class_folders_of_texts_and_of_images(tmp_path: Path) -> None:
    """File extensions decide; a caption beside an image does not make a folder of texts."""
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "1.txt").write_text("x")
    texts = locate(str(tmp_path)).source
    (tmp_path / "good" / "1.jpg").write_bytes(b"x")

    assert (texts, locate(str(tmp_path)).source) == (TEXT_FOLDER, IMAGE_FOLDER)


def test_images_beside_a_table_are_not_data(tmp_path: Path) -> None:
    """Rows of the table refer to them."""
    (tmp_path / "list.csv").write_text("path,label\nimages/1.jpg,cat\n")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").write_bytes(b"x")

    assert locate(str(tmp_path)) == Located(tmp_path, ("list.csv",), CSV)


def test_a_source_that_the_task_cannot_use_is_rejected(data: Path) -> None:
    """The message has what was found and what was expected."""
    with pytest.raises(BadInput) as error:
        locate(str(data / "b.csv"), [IMAGE_FOLDER])

    assert str(error.value) == f"{data}/b.csv: holds CSV; expected class folders of images"


@pytest.mark.parametrize("pattern", ["", "**/*.csv", "*/*.csv", "closed/*.csv", "closed/b.csv"])
def test_a_sub_folder_that_may_not_be_listed(
    open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]], pattern: str
) -> None:
    """B9: it stops the run by name, wherever a folder or pattern reaches it; its rows are not left out silently."""
    for name in ("a.csv", "open/a.csv", "closed/b.csv"):
        (open_folder / name).parent.mkdir(exist_ok=True)
        (open_folder / name).write_text("x\n1\n")
    (open_folder / "closed").chmod(0)
    with without_rights(), pytest.raises(BadInput) as error:
        locate(str(open_folder / pattern))

    place = open_folder / (pattern if pattern.startswith("closed") else "closed")
    assert str(error.value) == f"{place}: cannot be listed: Permission denied; check its permissions"


def test_a_pattern_does_not_need_folders_that_it_does_not_match(
    open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
) -> None:
    """B9: a closed folder beside the data, and a hidden one, are no reason to stop."""
    for name in ("day-1/a.csv", "private/b.csv", "day-1/.cache/c.csv"):
        (open_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (open_folder / name).write_text("x\n1\n")
    (open_folder / "private").chmod(0)
    (open_folder / "day-1" / ".cache").chmod(0)
    with without_rights():
        assert locate(f"{open_folder}/day-*/**/*.csv").files == ("day-1/a.csv",)
