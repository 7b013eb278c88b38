"""A TFRecord file written in one go: its checksum is known when its last byte is.

    length (8) │ checksum of the length (4) │ record … │ checksum of the record (4)

TensorFlow's own writer wants each record in one piece, and the file would have to be read again to be hashed: for
pictures that takes twice as long. Small records are joined, large parts are written from where they are.
"""

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path

import google_crc32c

_JOINED = 16 << 10  # bytes up to which a copy is cheaper than a call
_BUFFER = 1 << 18
_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")


class RecordFile:
    """Writes records to a new file; size and digest are told when it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self.records = 0
        self.size = 0

    def __enter__(self) -> "RecordFile":
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
        length = sum(map(len, parts))
        if length <= _JOINED:
            parts = (b"".join(parts),)
        checksum = 0
        for part in parts:
            checksum = google_crc32c.extend(checksum, part)
        head = _LENGTH.pack(length)
        frame = (head, _CHECKSUM.pack(_masked(google_crc32c.value(head))), *parts, _CHECKSUM.pack(_masked(checksum)))
        for piece in (b"".join(frame),) if length <= _JOINED else frame:
            self._stream.write(piece)
            self._digest.update(piece)
            self.size += len(piece)
        self.records += 1


def _masked(checksum: int) -> int:
    """Returns a checksum as TFRecord stores it: rotated and shifted, lest a checksum be taken of itself."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
