"""A TFRecord file written in one go: its checksum is known when its last byte is.

    length (8) │ checksum of the length (4) │ record … │ checksum of the record (4)

TensorFlow's own writer wants each record in one piece, and the file would have to be read again for its checksum: for
images that takes twice as long. Many records are written at once: whoever writes lets go of Python's lock and must
wait for it again, with other threads at work. What is large is written from where it is.
"""

import io
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import google_crc32c

from components.records import checksum
from components.storage import durable

if TYPE_CHECKING:
    import pyarrow as pa

_LARGE = 16 << 10  # bytes from which on a part is not copied
_ON_THE_WAY = 8 << 20  # bytes that are written before the disk is set to work
_AT_ONCE = 512  # parts in one call; Linux takes 1,024
F = TypeVar("F", bound="RecordFile")
_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")


class RecordFile:
    """Writes records to a new file; size and checksum are told when it is closed."""

    def __init__(self, path: Path, expected: int = 0) -> None:
        """Prepares a file.

        Args:
            path: of the file.
            expected: bytes that it will take at most, if that is known.
        """
        self._path, self._expected = path, expected
        self._crc = 0
        self._begun = 0  # bytes that are on their way to disk
        self.records = 0
        self.size = 0

    def __enter__(self: F) -> F:
        self._stream = io.FileIO(self._path, "wb")
        if self._expected:
            durable.reserve(self._stream.fileno(), self._expected)
        return self

    def __exit__(self, *failed: object) -> None:
        with self._stream as stream:
            if self._expected:
                stream.truncate(self.size)

    @property
    def checksum(self) -> str:
        """Of all that was written."""
        return checksum.told(self._crc)

    def write(self, parts: Sequence[bytes]) -> None:
        """Appends one record, which is given in parts."""
        self.write_many([parts])

    def write_many(self, records: Sequence[Sequence[bytes]]) -> None:
        """Appends records, each given in parts."""
        self._put(_framed(records))
        self.records += len(records)

    def _put(self, pieces: Iterable["bytes | pa.Buffer"]) -> None:
        waiting: list[bytes | pa.Buffer] = []
        for piece in pieces:
            self._crc = google_crc32c.extend(self._crc, piece)
            self.size += len(piece)
            waiting.append(piece)
            if len(waiting) == _AT_ONCE:
                _write_all(self._stream.fileno(), waiting)
                waiting = []
        if waiting:
            _write_all(self._stream.fileno(), waiting)
        if self.size - self._begun >= _ON_THE_WAY:
            durable.begin_sync(self._stream.fileno(), self._begun, self.size - self._begun)
            self._begun = self.size


def _write_all(descriptor: int, pieces: Sequence["bytes | pa.Buffer"]) -> None:
    """Writes pieces one behind another; a disk that fills up may take a part of them first."""
    written, wanted = os.writev(descriptor, pieces), sum(map(len, pieces))
    if written < wanted:
        rest = memoryview(b"".join(bytes(piece) for piece in pieces))
        while written < wanted:
            written += os.write(descriptor, rest[written:])


def _framed(records: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Returns records, with what stands around them in a file: what is small in few pieces, what is large as it is."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    for parts in records:
        crc, size = 0, 0
        for part in parts:
            crc = google_crc32c.extend(crc, part)
            size += len(part)
        length = _LENGTH.pack(size)
        small += (length, _CHECKSUM.pack(_masked(google_crc32c.value(length))))
        for part in parts:
            if len(part) < _LARGE:
                small.append(part)
            else:
                pieces += (b"".join(small), part)
                small = []
        small.append(_CHECKSUM.pack(_masked(crc)))
    return [*pieces, b"".join(small)]


def _masked(crc: int) -> int:
    """Returns a checksum as TFRecord stores it: rotated and shifted, lest a checksum be taken of itself."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
