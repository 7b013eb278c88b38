"""Every file below the data folder is read, quarantined with a reason, or ignored by a known rule."""

import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from components.errors import BadInput
from components.ingest.sources import FileRecord, Found, SourceFile
from components.ingest.sources.image_folder import EXPECTED, SOURCE
from components.records.quarantine import Quarantined, Rejected
from components.settings.ingest import Ingest

OUTSIDE = "symbolic link that leads outside the data folder"
NOTHING = "symbolic link to a folder or to nothing"
TOP = "not inside a class folder"


def fill(folder: Path, *names: str) -> None:
    """Writes a file for each name, and the folders above it."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"image")


def found(*files: str, quarantined: dict[str, str] | None = None, ignored: tuple[str, ...] = ()) -> Found:
    """Returns the expected result; the class is the outermost folder."""
    return Found(
        tuple(SourceFile(file, file.partition("/")[0]) for file in files),
        tuple(Quarantined(path, reason) for path, reason in (quarantined or {}).items()),
        ignored,
    )


def stopped(folder: Path) -> str:
    """Returns the message with which a folder is rejected."""
    with pytest.raises(BadInput) as bad:
        SOURCE.find(folder)
    return str(bad.value)


class TestListing:
    """Which files are data."""

    def test_the_class_is_the_name_of_the_folder(self, data: Path) -> None:
        """Files are sorted by path, and may have any suffix."""
        fill(data, "dogs/2.jpg", "cats/b.png", "cats/a.JPG", "cats/notes.txt")

        assert SOURCE.find(data) == found("cats/a.JPG", "cats/b.png", "cats/notes.txt", "dogs/2.jpg")

    def test_nested_folders_belong_to_the_outer_class(self, data: Path) -> None:
        """Every file below a class folder has that class."""
        fill(data, "cats/2024/may/1.jpg", "cats/1.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", "cats/2024/may/1.jpg")

    def test_hidden_files_and_folders_are_ignored(self, data: Path) -> None:
        """Files of tools are no data: they are listed as ignored and not opened."""
        fill(data, "cats/1.jpg", "cats/.DS_Store", ".git/config", "cats/.thumbs/1.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", ignored=(".git", "cats/.DS_Store", "cats/.thumbs"))

    def test_a_readme_beside_the_class_folders_is_ignored(self, data: Path) -> None:
        """Text at the top describes the data."""
        fill(data, "cats/1.jpg", "README.md", "LICENSE")

        assert SOURCE.find(data) == found("cats/1.jpg", ignored=("LICENSE", "README.md"))

    def test_an_image_beside_the_class_folders_is_quarantined(self, data: Path) -> None:
        """It has no class, and is not ignored."""
        fill(data, "cats/1.jpg", "2.jpg", "3.TIFF")

        assert SOURCE.find(data) == found("cats/1.jpg", quarantined={"2.jpg": TOP, "3.TIFF": TOP})

    def test_a_blank_name_is_no_label(self, data: Path) -> None:
        """A17: neither of blanks nor of other spaces."""
        fill(data, "cats/1.jpg", " /2.jpg", "\u3000/3.jpg")
        reason = "no label: the name of the class folder is blank"

        assert SOURCE.find(data) == found("cats/1.jpg", quarantined={" /2.jpg": reason, "\u3000/3.jpg": reason})

    def test_an_empty_class_folder_gives_no_records(self, data: Path) -> None:
        """A class without files is not a class."""
        fill(data, "cats/1.jpg")
        (data / "dogs").mkdir()

        assert SOURCE.find(data) == found("cats/1.jpg")

    @pytest.mark.parametrize("name", ["<script>", "a\nb", "chat noir", "猫", "-rf", "a:b"])
    def test_any_readable_name_is_a_class(self, name: str, data: Path) -> None:
        """A label may be any text."""
        fill(data, f"{name}/1.jpg")

        assert SOURCE.find(data) == found(f"{name}/1.jpg")

    def test_a_class_name_that_is_not_utf8_is_quarantined(self, data: Path) -> None:
        """A label must be text; the path is shown with the byte escaped."""
        fill(data, "cats/1.jpg", os.fsdecode(b"caf\xe9/1.jpg"))

        assert SOURCE.find(data) == found(
            "cats/1.jpg", quarantined={"caf\\xe9/1.jpg": "the class folder's name is not UTF-8"}
        )

    def test_a_file_name_that_is_not_utf8_is_read(self, data: Path) -> None:
        """Only the class has to be text."""
        name = os.fsdecode(b"cats/caf\xe9.jpg")
        fill(data, name)

        assert SOURCE.find(data) == found(name)

    def test_a_pipe_is_quarantined_without_being_opened(self, data: Path) -> None:
        """Promise D4: opening a pipe would wait for ever."""
        fill(data, "cats/1.jpg")
        os.mkfifo(data / "cats" / "2.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", quarantined={"cats/2.jpg": "not a regular file"})

    def test_a_socket_is_quarantined(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A socket is no regular file."""
        fill(data, "cats/1.jpg")
        monkeypatch.chdir(data / "cats")  # the name of a socket is short
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind("2.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", quarantined={"cats/2.jpg": "not a regular file"})


