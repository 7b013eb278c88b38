"""Rows refer to images by paths: the column is found, and nothing outside the data folder is ever opened."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.errors import SettingsError
from components.ingest.sources import Rejected
from components.ingest.sources.csv_rows import SOURCE as CSV
from components.ingest.sources.jsonl_rows import SOURCE as JSONL
from components.ingest.sources.parquet_rows import SOURCE as PARQUET
from components.ingest.survey import references

Rows = list[dict[str, Any]]


def write_rows(path: Path, rows: Rows) -> None:
    """Writes rows in the format that the path's name says."""
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
    """Puts files that are called like images into the data folder."""

    def put(*names: str) -> None:
        for name in names:
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_bytes(name.encode())

    return put


Put = Callable[..., None]


def column_of(path: Path, asked: str = "") -> str:
    """Returns the column of a CSV file that holds paths of images."""
    return references.image_column(CSV, path, CSV.schema(path), asked)


class TestColumn:
    """Which column holds paths."""

    @pytest.mark.parametrize(("name", "source"), [("a.csv", CSV), ("a.jsonl", JSONL), ("a.parquet", PARQUET)])
    def test_the_one_with_images_that_are_there(self, data: Path, images: Put, name: str, source: Any) -> None:
        """Whatever it is called, in any format."""
        images("img/1.JPG", "img/2.png")
        write_rows(data / name, [{"text": "one.", "where": "img/1.JPG"}, {"text": "two", "where": "img/2.png"}])
        schema = source.schema(data / name)

        assert references.image_column(source, data / name, schema, "") == "where"

    def test_names_of_images_that_are_not_there_are_text(self, data: Path, images: Put) -> None:
        """A table about images need not come with them."""
        images("1.png")
        write_rows(data / "a.csv", [{"file": f"{number}.png"} for number in range(1, 4)])

        assert column_of(data / "a.csv") == ""

    def test_a_few_missing_images_do_not_hide_the_column(self, data: Path, images: Put) -> None:
        """Their rows will be set aside."""
        images(*(f"{number}.png" for number in range(7)))
        write_rows(data / "a.csv", [{"file": f"{number}.png"} for number in range(10)])

        assert column_of(data / "a.csv") == "file"

    def test_text_that_names_an_image_now_and_then_is_text(self, data: Path, images: Put) -> None:
        """Nine in ten values must look like one."""
        images("1.png")
        write_rows(data / "a.csv", [{"text": "1.png"}, {"text": "see 1.png below"}])

        assert column_of(data / "a.csv") == ""

    def test_of_two_columns_one_must_be_chosen(self, data: Path, images: Put) -> None:
        """The message says how."""
        images("1.png", "2.png")
        write_rows(data / "a.csv", [{"before": "1.png", "after": "2.png"}])

        with pytest.raises(
            SettingsError, match=r"columns 'before', 'after' hold image paths, .* --set ingest.images=before"
        ):
            column_of(data / "a.csv")

        assert [column_of(data / "a.csv", asked) for asked in ("after", "none")] == ["after", ""]

    def test_a_column_that_is_asked_for_must_be_text(self, data: Path) -> None:
        """And be there."""
        write_rows(data / "a.csv", [{"file": "1.png", "number": 1}])

        with pytest.raises(SettingsError, match=r"setting ingest.images: no column 'fil' .* did you mean 'file'\?"):
            column_of(data / "a.csv", "fil")
        with pytest.raises(SettingsError, match=r"column 'number' is int64, expected text with image paths"):
            column_of(data / "a.csv", "number")

    def test_a_list_in_a_folder_may_refer_to_the_folder_beside(self, data: Path, images: Put) -> None:
        """As long as that is below the data folder."""
        images("img/1.png")
        write_rows(data / "lists" / "a.csv", [{"file": "../img/1.png"}])
        path, schema = data / "lists" / "a.csv", CSV.schema(data / "lists" / "a.csv")

        assert references.image_column(CSV, path, schema, "", data, "lists") == "file"


