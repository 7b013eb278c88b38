"""Reads files that are one record each, and checks them as ingest does.

names of a work unit ─► contents in batches, bounded in files and bytes ─┬─► content
                                                                         └─► quarantined, with the reason
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import BadInput
from components.inference.data import file_argument
from components.inference.units import PredictFiles, PredictJob
from components.ingest.images import checks
from components.ingest.sources import SourceFile, text_folder
from components.records.quarantine import Quarantined, Rejected, printable
from components.storage import transfers

if TYPE_CHECKING:
    from components.settings.ingest import Ingest
    from components.storage.paths import DataPath

_FILES, _FILE_BYTES = 128, 32 << 20  # files per call of the model, and bytes from which on a batch is complete
_AT_ONCE = 16  # files that are read together


@dataclass(frozen=True)
class FileRead:
    """A batch of files: the content of each, or why it has none."""

    names: Sequence[str]
    contents: Sequence[bytes | Quarantined]


@dataclass(frozen=True)
class Rejection:
    """Says why the model cannot predict a file: what the full check of ingest says, or else TensorFlow."""

    prefix: str
    names: Sequence[str]
    contents: Any
    settings: "Ingest"
    is_image: bool

    def __call__(self, at: int, reason: str) -> Quarantined:
        """Returns the quarantined file with this index."""
        content: bytes = self.contents[at]
        path = printable(self.prefix + self.names[at])
        try:
            if self.is_image:
                full = self.settings.model_copy(update={"image_check": "full"})
                checks.check(content, full, hashed=False)
        except Rejected as error:
            return Quarantined.of(path, str(error), error.position, content)
        return Quarantined.of(path, f"the model cannot predict it: {reason}", "", content)


class RawFileReader:
    """Reads files and checks them as ingest does."""

    def __init__(self, job: PredictJob, unit: PredictFiles) -> None:
        argument = file_argument(job.reading)
        self._is_image = argument is not None and argument.role == "image"
        self._unit, self._settings = unit, job.settings

    def batches(self, names: Sequence[str]) -> Iterator[FileRead]:
        """Reads files in batches that are bounded in files and bytes."""
        start = 0
        while start < len(names):
            contents: list[bytes | Quarantined] = []
            while start + len(contents) < len(names) and len(contents) < _FILES and _size(contents) < _FILE_BYTES:
                contents += self._read_some(names[start + len(contents) :][:_AT_ONCE])
            yield FileRead(names[start : start + len(contents)], contents)
            start += len(contents)

    def _read_some(self, names: Sequence[str]) -> list[bytes | Quarantined]:
        """Reads some files, from a store all at once: it answers slowly, but many requests at a time."""
        if isinstance(self._unit.home, Path):
            return [self._read_one(name) for name in names]
        return transfers.each(self._read_one, names, _AT_ONCE)

    def _read_one(self, name: str) -> bytes | Quarantined:
        path, limit = printable(self._unit.prefix + name), self._settings.max_file_mb << 20
        content = _content(self._unit.home, name, limit)
        if len(content) > limit:
            return Quarantined(path, f"more than max_file_mb = {self._settings.max_file_mb}")
        try:
            if self._is_image:
                return checks.check(content, self._settings, hashed=False).content
            text = text_folder.SOURCE.read(SourceFile(name, ""), content, self._settings).columns["text"]
            return text if isinstance(text, bytes) else b""
        except Rejected as reason:
            return Quarantined.of(path, str(reason), reason.position, content)


def _size(contents: Sequence[bytes | Quarantined]) -> int:
    return sum(len(each) for each in contents if isinstance(each, bytes))


def _content(home: "DataPath", name: str, limit: int) -> bytes:
    """Returns the content of a file, or one byte more than `limit`."""
    try:
        if isinstance(home, Path):
            with open(f"{home}/{name}", "rb", 0) as file:  # noqa: PTH123 - making a Path takes as long as reading
                return file.read() if file.seek(0, 2) <= limit and not file.seek(0) else b"\0" * (limit + 1)
        return (home / name).read_at_most(limit + 1)
    except OSError as error:
        raise BadInput(
            f"{printable(f'{home}/{name}')}: cannot be read: {error.strerror}; it was deleted or changed meanwhile, or "
            "this user may not read it"
        ) from error