class TestLinks:
    """Promise D4: nothing outside the data folder is read."""

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        """A folder that is not part of the data."""
        fill(tmp_path / "outside", "secret.jpg")
        return tmp_path / "outside"

    def test_a_link_to_a_file_inside_is_read(self, data: Path) -> None:
        """Its class is the folder of the link."""
        fill(data, "cats/1.jpg")
        (data / "dogs").mkdir()
        (data / "dogs" / "2.jpg").symlink_to("../cats/1.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", "dogs/2.jpg")

    def test_a_link_to_a_file_outside_is_quarantined(self, data: Path, outside: Path) -> None:
        """The link may be absolute, relative, or lead to another link."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "absolute.jpg").symlink_to(outside / "secret.jpg")
        (data / "cats" / "relative.jpg").symlink_to("../../outside/secret.jpg")
        (data / "cats" / "twice.jpg").symlink_to("relative.jpg")

        assert SOURCE.find(data) == found(
            "cats/1.jpg",
            quarantined={"cats/absolute.jpg": OUTSIDE, "cats/relative.jpg": OUTSIDE, "cats/twice.jpg": OUTSIDE},
        )

    def test_a_link_to_a_folder_outside_is_quarantined_and_not_entered(self, data: Path, outside: Path) -> None:
        """Inside a class, or in place of a class folder."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "more").symlink_to(outside)
        (data / "dogs").symlink_to(outside)

        assert SOURCE.find(data) == found("cats/1.jpg", quarantined={"cats/more": OUTSIDE, "dogs": OUTSIDE})

    def test_a_link_to_a_folder_inside_is_quarantined_and_not_entered(self, data: Path) -> None:
        """A second name of a class, or a loop."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "again").symlink_to("../cats")
        (data / "felines").symlink_to("cats")

        assert SOURCE.find(data) == found("cats/1.jpg", quarantined={"cats/again": NOTHING, "felines": NOTHING})

    def test_a_dangling_link_is_quarantined(self, data: Path, outside: Path) -> None:
        """The target does not exist, inside or outside the data folder."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "in.jpg").symlink_to("gone.jpg")
        (data / "cats" / "out.jpg").symlink_to(outside / "gone.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", quarantined={"cats/in.jpg": NOTHING, "cats/out.jpg": OUTSIDE})

    def test_a_link_to_itself_is_quarantined(self, data: Path) -> None:
        """A loop of links does not stop the run."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "loop.jpg").symlink_to("loop.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", quarantined={"cats/loop.jpg": NOTHING})

    def test_the_data_folder_may_be_a_link(self, data: Path, tmp_path: Path) -> None:
        """The user named the link, so its target is the data folder."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "2.jpg").symlink_to("1.jpg")
        (tmp_path / "link").symlink_to(data)

        assert SOURCE.find(tmp_path / "link") == found("cats/1.jpg", "cats/2.jpg")


