"""Fingerprints of the records of a shard, in sorted runs: `close/duplicates.py` merges those of all shards.

record ─► (64 bits of its content, 32 bits of its label, number) ─► sorted runs in a file

The number of a row is its place in the shard, that of a file its place in the listing.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import google_crc32c
import numpy as np
import numpy.typing as npt

from components.ingest.write.shards import fingerprints_of
from components.records import checksum, shard_files

if TYPE_CHECKING:
    from components.storage.location import Location

ROW = np.dtype([("content", "<u8"), ("label", "<u4"), ("number", "<u4")])
_RUN = 1 << 18  # rows per sorted run, about: 4 MB
_KEPT = 2  # rows of equal records per run: a record that occurs a million times must not fill a bucket
Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.void]


@contextlib.contextmanager
def fingerprint_writer(artifact: "Location", shard: str) -> Iterator["FingerprintWriter"]:
    """Opens the fingerprints of a shard for writing; they are published if the block ends without an error."""
    with shard_files.publish(artifact, fingerprints_of(shard)) as temporary, temporary.open("wb") as file:
        writer = FingerprintWriter(file)
        yield writer
        writer.flush()


class FingerprintWriter:
    """Writes the fingerprints of the records of one shard."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pending: list[Rows] = []  # rows of the next run
        self._pending_rows, self._count = 0, 0
        self._crc = 0

    def add(self, contents: Hashes, labels: npt.NDArray[np.unsignedinteger[Any]]) -> None:
        """Adds the next records of the shard; 32 bits are enough to see that one content has two labels."""
        rows = np.empty(len(contents), ROW)
        rows["content"], rows["label"] = contents, labels.astype(np.uint32)
        rows["number"] = np.arange(self._count, self._count + len(rows))
        self._pending.append(rows)
        self._count += len(rows)
        self._pending_rows += len(rows)
        if self._pending_rows >= _RUN:
            self.flush()

    @property
    def checksum(self) -> str:
        """Checksum of the file, when it is closed."""
        return checksum.formatted(self._crc)

    def flush(self) -> None:
        """Writes the pending rows as a sorted run; the row before it has its length and the number of rows left out."""
        if self._pending:
            run = _sorted(np.concatenate(self._pending))
            content = np.array([(self._pending_rows - len(run), 0, len(run))], ROW).tobytes() + run.tobytes()
            self._file.write(content)
            self._crc = google_crc32c.extend(self._crc, content)
        self._pending, self._pending_rows = [], 0


def _sorted(rows: Rows) -> Rows:
    """Returns rows sorted by content, at most two of equal records: enough for an example."""
    rows = rows[np.argsort(rows["content"])]
    equal = rows["content"][1:] == rows["content"][:-1]
    if not equal.any():
        return rows
    several = np.append(equal, False) | np.append(False, equal)
    some = rows[several]
    rows[several] = some[np.lexsort((some["number"], some["label"], some["content"]))]
    starts, sizes = groups(rows)
    place = np.arange(len(rows)) - np.repeat(starts, sizes)
    return rows[place < _KEPT]


def groups(rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns start and size of each group of equal records, in rows that are sorted by content and label."""
    changes = (rows["content"][1:] != rows["content"][:-1]) | (rows["label"][1:] != rows["label"][:-1])
    starts = np.append(0, np.flatnonzero(changes) + 1)
    return starts, np.diff(np.append(starts, len(rows)))
