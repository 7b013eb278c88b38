"""A TFRecord file written in one go: its checksum is known when its last byte is.

    length (8) │ checksum of the length (4) │ record … │ checksum of the record (4)

TensorFlow's own writer wants each record in one piece, and the file would have to be read again to be hashed: for
pictures that takes twice as long. Many records are written and hashed at once: whoever does so lets go of Python's lock
and must wait for it again, with other threads at work on the next records.
"""

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import google_crc32c

_BUFFER = 1 << 18
F = TypeVar("F", bound="RecordFile")
_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")


class RecordFile:
    """Writes records to a new file; size and digest are told when it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self.records = 0
        self.size = 0

    def __enter__(self: F) -> F:
        self._stream = self._path.open("wb", buffering=_BUFFER)
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        self._stream.close()

    @property
    def sha256(self) -> str:
        """Of all that was written."""
        return self._digest.hexdigest()

    def write(self, parts: Sequence[bytes]) -> None:
        """Appends one record, which is given in parts."""
        self.write_many([parts])

    def write_many(self, records: Sequence[Sequence[bytes]]) -> None:
        """Appends records, each given in parts."""
        content = b"".join(piece for parts in records for piece in _framed(parts))
        self._stream.write(content)
        self._digest.update(content)
        self.size += len(content)
        self.records += len(records)


def _framed(parts: Sequence[bytes]) -> tuple[bytes, ...]:
    """Returns a record in parts, with what stands around it in a file."""
    checksum = 0
    for part in parts:
        checksum = google_crc32c.extend(checksum, part)
    length = _LENGTH.pack(sum(map(len, parts)))
    return (length, _CHECKSUM.pack(_masked(google_crc32c.value(length))), *parts, _CHECKSUM.pack(_masked(checksum)))


def _masked(checksum: int) -> int:
    """Returns a checksum as TFRecord stores it: rotated and shifted, lest a checksum be taken of itself."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
