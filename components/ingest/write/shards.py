"""The split and shard of each file: decided by content hashes alone, before any byte is moved.

    sha256 ─► place in the hash space ─► split (by fraction, or by strata.py) ─► order within the split ─► shard

So the result is the same on any machine and for any number of workers, exact duplicates share a split, and a Beam
element is a whole shard: no record crosses a shuffle, and a retried bundle writes the same file again.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.ingest.survey.listing import ListedFile

if TYPE_CHECKING:
    from components.settings.ingest import Ingest
    from components.settings.splits import Splits

_HASH_SPACE = 1 << 64


@dataclass(frozen=True)
class ShardFiles:
    """The files of one shard, in the order of its records."""

    split: str
    index: int
    of: int
    files: Sequence[ListedFile]
    span: str = ""

    @property
    def name(self) -> str:
        """File name, relative to the artifact, as TFX readers expect it."""
        return f"Split-{self.split}/data_tfrecord-{numbered(self.index, self.of, self.span)}"


def numbered(index: int, of: int, span: str = "") -> str:
    """Returns the end of a shard's name, unique over all spans."""
    return f"{span}-{index:05d}-of-{of:05d}".removeprefix("-")


def place_of(sha256: str, salt: str) -> int:
    """Returns the place of a content in the hash space, 64 bits, which decides its split."""
    return int(hashlib.sha256(f"{salt}:{sha256}".encode()).hexdigest()[:16], 16)


def split_of(sha256: str, splits: "Splits") -> str:
    """Returns the split of a content hash."""
    place, edge = place_of(sha256, splits.salt) / _HASH_SPACE, 0.0
    for name, fraction in splits.fractions():
        edge += fraction
        if place < edge:
            return name
    return name  # rounding may leave the sum of the fractions just below 1


def assign(
    files: Sequence[ListedFile], settings: "Ingest", span: str = "", splits: Sequence[str] | None = None
) -> list[ShardFiles]:
    """Assigns every file to one shard, split by split; `splits` has the split of each file if it is decided already."""
    shards: list[ShardFiles] = []
    by_split: dict[str, list[ListedFile]] = {split: [] for split, _ in settings.splits.fractions()}
    # One pass: each pass over files in columns makes an object per file.
    chosen = zip(files, splits, strict=True) if splits else ((f, split_of(f.sha256, settings.splits)) for f in files)
    for item, split in chosen:
        by_split[split].append(item)
    for split, mine in by_split.items():
        # Sorted by hash, which mixes the classes within every shard: a small shuffle buffer is enough.
        mine.sort(key=lambda item: (item.sha256, item.file.path))
        count = _shard_count(mine, settings)
        shards += [ShardFiles(split, index, count, tuple(mine[index::count]), span) for index in range(count)]
    return shards


def _shard_count(files: Sequence[ListedFile], settings: "Ingest") -> int:
    by_bytes = -(-sum(item.size for item in files) // (settings.shard_mb << 20))
    return max(1, min(len(files), max(by_bytes, settings.min_shards)))
