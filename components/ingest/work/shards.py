"""Which record goes where: decided from content hashes alone, before any byte is moved.

    sha256 ─► split (fraction of the hash space) ─► order within the split ─► shard

So the plan is the same on any machine and any number of workers, exact duplicates share a split, and a Beam element
is a whole shard: no record crosses a shuffle, and a retried bundle writes the same file again.
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
class ShardPlan:
    """One shard to be written: its records in order."""

    split: str
    index: int
    of: int
    files: tuple[ListedFile, ...]
    span: str = ""

    @property
    def name(self) -> str:
        """File name, relative to the artifact, as TFX readers expect it."""
        return f"Split-{self.split}/data_tfrecord-{numbered(self.index, self.of, self.span)}"


def numbered(index: int, of: int, span: str = "") -> str:
    """Returns the end of a shard's name: shards of different spans never have the same."""
    return f"{span}-{index:05d}-of-{of:05d}".removeprefix("-")


def split_of(sha256: str, splits: "Splits") -> str:
    """Returns the split of a content hash."""
    return _split_of(sha256, splits.salt, splits.fractions())


def _split_of(sha256: str, salt: str, fractions: Sequence[tuple[str, float]]) -> str:
    place = int(hashlib.sha256(f"{salt}:{sha256}".encode()).hexdigest()[:16], 16) / _HASH_SPACE
    edge = 0.0
    for name, fraction in fractions:
        edge += fraction
        if place < edge:
            return name
    return fractions[-1][0]  # the fractions' sum may end a rounding error short of 1


def plan(files: Sequence[ListedFile], settings: "Ingest", span: str = "") -> list[ShardPlan]:
    """Deals all files into shards, split by split."""
    shards: list[ShardPlan] = []
    salt, fractions = settings.splits.salt, settings.splits.fractions()
    dealt: dict[str, list[ListedFile]] = {split: [] for split, _ in fractions}
    for item in files:
        dealt[_split_of(item.sha256, salt, fractions)].append(item)
    for split, mine in dealt.items():
        # By hash, so that classes are mixed within every shard and the shuffle buffer need not be large.
        mine.sort(key=lambda item: (item.sha256, item.file.path))
        count = _shard_count(mine, settings)
        shards += [ShardPlan(split, index, count, tuple(mine[index::count]), span) for index in range(count)]
    return shards


def _shard_count(files: Sequence[ListedFile], settings: "Ingest") -> int:
    by_bytes = -(-sum(item.size for item in files) // (settings.shard_mb << 20))
    return max(1, min(len(files), max(by_bytes, settings.min_shards)))
