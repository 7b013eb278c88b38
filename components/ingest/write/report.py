"""The report of one shard: what it holds, and what was quarantined on the way to it."""

import base64
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from components.records.quarantine import Quarantined
from components.records.tfrecord.framing import TFRecordWriter

NO_NUMBER = (1 << 32) - 1
HASH_ROW = struct.Struct("<QQI")  # start of the SHA-256, perceptual hash, number of the file


@dataclass(frozen=True)
class ShardReport:
    """What a shard holds; a work unit without any good record has a report without a name."""

    split: str = ""
    name: str = ""
    records: int = 0
    bytes: int = 0
    checksum: str = ""
    classes: dict[str, int] = field(default_factory=dict)
    sides: dict[int, int] = field(default_factory=dict)  # shorter side in pixels -> records
    changed: dict[str, int] = field(default_factory=dict)  # why bytes were re-encoded -> records
    quarantined: tuple[Quarantined, ...] = ()
    failure: str = ""  # an input file was deleted or changed: the run must stop
    read: int = 0  # rows that were read, if a file has many records
    named_unlabelled: int = 0  # of them, rows with a label like the class of rows without one
    empty_texts: int = 0  # rows among them that were kept without a text
    perceptual_hashes: str = ""  # of its images, as `pack_hashes` returns them
    fingerprints: str = ""  # checksum of the file with the fingerprints of its records


@dataclass
class ShardCounts:
    """Counts the records of one shard while it is written."""

    classes: Counter[str] = field(default_factory=Counter)
    sides: Counter[int] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    hashes: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, sha256: str, side: int, changed: str, perceptual_hash: int | None, number: int = NO_NUMBER) -> None:
        """Counts one record.

        Args:
            sha256: of its content.
            side: shorter side of its image in pixels; 0 if it has none.
            changed: why its image was re-encoded.
            perceptual_hash: of its image.
            number: of its file in the listing of its span, if a file is a record.
        """
        self.sides[side] += 1
        if changed:
            self.changed[changed] += 1
        if perceptual_hash is not None:
            self.hashes.append((sha256, perceptual_hash, number))

    def report(self, split: str, name: str, written: TFRecordWriter, fingerprints: str) -> ShardReport:
        """Returns the report; the records are those that the writer has counted, for the ledger to compare.

        Args:
            split: of the shard.
            name: of the shard.
            written: its writer, closed.
            fingerprints: checksum of the file with the fingerprints of its records.
        """
        return ShardReport(
            split=split,
            name=name,
            records=written.records,
            bytes=written.size,
            checksum=written.checksum,
            fingerprints=fingerprints,
            classes=dict(self.classes),
            sides=dict(self.sides),
            changed=dict(self.changed),
            perceptual_hashes=pack_hashes(self.hashes),
        )


def pack_hashes(hashes: Sequence[tuple[str, int, int]]) -> str:
    """Returns (sha256, perceptual hash, number) of images as text: JSON numbers would be most of a report."""
    rows = (HASH_ROW.pack(int(sha256[:16], 16), value, number) for sha256, value, number in hashes)
    return base64.b64encode(b"".join(rows)).decode()
