"""TFRecord framing, and a writer that knows size, record count and checksum of its file when it is closed.

    length (8 bytes) │ masked CRC32C of the length (4) │ data │ masked CRC32C of the data (4)

TensorFlow's own writer takes one record per call, in one piece, and the file must be read again for its checksum:
twice the time for images, three times for tables.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import google_crc32c

from components.records import checksum

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

Crc = TypeVar("Crc", int, "npt.NDArray[np.int64]")

HEADER, FOOTER = struct.Struct("<QI"), struct.Struct("<I")
OVERHEAD = HEADER.size + FOOTER.size  # bytes of a record that are not data
_LENGTH = struct.Struct("<Q")
_BUFFER = 1 << 20  # bytes per write: each releases Python's lock and must then wait for it
# Measured on a table: half the time of level 6, for a tenth more bytes. zlib's own header has no timestamp.
_LEVEL, _GZIP = 4, 16 + zlib.MAX_WBITS


def mask(crc: Crc) -> Crc:
    """Returns a CRC32C as TFRecord stores it: rotated and shifted, so that data may itself contain CRCs."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def header(length: int) -> bytes:
    """Returns the header of a record with `length` bytes of data."""
    packed = _LENGTH.pack(length)
    return packed + FOOTER.pack(mask(google_crc32c.value(packed)))


def length_of(data: bytes, at: int = 0) -> int | None:
    """Returns the length in the header at an offset; None if there is no intact header."""
    if len(data) - at < HEADER.size:
        return None
    length, crc = HEADER.unpack_from(data, at)
    return int(length) if mask(google_crc32c.value(data[at : at + _LENGTH.size])) == crc else None


def is_intact(data: bytes, footer: bytes) -> bool:
    """Whether the checksum in a footer is that of the data."""
    return FOOTER.pack(mask(google_crc32c.value(data))) == footer


def frame(parts: Sequence[bytes]) -> bytes:
    """Returns one record, given in parts, with its header and footer."""
    crc, length = 0, 0
    for part in parts:
        crc = google_crc32c.extend(crc, part)
        length += len(part)
    return b"".join((header(length), *parts, FOOTER.pack(mask(crc))))


def frame_batch(records: "pa.Array") -> "pa.Array":
    """Returns every record of a binary array with its header and footer."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.binary_length(records).to_numpy(zero_copy_only=False)
    distinct, which = np.unique(lengths, return_inverse=True)
    headers = np.array([header(length) for length in distinct.tolist()], f"V{HEADER.size}")[which]
    rows = records.to_numpy(zero_copy_only=False)
    footers = mask(np.fromiter(map(google_crc32c.value, rows), np.int64, len(rows))).astype("<u4")
    kind = records.type
    return pc.binary_join_element_wise(_column(headers, kind), records, _column(footers, kind), pa.scalar(b"", kind))


class TFRecordWriter:
    """Writes records to a new file; `records`, `size` and `checksum` are those of the file once it is closed."""

    def __init__(self, path: Path, *, gzip: bool = False) -> None:
        """Prepares a file; it is created when the block is entered."""
        self._path = path
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP) if gzip else None
        self._crc = 0
        self.records = 0
        self.size = 0

    def __enter__(self) -> "TFRecordWriter":
        self._stream = self._path.open("wb", _BUFFER)
        return self

    def __exit__(self, *failed: object) -> None:
        with self._stream:
            if self._compressor and not any(failed):
                self._store(self._compressor.flush())

    @property
    def checksum(self) -> str:
        """Checksum of the file, as manifests hold it."""
        return checksum.formatted(self._crc)

    def write(self, records: Iterable[Sequence[bytes]]) -> None:
        """Appends records, each given in parts."""
        for parts in records:
            self._append(frame(parts))
            self.records += 1

    def write_framed(self, framed: "pa.Array") -> None:
        """Appends records that `frame_batch` returned."""
        self._append(_content(framed))
        self.records += len(framed)

    def _append(self, content: "bytes | pa.Buffer") -> None:
        self._store(self._compressor.compress(content) if self._compressor else content)

    def _store(self, content: "bytes | pa.Buffer") -> None:
        self._crc = google_crc32c.extend(self._crc, content)
        self.size += len(content)
        self._stream.write(content)


def _column(values: "npt.NDArray[np.void | np.uint32]", kind: "pa.DataType") -> "pa.Array":
    """Returns the bytes of each value as a binary array."""
    import pyarrow as pa

    fixed = pa.binary(values.dtype.itemsize)
    return pa.Array.from_buffers(fixed, len(values), [None, pa.py_buffer(values)]).cast(kind)


def _content(array: "pa.Array") -> "pa.Buffer":
    """Returns the bytes of all values of a binary array, without a copy."""
    import numpy as np
    import pyarrow as pa

    _, offsets, data = array.buffers()
    width = np.int32 if array.type == pa.binary() else np.int64
    edges = np.frombuffer(offsets, width)[array.offset :][: len(array) + 1]
    return data.slice(int(edges[0]), int(edges[-1] - edges[0])) if data is not None else pa.py_buffer(b"")