class TestNoFiles:
    """Promise A3: without a file the run stops; the message has the folder and 0 examples."""

    def test_a_missing_folder(self, data: Path) -> None:
        """The message has the path and what was expected."""
        assert stopped(data / "none") == f"{data / 'none'}: no such folder; {EXPECTED}"

    def test_a_file_instead_of_a_folder(self, data: Path) -> None:
        """A single image is not a data set."""
        fill(data, "cat.jpg")

        assert stopped(data / "cat.jpg") == f"{data / 'cat.jpg'}: not a folder; {EXPECTED}"

    def test_an_empty_folder(self, data: Path) -> None:
        """The message says 0 examples."""
        assert stopped(data) == f"{data}: 0 examples in it; {EXPECTED}"

    def test_a_folder_with_only_ignored_files(self, data: Path) -> None:
        """Ignored files do not count as data."""
        fill(data, "README.md", ".git/config")
        (data / "cats").mkdir()

        assert stopped(data) == f"{data}: 0 examples in it; {EXPECTED}"

    def test_a_folder_of_images_without_classes(self, data: Path) -> None:
        """The message has the first file and its reason."""
        fill(data, "1.jpg", "2.jpg")

        assert stopped(data) == f"{data}: 0 examples in it; {EXPECTED}; 2 quarantined, such as 1.jpg: {TOP}"


class TestPermissions:
    """Promise B9: missing permissions stop the run with a clear message."""

    def test_a_folder_that_may_not_be_listed(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """The message has the class folder."""
        fill(open_folder, "cats/1.jpg", "dogs/1.jpg")
        (open_folder / "dogs").chmod(0)
        with without_rights():
            message = stopped(open_folder)

        assert message == f"{open_folder / 'dogs'}: cannot be listed: Permission denied; check its permissions"

    def test_a_folder_that_may_be_listed_and_not_entered(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """File names without access to the files are an error."""
        fill(open_folder, "cats/1.jpg")
        (open_folder / "cats").chmod(0o444)
        with without_rights():
            message = stopped(open_folder)

        assert f"{open_folder / 'cats'}" in message
        assert "Permission denied" in message

    def test_a_data_folder_behind_a_closed_one(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Without access to the folder above, it is unknown whether the data folder exists."""
        fill(open_folder, "closed/data/cats/1.jpg")
        (open_folder / "closed").chmod(0)
        with without_rights():
            message = stopped(open_folder / "closed" / "data")

        assert message.startswith(f"{open_folder / 'closed' / 'data'}: ")
        assert "Permission denied" in message


class TestReading:
    """One file becomes one record, or is rejected with the reason."""

    def test_a_record_holds_the_image_and_its_label(self, image: Callable[..., bytes]) -> None:
        """A PNG is kept byte for byte, with its shorter side."""
        content = image(1, size=(6, 4))
        read = SOURCE.read(SourceFile("chat noir/1.png", "chat noir"), content, Ingest())

        assert read == FileRecord({"image": content, "label": b"chat noir"}, side=4, changed="")

    def test_a_converted_image_has_the_reason(self, image: Callable[..., bytes]) -> None:
        """A BMP is stored as PNG, with the reason for the report."""
        read = SOURCE.read(SourceFile("cats/1.bmp", "cats"), image(1, "BMP"), Ingest())

        assert (bytes(read.columns["image"])[:4], read.changed) == (b"\x89PNG", "BMP")

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "empty file, expected JPEG, PNG, GIF, WebP, AVIF, JPEG 2000, BMP or TIFF"),
            (
                b"<html>",
                "not an image: starts with '<html>', expected JPEG, PNG, GIF, WebP, AVIF, JPEG 2000, BMP or TIFF",
            ),
        ],
    )
    def test_a_file_that_is_no_image_is_rejected(self, content: bytes, reason: str) -> None:
        """Promise A4: the file name does not matter."""
        with pytest.raises(Rejected) as rejected:
            SOURCE.read(SourceFile("cats/1.jpg", "cats"), content, Ingest())

        assert str(rejected.value) == reason

    def test_the_limit_of_pixels_is_a_setting(self, image: Callable[..., bytes]) -> None:
        """Promise A5: ingest.max_pixels is the limit."""
        with pytest.raises(Rejected) as rejected:
            SOURCE.read(SourceFile("cats/1.png", "cats"), image(1, size=(6, 4)), Ingest(max_pixels=23))

        assert str(rejected.value) == "size 6 x 4 is 24 pixels, expected at most 23 (max_pixels)"
