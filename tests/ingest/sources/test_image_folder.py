"""Every file below the data folder is taken, refused with a reason, or left out by a rule that people expect."""

import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from components.errors import BadInput
from components.ingest.sources import FileRecord, Found, Rejected, SourceFile
from components.ingest.sources.image_folder import EXPECTED, SOURCE
from components.records.quarantine import Quarantined
from components.settings.ingest import Ingest

OUTSIDE = "symbolic link that leads outside the data folder"
NOTHING = "symbolic link to a folder or to nothing"
TOP = "not inside a class folder"


def fill(folder: Path, *names: str) -> None:
    """Writes a file for each name, and the folders above it."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"image")


def found(*files: str, refused: dict[str, str] | None = None, ignored: tuple[str, ...] = ()) -> Found:
    """Returns what the source must find; the class is the outermost folder."""
    return Found(
        tuple(SourceFile(file, file.partition("/")[0]) for file in files),
        tuple(Quarantined(path, reason) for path, reason in (refused or {}).items()),
        ignored,
    )


def stopped(folder: Path) -> str:
    """Returns the message with which a folder is turned down."""
    with pytest.raises(BadInput) as bad:
        SOURCE.find(folder)
    return str(bad.value)


class TestListing:
    """What belongs to the data and what does not."""

    def test_the_class_is_the_folders_name(self, data: Path) -> None:
        """Files come in the order of their paths, whatever their suffix."""
        fill(data, "dogs/2.jpg", "cats/b.png", "cats/a.JPG", "cats/notes.txt")

        assert SOURCE.find(data) == found("cats/a.JPG", "cats/b.png", "cats/notes.txt", "dogs/2.jpg")

    def test_nested_folders_belong_to_the_outer_class(self, data: Path) -> None:
        """Whatever is below a class folder is of that class."""
        fill(data, "cats/2024/may/1.jpg", "cats/1.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", "cats/2024/may/1.jpg")

    def test_hidden_files_and_folders_are_left_out(self, data: Path) -> None:
        """What tools leave behind is no data: it is named, and not opened."""
        fill(data, "cats/1.jpg", "cats/.DS_Store", ".git/config", "cats/.thumbs/1.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", ignored=(".git", "cats/.DS_Store", "cats/.thumbs"))

    def test_a_readme_beside_the_class_folders_is_left_out(self, data: Path) -> None:
        """Text at the top describes the data."""
        fill(data, "cats/1.jpg", "README.md", "LICENSE")

        assert SOURCE.find(data) == found("cats/1.jpg", ignored=("LICENSE", "README.md"))

    def test_an_image_beside_the_class_folders_is_refused(self, data: Path) -> None:
        """It has no class, and is not left out in silence."""
        fill(data, "cats/1.jpg", "2.jpg", "3.TIFF")

        assert SOURCE.find(data) == found("cats/1.jpg", refused={"2.jpg": TOP, "3.TIFF": TOP})

    def test_an_empty_class_folder_gives_no_records(self, data: Path) -> None:
        """A class without files is not a class."""
        fill(data, "cats/1.jpg")
        (data / "dogs").mkdir()

        assert SOURCE.find(data) == found("cats/1.jpg")

    @pytest.mark.parametrize("name", ["<script>", "a\nb", "chat noir", "猫", "-rf", "a:b"])
    def test_any_readable_name_is_a_class(self, name: str, data: Path) -> None:
        """A label is text and is never taken for anything else."""
        fill(data, f"{name}/1.jpg")

        assert SOURCE.find(data) == found(f"{name}/1.jpg")

    def test_a_class_name_that_is_not_utf8_is_refused(self, data: Path) -> None:
        """A label must be text; the path is shown with its odd byte spelt out."""
        fill(data, "cats/1.jpg", os.fsdecode(b"caf\xe9/1.jpg"))

        assert SOURCE.find(data) == found(
            "cats/1.jpg", refused={"caf\\xe9/1.jpg": "the class folder's name is not UTF-8"}
        )

    def test_a_file_name_that_is_not_utf8_is_taken(self, data: Path) -> None:
        """Only the class has to be text."""
        name = os.fsdecode(b"cats/caf\xe9.jpg")
        fill(data, name)

        assert SOURCE.find(data) == found(name)

    def test_a_pipe_is_refused_without_being_opened(self, data: Path) -> None:
        """Promise D4: opening it would wait for ever."""
        fill(data, "cats/1.jpg")
        os.mkfifo(data / "cats" / "2.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", refused={"cats/2.jpg": "not a regular file"})

    def test_a_socket_is_refused(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is not a file either."""
        fill(data, "cats/1.jpg")
        monkeypatch.chdir(data / "cats")  # the name of a socket is short
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind("2.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", refused={"cats/2.jpg": "not a regular file"})


