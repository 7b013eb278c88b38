"""Rows that refer to images by path: the column is found, and nothing outside the data folder is opened."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.errors import SettingsError
from components.ingest.sources.csv.csv_rows import SOURCE as CSV
from components.ingest.sources.jsonl.jsonl_rows import SOURCE as JSONL
from components.ingest.sources.parquet.parquet_rows import SOURCE as PARQUET
from components.ingest.sources.rows import Sample
from components.ingest.survey import references
from components.records.quarantine import Rejected

Rows = list[dict[str, Any]]


def write_rows(path: Path, rows: Rows) -> None:
    """Writes rows in the format of the file extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    else:
        lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def images(data: Path) -> Callable[..., None]:
    """Writes files with image names into the data folder."""

    def put(*names: str) -> None:
        for name in names:
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_bytes(name.encode())

    return put


Put = Callable[..., None]


def column_of(path: Path, asked: str = "") -> str:
    """Returns the column of a CSV file that holds image paths."""
    return references.image_column(Sample(CSV, path, CSV.schema(path)), asked, path.parent)


class TestColumn:
    """Finding the column with image paths."""

    @pytest.mark.parametrize(("name", "source"), [("a.csv", CSV), ("a.jsonl", JSONL), ("a.parquet", PARQUET)])
    def test_a_column_with_paths_of_existing_images(self, data: Path, images: Put, name: str, source: Any) -> None:
        """Its name does not matter, and every format works."""
        images("img/1.JPG", "img/2.png")
        write_rows(data / name, [{"text": "one.", "where": "img/1.JPG"}, {"text": "two", "where": "img/2.png"}])
        sample = Sample(source, data / name, source.schema(data / name))

        assert references.image_column(sample, "", data) == "where"

    def test_paths_of_missing_images_are_text(self, data: Path, images: Put) -> None:
        """A table about images may come without them."""
        images("1.png")
        write_rows(data / "a.csv", [{"file": f"{number}.png"} for number in range(1, 4)])

        assert column_of(data / "a.csv") == ""

    def test_a_few_missing_images_do_not_hide_the_column(self, data: Path, images: Put) -> None:
        """Rows with missing images will be quarantined."""
        images(*(f"{number}.png" for number in range(7)))
        write_rows(data / "a.csv", [{"file": f"{number}.png"} for number in range(10)])

        assert column_of(data / "a.csv") == "file"

    def test_text_that_sometimes_names_an_image_is_text(self, data: Path, images: Put) -> None:
        """Nine in ten values must be image names."""
        images("1.png")
        write_rows(data / "a.csv", [{"text": "1.png"}, {"text": "see 1.png below"}])

        assert column_of(data / "a.csv") == ""

    def test_two_columns_with_images_need_a_setting(self, data: Path, images: Put) -> None:
        """The message says how."""
        images("1.png", "2.png")
        write_rows(data / "a.csv", [{"before": "1.png", "after": "2.png"}])

        with pytest.raises(
            SettingsError, match=r"columns 'before', 'after' hold image paths, .* --set ingest.images=before"
        ):
            column_of(data / "a.csv")

        assert [column_of(data / "a.csv", asked) for asked in ("after", "none")] == ["after", ""]

    def test_the_column_in_the_setting_must_be_text(self, data: Path) -> None:
        """And must exist."""
        write_rows(data / "a.csv", [{"file": "1.png", "number": 1}])

        with pytest.raises(SettingsError, match=r"setting ingest.images: no column 'fil' .* did you mean 'file'\?"):
            column_of(data / "a.csv", "fil")
        with pytest.raises(SettingsError, match=r"column 'number' is int64, expected text with image paths"):
            column_of(data / "a.csv", "number")

    def test_a_table_may_refer_to_a_sibling_folder(self, data: Path, images: Put) -> None:
        """If that is below the data folder."""
        images("img/1.png")
        write_rows(data / "lists" / "a.csv", [{"file": "../img/1.png"}])
        path = data / "lists" / "a.csv"

        assert references.image_column(Sample(CSV, path, CSV.schema(path)), "", data, "lists") == "file"