class TestPaths:
    """All images that rows refer to, for the manifest."""

    def test_each_image_is_told_once_in_the_order_of_the_rows(self, data: Path, images: Put) -> None:
        """Relative to the data folder, from all files; what cannot be opened is not among them."""
        images("x/2.png", "x/1.png", "y/1.png")
        names = ["2.png", "1.png", "2.png", "../x/./1.png", "gone.png", "../../secret", "/etc/passwd"]
        write_rows(data / "x" / "a.csv", [{"file": name} for name in names])
        write_rows(data / "y" / "b.csv", [{"file": "1.png"}, {"file": "../x/2.png"}])
        schema = CSV.schema(data / "x" / "a.csv")

        assert references.paths(CSV, data, ["x/a.csv", "y/b.csv"], schema, "file") == ["x/2.png", "x/1.png", "y/1.png"]


def reason(data: Path, value: str | None, folder: str = "") -> str:
    """Returns why a image is refused."""
    with pytest.raises(Rejected) as refused:
        references.ImageFinder(data).find(folder, value)
    return str(refused.value)


class TestRefused:
    """Promise D4: what leads outside is refused by its spelling or by where it really leads."""

    @pytest.mark.parametrize(
        ("value", "said"),
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
    def test_a_path_is_refused_by_its_spelling_or_kind(
        self, data: Path, images: Put, value: str | None, said: str
    ) -> None:
        """Each with its reason."""
        images("inner/1.png")
        (data.parent / "outside.png").write_bytes(b"secret")

        assert said in reason(data, value)

    def test_a_link_that_leads_outside_is_refused(self, data: Path) -> None:
        """The link itself, or one of the folders on the way."""
        (data.parent / "outside.png").write_bytes(b"secret")
        (data / "link.png").symlink_to(data.parent / "outside.png")
        (data / "folder").symlink_to(data.parent)

        assert [reason(data, value) for value in ("link.png", "folder/outside.png")] == [
            "image 'link.png' is behind a link that leads outside the data folder",
            "image 'folder/outside.png' is behind a link that leads outside the data folder",
        ]

    def test_links_that_lead_nowhere_are_refused(self, data: Path) -> None:
        """To nothing, or in a circle."""
        (data / "dead.png").symlink_to("gone.png")
        (data / "circle.png").symlink_to("circle.png")

        assert [reason(data, value) for value in ("dead.png", "circle.png")] == [
            "image 'dead.png' does not exist",
            "image 'circle.png' cannot be read: Too many levels of symbolic links",
        ]

    def test_a_pipe_is_not_waited_for(self, data: Path) -> None:
        """It is no image, and reading it would never end."""
        os.mkfifo(data / "pipe.png")

        assert reason(data, "pipe.png") == "image 'pipe.png' is not a regular file"

    def test_a_link_inside_the_folder_is_followed(self, data: Path, images: Put) -> None:
        """Data is often linked together; the data folder itself may be a link."""
        images("img/1.png")
        (data / "same.png").symlink_to("img/1.png")
        (data.parent / "alias").symlink_to(data)
        found = references.ImageFinder(data.parent / "alias").find("", "same.png")

        assert (found.path, references.read(found, 100)) == ("same.png", b"img/1.png")

    def test_a_link_that_comes_in_between_is_not_followed(self, data: Path, images: Put) -> None:
        """What was a image when it was looked at may be something else when it is opened."""
        images("1.png")
        (data.parent / "outside.png").write_bytes(b"secret")
        found = references.ImageFinder(data).find("", "1.png")
        (data / "1.png").unlink()
        (data / "1.png").symlink_to(data.parent / "outside.png")

        with pytest.raises(OSError, match="symbolic links"):
            references.read(found, 100)

    def test_no_more_is_read_than_is_allowed(self, data: Path, images: Put) -> None:
        """One byte more shows that it is too large."""
        images("1234567890")

        assert references.read(references.ImageFinder(data).find("", "1234567890"), 4) == b"12345"
