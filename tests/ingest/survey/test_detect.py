"""What the user names is found and handed to the source that reads it."""

from pathlib import Path

import pytest

from components.errors import BadInput, SettingsError
from components.ingest.survey.detect import IMAGE_FOLDER, TEXT_FOLDER, Located, locate

CSV = "components.ingest.sources.csv_rows:SOURCE"
TFRECORD = "components.ingest.sources.tfrecord_rows:SOURCE"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with tables, one of them further down, and what is no data."""
    for name in ("b.csv", "a.csv.gz", "old/c.CSV", ".hidden.csv", "_SUCCESS", ".git/x.csv"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text("x\n1\n")
    return tmp_path / "data"


def test_a_folder_is_read_whole(data: Path) -> None:
    """All its tables in order, however deep; hidden files and marks are not data."""
    assert locate(str(data)) == Located(data, ("a.csv.gz", "b.csv", "old/c.CSV"), CSV)


def test_a_file_is_read_alone(data: Path) -> None:
    """Its neighbours are not looked at."""
    assert locate(str(data / "b.csv")) == Located(data, ("b.csv",), CSV)


def test_a_pattern_chooses_files(data: Path) -> None:
    """The folder before the first wildcard is where paths start."""
    assert locate(str(data / "*.csv")) == Located(data, ("b.csv",), CSV)


def test_shards_of_tfx_are_known_by_their_names(tmp_path: Path) -> None:
    """They have no suffix."""
    (tmp_path / "data_tfrecord-00000-of-00001.gz").write_bytes(b"")

    assert locate(str(tmp_path)).source == TFRECORD


def test_what_is_no_row_is_a_folder_of_images(tmp_path: Path) -> None:
    """Class folders are told by what they are not."""
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.jpg").write_bytes(b"")

    assert locate(str(tmp_path)) == Located(tmp_path, (), IMAGE_FOLDER)


def test_two_kinds_at_once_are_refused(data: Path) -> None:
    """A set is of one kind; the message shows how to choose."""
    (data / "d.jsonl").write_text("{}")
    with pytest.raises(SettingsError) as refused:
        locate(str(data))

    assert str(refused.value) == (
        f"{data}: files of several formats (.CSV, .csv, .gz, .jsonl); select one with a pattern, such as '*.csv'"
    )


@pytest.mark.parametrize("name", ["none", "none/*.csv", "*.parquet"])
def test_nothing_is_said_as_such(data: Path, name: str) -> None:
    """A3: a missing path, or a pattern without a hit, is 0 examples."""
    with pytest.raises(BadInput, match="0 examples"):
        locate(str(data / name))


def test_links_out_of_the_folder_are_not_followed(data: Path, tmp_path: Path) -> None:
    """D4: only what is inside is data."""
    (tmp_path / "secret.csv").write_text("x\n1\n")
    (data / "link.csv").symlink_to(tmp_path / "secret.csv")

    located = locate(str(data))

    assert "link.csv" not in located.files
    assert located.links_outside == ("link.csv",)


@pytest.mark.parametrize("name", ["notes.txt", "*.txt"])
def test_a_file_of_no_known_kind_is_refused(data: Path, name: str) -> None:
    """Its folder is not taken for images in its stead."""
    (data / "notes.txt").write_text("x")

    with pytest.raises(BadInput, match=r"unsupported file notes\.txt; expected class"):
        locate(str(data / name))


def test_class_folders_of_texts_are_told_from_those_of_images(tmp_path: Path) -> None:
    """By the names of what is in them; a caption beside a image does not make a set of texts."""
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "1.txt").write_text("x")
    texts = locate(str(tmp_path)).source
    (tmp_path / "good" / "1.jpg").write_bytes(b"x")

    assert (texts, locate(str(tmp_path)).source) == (TEXT_FOLDER, IMAGE_FOLDER)


def test_images_beside_a_table_are_what_it_refers_to(tmp_path: Path) -> None:
    """The table is the data."""
    (tmp_path / "list.csv").write_text("path,label\nimages/1.jpg,cat\n")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").write_bytes(b"x")

    assert locate(str(tmp_path)) == Located(tmp_path, ("list.csv",), CSV)


def test_a_source_that_the_task_cannot_use_is_refused(data: Path) -> None:
    """With what was found and what was expected."""
    with pytest.raises(BadInput) as refused:
        locate(str(data / "b.csv"), [IMAGE_FOLDER])

    assert str(refused.value) == f"{data}/b.csv: holds CSV; expected class folders of images"
