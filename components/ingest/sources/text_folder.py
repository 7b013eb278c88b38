"""Class folders of texts, `spam/1.txt` and `ham/2.md`: the folder name is the class.

Each file of UTF-8 text is one record:

| in the file                                          | in the record                                         |
|------------------------------------------------------|-------------------------------------------------------|
| byte order mark at the start                         | removed; anywhere else it is text                     |
| NUL, emoji, combining marks, right-to-left, CR LF    | kept byte for byte: nothing is cut, joined or reordered |
| invalid UTF-8 (also UTF-16, and half a surrogate pair) | rejected, with the offset of the first invalid byte |
| nothing, or nothing but blanks and line ends         | rejected: no text in it                               |
"""

from pathlib import PurePosixPath

from components.ingest.sources import FileRecord, Found, SourceFile, class_folders
from components.ingest.sources.class_folders import IMAGE_SUFFIXES, TEXT_SUFFIXES
from components.records.quarantine import Rejected
from components.settings.ingest import Ingest
from components.storage.entries import Entries
from components.storage.paths import DataPath

EXPECTED = "expected a folder with one sub-folder of texts per class, such as spam/1.txt and ham/2.txt"
_DESCRIPTIONS = frozenset(["readme", "license", "licence", "copying", "notice", "changelog", "citation"])
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_WANTED = "expected .txt, .text or .md"


class TextFolder:
    """Lists and reads class folders of texts."""

    def find(self, data: DataPath, entries: Entries | None = None) -> Found:
        """Lists every file below `data`."""
        return class_folders.find(data, _RULES, entries)

    def read(self, file: SourceFile, content: bytes, settings: Ingest) -> FileRecord:
        """Checks one text and returns its record."""
        if len(content) > settings.max_file_mb << 20:
            raise Rejected(f"{len(content):,} bytes, more than max_file_mb = {settings.max_file_mb}")
        text = content.removeprefix(_BOM)
        if not _decoded(content).removeprefix("\ufeff").strip():
            raise Rejected("no text in it")
        return FileRecord({"text": text, "label": file.label.encode()}, side=0)


SOURCE = TextFolder()


def _is_description(name: str) -> bool:
    """Whether a file beside the class folders describes the data; its name decides, as it may be a text too."""
    path = PurePosixPath(name)
    return path.suffix.lower() not in TEXT_SUFFIXES or path.stem.lower() in _DESCRIPTIONS


def _fault(name: str) -> str | None:
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in TEXT_SUFFIXES:
        return None
    return f"an image, {_WANTED}" if suffix in IMAGE_SUFFIXES else f"no text file extension, {_WANTED}"


_RULES = class_folders.FolderRules(EXPECTED, _is_description, _fault)


def _decoded(content: bytes) -> str:
    if content.startswith(_UTF16):
        raise Rejected("is UTF-16, expected UTF-8: save it again in that encoding")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        wrong = content[error.start]
        raise Rejected(f"not UTF-8: byte 0x{wrong:02x} at offset {error.start:,}, {error.reason}") from None
