"""One text file becomes one record, byte for byte, or is rejected with the reason."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from components.errors import BadInput
from components.ingest.sources import FileRecord, Found, SourceFile
from components.ingest.sources.text_folder import EXPECTED, SOURCE
from components.ingest.survey import listing
from components.ingest.write import shards
from components.records.quarantine import Quarantined, Rejected
from components.settings.ingest import Ingest
from components.settings.splits import Splits
from components.storage.hashing import HashCache

NOT_TEXT = "no text file extension, expected .txt, .text or .md"
IMAGE = "an image, expected .txt, .text or .md"
FILE = SourceFile("ham/1.txt", "ham")


def fill(folder: Path, *names: str) -> None:
    """Writes a file for each name, and the folders above it."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def found(*files: str, quarantined: dict[str, str] | None = None, ignored: tuple[str, ...] = ()) -> Found:
    """Returns the expected result; the class is the outermost folder."""
    return Found(
        tuple(SourceFile(file, file.partition("/")[0]) for file in files),
        tuple(Quarantined(path, reason) for path, reason in (quarantined or {}).items()),
        ignored,
    )


def rejected(content: bytes, settings: Ingest | None = None) -> str:
    """Returns why a file is rejected."""
    with pytest.raises(Rejected) as reason:
        SOURCE.read(FILE, content, settings or Ingest())
    return str(reason.value)


class TestListing:
    """Which files are data."""

    def test_the_class_is_the_name_of_the_folder(self, tmp_path: Path) -> None:
        """Files with a text suffix are listed at any depth, sorted by path."""
        fill(tmp_path, "spam/2.text", "ham/b.md", "ham/a.TXT", "ham/2024/may/c.txt")

        assert SOURCE.find(tmp_path) == found("ham/2024/may/c.txt", "ham/a.TXT", "ham/b.md", "spam/2.text")

    def test_other_files_in_a_class_folder_are_quarantined(self, tmp_path: Path) -> None:
        """No file is ignored, and the reason names images."""
        fill(tmp_path, "ham/1.txt", "ham/scan.png", "ham/letter.pdf", "ham/plain", "spam/2.JPG")

        assert SOURCE.find(tmp_path) == found(
            "ham/1.txt",
            quarantined={"ham/letter.pdf": NOT_TEXT, "ham/plain": NOT_TEXT, "ham/scan.png": IMAGE, "spam/2.JPG": IMAGE},
        )

    def test_a_text_beside_the_class_folders_is_quarantined(self, tmp_path: Path) -> None:
        """It has no class; files that describe the data are recognised by name."""
        fill(tmp_path, "ham/1.txt", "2.txt", "notes.md", "README.md", "LICENSE.txt", "licence", "logo.png", ".x.txt")

        assert SOURCE.find(tmp_path) == found(
            "ham/1.txt",
            quarantined={"2.txt": "not inside a class folder", "notes.md": "not inside a class folder"},
            ignored=(".x.txt", "LICENSE.txt", "README.md", "licence", "logo.png"),
        )

    def test_a_link_that_leads_out_is_quarantined(self, tmp_path: Path) -> None:
        """D4: nothing outside the data folder is read."""
        fill(tmp_path, "data/ham/1.txt", "secret.txt")
        (tmp_path / "data" / "ham" / "2.txt").symlink_to(tmp_path / "secret.txt")

        assert SOURCE.find(tmp_path / "data") == found(
            "ham/1.txt", quarantined={"ham/2.txt": "symbolic link that leads outside the data folder"}
        )

    @pytest.mark.parametrize("names", [[], ["README.md"], ["1.txt", "2.txt"], ["ham/1.png"]])
    def test_a_folder_without_texts_is_rejected(self, names: list[str], tmp_path: Path) -> None:
        """A3: the message has the folder and what was expected."""
        fill(tmp_path, *names)

        with pytest.raises(BadInput) as stopped:
            SOURCE.find(tmp_path)
        assert str(stopped.value).startswith(f"{tmp_path}: 0 examples in it; {EXPECTED}")


KEPT = {
    "plain": "one line, no end",
    "emoji": "👩‍👩‍👧 😀 🇩🇪",
    "combining marks": "e\u0301 is not \u00e9",
    "right to left": "\u202eabc שלום مرحبا\u200f",
    "NUL": "before\0behind\0",
    "line ends": "a\r\nb\rc\n\n\u2028d\u0085",
    "blanks around": "  \t text \n ",
    "a mark inside": "a\ufeffb",
    "zero width": "\u200b",
    "beyond the first plane": "𐍈\U0010ffff",
    "formula": "=cmd|' /C calc'!A0",
}


