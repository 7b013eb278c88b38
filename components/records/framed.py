"""A TFRecord file of rows, a batch at a time: framed all at once, its checksum taken on the way, packed if wanted.

    length (8) │ checksum of the length (4) │ record │ checksum of the record (4)

TensorFlow's own writer is called for every record and leaves the file to be read again for its checksum: for a table
that takes three times as long. Records with images in them are written one by one, and not copied.
"""

import zlib
from pathlib import Path

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.ingest.write.encode_columns import Encoded
from components.records.record_file import RecordFile

# Measured on a table: half the time of level 6, for a tenth more bytes. With zlib's own header there is no time in it.
_LEVEL, _GZIP = 4, 16 + zlib.MAX_WBITS


def frame(records: Encoded) -> pa.Array:
    """Returns each record with what stands around it in a file."""
    kind, rows = records.array.type, len(records)
    lengths = pc.binary_length(records.array).to_numpy(zero_copy_only=False).astype("<u8")
    distinct, which = np.unique(lengths, return_inverse=True)
    heads = np.empty((rows, 12), np.uint8)
    heads[:, :8] = lengths.view(np.uint8).reshape(rows, 8)
    heads[:, 8:] = _checksums([length.tobytes() for length in distinct])[which]
    return pc.binary_join_element_wise(
        _fixed(heads, kind), records.array, _fixed(_checksums(records.rows()), kind), pa.scalar(b"", kind)
    )


class FramedFile(RecordFile):
    """Writes records to a new file, many at once or one by one; size and checksum are told when it is closed."""

    def __init__(self, path: Path, *, gzip: bool = False) -> None:
        super().__init__(path)
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP) if gzip else None

    def __enter__(self) -> "FramedFile":
        super().__enter__()
        return self

    def __exit__(self, *failed: object) -> None:
        with self._stream:
            if self._packer and not any(failed):
                self._put([self._packer.flush()])

    def write_all(self, framed: pa.Array) -> None:
        """Appends records that are framed already."""
        self.records += len(framed)
        content = _content(framed)
        self._put([self._packer.compress(content) if self._packer else content])


def _checksums(pieces: list[bytes]) -> npt.NDArray[np.uint8]:
    """Returns checksums as TFRecord stores them: rotated and shifted, lest a checksum be taken of itself."""
    plain = np.fromiter(map(google_crc32c.value, pieces), np.uint32, len(pieces))
    masked = (plain >> np.uint32(15) | plain << np.uint32(17)) + np.uint32(0xA282EAD8)
    return masked.astype("<u4").view(np.uint8).reshape(-1, 4)


def _fixed(matrix: npt.NDArray[np.uint8], kind: pa.DataType) -> pa.Array:
    offsets = (np.arange(len(matrix) + 1) * matrix.shape[1]).astype(np.int32 if kind == pa.binary() else np.int64)
    return pa.Array.from_buffers(kind, len(matrix), [None, pa.py_buffer(offsets), pa.py_buffer(matrix.reshape(-1))])


def _content(array: pa.Array) -> pa.Buffer:
    """Returns the bytes of all rows, one behind another, where they are."""
    _, offsets, data = array.buffers()
    width = np.int32 if array.type == pa.binary() else np.int64
    edges = np.frombuffer(offsets, width)[array.offset :][: len(array) + 1]
    return data.slice(int(edges[0]), int(edges[-1] - edges[0])) if data is not None else pa.py_buffer(b"")
