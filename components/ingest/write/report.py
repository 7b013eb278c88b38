"""The report of one shard: what it holds, and what was quarantined on the way to it."""

import base64
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from components.records.quarantine import Quarantined
from components.records.tfrecord import TFRecordWriter


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


@dataclass
class ShardCounts:
    """Counts the records of one shard while it is written."""

    classes: Counter[str] = field(default_factory=Counter)
    sides: Counter[int] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    hashes: list[tuple[str, int]] = field(default_factory=list)

    def add(self, sha256: str, side: int, changed: str, perceptual_hash: int | None) -> None:
        """Counts one record; `side` is the shorter side of its image in pixels, 0 if it has none."""
        self.sides[side] += 1
        if changed:
            self.changed[changed] += 1
        if perceptual_hash is not None:
            self.hashes.append((sha256, perceptual_hash))

    def report(self, split: str, name: str, written: TFRecordWriter) -> ShardReport:
        """Returns the report; the records are those that the writer has counted, for the ledger to compare."""
        return ShardReport(
            split=split,
            name=name,
            records=written.records,
            bytes=written.size,
            checksum=written.checksum,
            classes=dict(self.classes),
            sides=dict(self.sides),
            changed=dict(self.changed),
            perceptual_hashes=pack_hashes(self.hashes),
        )


def pack_hashes(hashes: Sequence[tuple[str, int]]) -> str:
    """Returns (sha256, perceptual hash) of images as text: as JSON numbers they would be most of a report."""
    numbers = [number for sha256, value in hashes for number in (int(sha256[:16], 16), value)]
    return base64.b64encode(struct.pack(f"<{len(numbers)}Q", *numbers)).decode()