class TestLinks:
    """Promise D4: nothing outside the data folder is read."""

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        """A folder that is not part of the data."""
        fill(tmp_path / "outside", "secret.jpg")
        return tmp_path / "outside"

    def test_a_link_to_a_file_inside_is_taken(self, data: Path) -> None:
        """Its class is that of the place where it stands."""
        fill(data, "cats/1.jpg")
        (data / "dogs").mkdir()
        (data / "dogs" / "2.jpg").symlink_to("../cats/1.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", "dogs/2.jpg")

    def test_a_link_to_a_file_outside_is_refused(self, data: Path, outside: Path) -> None:
        """Whether it is absolute, relative, or by way of another link."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "absolute.jpg").symlink_to(outside / "secret.jpg")
        (data / "cats" / "relative.jpg").symlink_to("../../outside/secret.jpg")
        (data / "cats" / "twice.jpg").symlink_to("relative.jpg")

        assert SOURCE.find(data) == found(
            "cats/1.jpg",
            refused={"cats/absolute.jpg": OUTSIDE, "cats/relative.jpg": OUTSIDE, "cats/twice.jpg": OUTSIDE},
        )

    def test_a_link_to_a_folder_outside_is_refused_and_not_entered(self, data: Path, outside: Path) -> None:
        """Inside a class and in the place of a class."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "more").symlink_to(outside)
        (data / "dogs").symlink_to(outside)

        assert SOURCE.find(data) == found("cats/1.jpg", refused={"cats/more": OUTSIDE, "dogs": OUTSIDE})

    def test_a_link_to_a_folder_inside_is_refused_and_not_entered(self, data: Path) -> None:
        """A class under a second name, or a circle."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "again").symlink_to("../cats")
        (data / "felines").symlink_to("cats")

        assert SOURCE.find(data) == found("cats/1.jpg", refused={"cats/again": NOTHING, "felines": NOTHING})

    def test_a_dangling_link_is_refused(self, data: Path, outside: Path) -> None:
        """What is not there cannot be read, inside or outside."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "in.jpg").symlink_to("gone.jpg")
        (data / "cats" / "out.jpg").symlink_to(outside / "gone.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", refused={"cats/in.jpg": NOTHING, "cats/out.jpg": OUTSIDE})

    def test_a_link_to_itself_is_refused(self, data: Path) -> None:
        """A circle of links is a bad file and not the end of the run."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "loop.jpg").symlink_to("loop.jpg")

        assert SOURCE.find(data) == found("cats/1.jpg", refused={"cats/loop.jpg": NOTHING})

    def test_the_data_folder_may_be_a_link(self, data: Path, tmp_path: Path) -> None:
        """The user named it, so what it leads to is inside."""
        fill(data, "cats/1.jpg")
        (data / "cats" / "2.jpg").symlink_to("1.jpg")
        (tmp_path / "link").symlink_to(data)

        assert SOURCE.find(tmp_path / "link") == found("cats/1.jpg", "cats/2.jpg")


class TestNothingToRead:
    """Promise A3: without a readable file the run stops, names the place and says 0 examples."""

    def test_a_missing_folder(self, data: Path) -> None:
        """The path is named with what was expected there."""
        assert stopped(data / "none") == f"{data / 'none'}: no such folder; {EXPECTED}"

    def test_a_file_in_the_place_of_the_folder(self, data: Path) -> None:
        """A single image is not a data set."""
        fill(data, "cat.jpg")

        assert stopped(data / "cat.jpg") == f"{data / 'cat.jpg'}: not a folder; {EXPECTED}"

    def test_an_empty_folder(self, data: Path) -> None:
        """Nothing there is said as such."""
        assert stopped(data) == f"{data}: 0 examples in it; {EXPECTED}"

    def test_a_folder_with_nothing_but_side_files(self, data: Path) -> None:
        """What is left out does not count as data."""
        fill(data, "README.md", ".git/config")
        (data / "cats").mkdir()

        assert stopped(data) == f"{data}: 0 examples in it; {EXPECTED}"

    def test_a_folder_of_images_without_classes(self, data: Path) -> None:
        """The most likely mistake is answered with the first file and its reason."""
        fill(data, "1.jpg", "2.jpg")

        assert stopped(data) == f"{data}: 0 examples in it; {EXPECTED}; 2 quarantined, such as 1.jpg: {TOP}"


class TestPermissions:
    """Promise B9: what may not be read is a clear failure."""

    def test_a_folder_that_may_not_be_listed(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """The class folder is named."""
        fill(open_folder, "cats/1.jpg", "dogs/1.jpg")
        (open_folder / "dogs").chmod(0)
        with without_rights():
            message = stopped(open_folder)

        assert message == f"{open_folder / 'dogs'}: cannot be listed: Permission denied; check its permissions"

    def test_a_folder_that_may_be_listed_and_not_entered(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Names without their files are as unreadable."""
        fill(open_folder, "cats/1.jpg")
        (open_folder / "cats").chmod(0o444)
        with without_rights():
            message = stopped(open_folder)

        assert f"{open_folder / 'cats'}" in message
        assert "Permission denied" in message

    def test_a_data_folder_behind_a_closed_one(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """It cannot even be told whether it is there."""
        fill(open_folder, "closed/data/cats/1.jpg")
        (open_folder / "closed").chmod(0)
        with without_rights():
            message = stopped(open_folder / "closed" / "data")

        assert message.startswith(f"{open_folder / 'closed' / 'data'}: ")
        assert "Permission denied" in message


class TestReading:
    """One file becomes one record, or is rejected with the reason."""

    def test_a_record_holds_the_image_and_its_label(self, image: Callable[..., bytes]) -> None:
        """A PNG is kept byte for byte; the shorter side is noted."""
        content = image(1, size=(6, 4))
        read = SOURCE.read(SourceFile("chat noir/1.png", "chat noir"), content, Ingest())

        assert read == FileRecord({"image": content, "label": b"chat noir"}, side=4, changed="")

    def test_a_converted_image_says_so(self, image: Callable[..., bytes]) -> None:
        """A BMP is stored as PNG, and the reason is kept for the report."""
        read = SOURCE.read(SourceFile("cats/1.bmp", "cats"), image(1, "BMP"), Ingest())

        assert (bytes(read.columns["image"])[:4], read.changed) == (b"\x89PNG", "BMP")

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "empty file, expected JPEG, PNG, GIF, WebP, BMP or TIFF"),
            (
                b"<html>",
                "not an image: starts with '<html>', expected JPEG, PNG, GIF, WebP, BMP or TIFF",
            ),
        ],
    )
    def test_what_is_no_image_is_rejected(self, content: bytes, reason: str) -> None:
        """Promise A4: with the reason, whatever the file is called."""
        with pytest.raises(Rejected) as rejected:
            SOURCE.read(SourceFile("cats/1.jpg", "cats"), content, Ingest())

        assert str(rejected.value) == reason

    def test_the_limit_of_pixels_is_a_setting(self, image: Callable[..., bytes]) -> None:
        """Promise A5: the settings' limit is the one that counts."""
        with pytest.raises(Rejected) as rejected:
            SOURCE.read(SourceFile("cats/1.png", "cats"), image(1, size=(6, 4)), Ingest(max_pixels=23))

        assert str(rejected.value) == "size 6 x 4 is 24 pixels, expected at most 23 (max_pixels)"