class TestPaths:
    """All images that rows refer to, for the listing."""

    def test_each_image_is_listed_once_in_the_order_of_the_rows(self, data: Path, images: Put) -> None:
        """Paths are relative to the data folder; images that must not be opened are left out."""
        images("x/2.png", "x/1.png", "y/1.png")
        names = ["2.png", "1.png", "2.png", "../x/./1.png", "gone.png", "../../secret", "/etc/passwd"]
        write_rows(data / "x" / "a.csv", [{"file": name} for name in names])
        write_rows(data / "y" / "b.csv", [{"file": "1.png"}, {"file": "../x/2.png"}])
        schema = CSV.schema(data / "x" / "a.csv")

        assert references.paths(CSV, data, ["x/a.csv", "y/b.csv"], schema, "file") == ["x/2.png", "x/1.png", "y/1.png"]


def reason(data: Path, value: str | None, folder: str = "") -> str:
    """Returns why an image is rejected."""
    with pytest.raises(Rejected) as error:
        references.ImageFinder(data).find(folder, value)
    return str(error.value)


class TestRejected:
    """Promise D4: paths that lead outside are rejected by their spelling or by their links."""

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("../outside.png", "leads outside the data folder"),
            ("a/../../outside.png", "leads outside the data folder"),
            ("..", "leads outside the data folder"),
            ("/etc/passwd", "is an absolute path"),
            ("file:///etc/passwd", "is an address"),
            ("http://localhost/1.png", "is an address"),
            ("1.png\0.txt", "cannot hold NUL"),
            ("", "refers to no image"),
            (None, "refers to no image"),
            ("gone.png", "does not exist"),
            ("inner", "is not a regular file"),
            (".", "is not a regular file"),
            ("inner/1.png/2.png", "cannot be read: Not a directory"),
            ("x" * 300, "cannot be read: File name too long"),
        ],
    )
    def test_a_path_is_rejected_by_its_spelling_or_file_type(
        self, data: Path, images: Put, value: str | None, expected: str
    ) -> None:
        """Each has its reason."""
        images("inner/1.png")
        (data.parent / "outside.png").write_bytes(b"secret")

        assert expected in reason(data, value)

    def test_a_link_that_leads_outside_is_rejected(self, data: Path) -> None:
        """The file or one of its folders may be the link."""
        (data.parent / "outside.png").write_bytes(b"secret")
        (data / "link.png").symlink_to(data.parent / "outside.png")
        (data / "folder").symlink_to(data.parent)

        assert [reason(data, value) for value in ("link.png", "folder/outside.png")] == [
            "image 'link.png' is behind a link that leads outside the data folder",
            "image 'folder/outside.png' is behind a link that leads outside the data folder",
        ]

    def test_links_without_a_target_are_rejected(self, data: Path) -> None:
        """To a missing file, or in a loop."""
        (data / "dead.png").symlink_to("gone.png")
        (data / "circle.png").symlink_to("circle.png")

        assert [reason(data, value) for value in ("dead.png", "circle.png")] == [
            "image 'dead.png' does not exist",
            "image 'circle.png' cannot be read: Too many levels of symbolic links",
        ]

    def test_a_pipe_is_rejected_without_being_opened(self, data: Path) -> None:
        """Reading it would never end."""
        os.mkfifo(data / "pipe.png")

        assert reason(data, "pipe.png") == "image 'pipe.png' is not a regular file"

    def test_a_link_inside_the_folder_is_followed(self, data: Path, images: Put) -> None:
        """The data folder itself may be a link, too."""
        images("img/1.png")
        (data / "same.png").symlink_to("img/1.png")
        (data.parent / "alias").symlink_to(data)
        found = references.ImageFinder(data.parent / "alias").find("", "same.png")

        assert (found.path, references.read(found, 100)) == ("same.png", b"img/1.png")

    def test_a_link_that_replaces_the_file_later_is_not_followed(self, data: Path, images: Put) -> None:
        """The file may be replaced between the check and opening it."""
        images("1.png")
        (data.parent / "outside.png").write_bytes(b"secret")
        found = references.ImageFinder(data).find("", "1.png")
        (data / "1.png").unlink()
        (data / "1.png").symlink_to(data.parent / "outside.png")

        with pytest.raises(OSError, match="symbolic links"):
            references.read(found, 100)

    def test_no_more_is_read_than_is_allowed(self, data: Path, images: Put) -> None:
        """One byte more than the limit shows that the file is too large."""
        images("1234567890")

        assert references.read(references.ImageFinder(data).find("", "1234567890"), 4) == b"12345"
