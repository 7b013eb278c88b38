"""Names of shards, the split of a file, and the shards that one work unit writes: one per split that it has records of.

    sha256 ─► place in the hash space ─► split (by fraction, or by strata.py) ─► the unit's shard of that split

So the split is the same on any machine and for any number of workers, exact duplicates share it, no record crosses a
shuffle, and a retried bundle writes the same files again.
"""

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.records import shard_files
from components.records.tfrecord.framing import TFRecordWriter

if TYPE_CHECKING:
    from components.settings.splits import Splits
    from components.storage.location import Location

_HASH_SPACE = 1 << 64
FINGERPRINTS = "fingerprints"  # folder of an artifact


def numbered(index: int, of: int, span: str = "") -> str:
    """Returns the end of a shard's name, unique over all spans."""
    return f"{span}-{index:05d}-of-{of:05d}".removeprefix("-")


def name_of(split: str, end: str) -> str:
    """Returns the file name of a shard, relative to the artifact, as TFX readers expect it."""
    return f"Split-{split}/data_tfrecord-{end}"


def fingerprints_of(shard: str) -> str:
    """Returns the name of the file with the fingerprints of a shard, relative to the artifact."""
    return f"{FINGERPRINTS}/{shard.replace('/', '_')}"


def place_of(sha256: str, salt: str) -> int:
    """Returns the place of a content in the hash space, 64 bits, which decides its split."""
    return int(hashlib.sha256(f"{salt}:{sha256}".encode()).hexdigest()[:16], 16)


def split_of(sha256: str, splits: "Splits | PlainSplits") -> str:
    """Returns the split of a content hash."""
    place, edge = place_of(sha256, splits.salt) / _HASH_SPACE, 0.0
    for name, fraction in splits.fractions():
        edge += fraction
        if place < edge:
            return name
    return name  # rounding may leave the sum of the fractions just below 1


@dataclass(frozen=True)
class PlainSplits:
    """The settings of the splits, for a process that does without pydantic."""

    parts: tuple[tuple[str, float], ...]
    salt: str
    stratify: bool

    def fractions(self) -> tuple[tuple[str, float], ...]:
        """Returns (split, fraction) in order."""
        return self.parts


class SplitShards:
    """One shard per split, opened for its first record; each is renamed when it is whole."""

    def __init__(self, stack: contextlib.ExitStack, artifact: "Location", end: str, *, gzip: bool = False) -> None:
        """Takes a stack that closes the shards, the artifact, and the end of the shards' names."""
        self._stack, self._artifact = stack, artifact
        self._end, self._gzip = f"{end}.gz" if gzip else end, gzip
        self.writers: dict[str, TFRecordWriter] = {}  # by split

    def of(self, split: str) -> TFRecordWriter:
        """Returns the writer of the shard of a split."""
        if split not in self.writers:
            temporary = self._stack.enter_context(shard_files.publish(self._artifact, self.name(split)))
            self.writers[split] = self._stack.enter_context(TFRecordWriter(temporary, gzip=self._gzip))
        return self.writers[split]

    def name(self, split: str) -> str:
        """Returns the name of the shard of a split."""
        return name_of(split, self._end)