class TestReading:
    """A10: a documented result for each kind of text."""

    @pytest.mark.parametrize("text", KEPT.values(), ids=KEPT.keys())
    def test_text_is_kept_byte_for_byte(self, text: str) -> None:
        """No character is cut, joined, reordered or changed."""
        assert SOURCE.read(FILE, text.encode(), Ingest()) == FileRecord(
            {"text": text.encode(), "label": b"ham"}, side=0
        )

    def test_a_byte_order_mark_is_removed(self) -> None:
        """Only the one at the start."""
        text = KEPT["a mark inside"]

        assert SOURCE.read(FILE, text.encode("utf-8-sig"), Ingest()).columns["text"] == text.encode()

    @pytest.mark.parametrize(
        "content", [b"", b" ", b"\r\n\t \n", "\ufeff".encode(), "\ufeff \n".encode(), "\u2003\u3000".encode()]
    )
    def test_blank_text_is_rejected(self, content: bytes) -> None:
        """An empty file, blanks, or a byte order mark alone."""
        assert rejected(content) == "no text in it"

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"caf\xe9 noir", "not UTF-8: byte 0xe9 at offset 3, invalid continuation byte"),
            (b"\xef\xbb\xbfab\xff", "not UTF-8: byte 0xff at offset 5, invalid start byte"),
            (b"x" * 5_000 + b"\xf0\x9f\x98", "not UTF-8: byte 0xf0 at offset 5,000, unexpected end of data"),
            (b"\xed\xa0\x80", "not UTF-8: byte 0xed at offset 0, invalid continuation byte"),
            (b"\xc0\x80", "not UTF-8: byte 0xc0 at offset 0, invalid start byte"),
            ("hé".encode("utf-16"), "is UTF-16, expected UTF-8: save it again in that encoding"),
            (b"\xff\xd8\xff\xe0JFIF", "not UTF-8: byte 0xff at offset 0, invalid start byte"),
        ],
    )  # fmt: skip
    def test_text_that_is_not_utf8_is_rejected_with_its_offset(self, content: bytes, reason: str) -> None:
        """The offset counts from the start of the file, byte order mark included."""
        assert rejected(content) == reason

    def test_a_file_that_is_too_large_is_rejected(self) -> None:
        """A11: the limit is a setting."""
        assert rejected(b"x" * ((1 << 20) + 1), Ingest(max_file_mb=1)) == "1,048,577 bytes, more than max_file_mb = 1"
        assert SOURCE.read(FILE, b"x" * (1 << 20), Ingest(max_file_mb=1)).columns["text"] == b"x" * (1 << 20)

    @given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
    @example(b"\xef\xbb\xbf\xef\xbb\xbf")
    def test_any_bytes_are_kept_or_rejected(self, content: bytes) -> None:
        """Valid text is kept unchanged, everything else is rejected."""
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = ""
        if text.strip():
            assert SOURCE.read(FILE, content, Ingest()).columns["text"] == text.encode()
        else:
            assert rejected(content)

    def test_a_file_of_another_program(self, tmp_path: Path) -> None:
        """A file written by a shell is read unchanged."""
        (tmp_path / "ham").mkdir()
        subprocess.run(["sh", "-c", r"printf 'caf\303\251\r\n\000end' > ham/1.txt"], cwd=tmp_path, check=True)
        [file] = SOURCE.find(tmp_path).files

        assert SOURCE.read(file, (tmp_path / file.path).read_bytes(), Ingest()) == FileRecord(
            {"text": "café\r\n\0end".encode(), "label": b"ham"}, side=0
        )


def test_equal_texts_are_in_one_split(tmp_path: Path) -> None:
    """A6: also under another name and in another class."""
    fill(tmp_path, *(f"ham/{number}.txt" for number in range(200)))
    shutil.copytree(tmp_path / "ham", tmp_path / "spam")
    taken = listing.take(SOURCE, tmp_path, HashCache(None))
    split = {item.file.path: shards.split_of(item.sha256, Splits()) for item in taken.files}
    pairs = [{split[f"{name}/{number}.txt"] for name in ("ham", "spam")} for number in range(200)]

    assert sorted({tuple(pair) for pair in pairs}) == [("eval",), ("test",), ("train",)]
