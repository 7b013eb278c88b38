"""Images in different splits that look the same: a re-encoded copy is a leak that no checksum finds.

    shards ─► (content, perceptual hash) of every image ─► hashes within a few bits ─► pairs in different splits

Hashes that differ in at most `bits` of their 64 bits are found without comparing all with all. Cut both into
`bits + k` bands: at least k of them must be equal. So for every choice of k bands the hashes are sorted by these alone,
and only neighbours with the same key are compared. k is chosen so that a key has 16 bits or more: among 200,000
images a few share it by chance.

One choice and some of its keys are one bucket. On one machine the buckets are compared one after another; on an engine
each is one element (`compare_on_beam.py`). What is found is the same, because limits apply to each bucket. A pair that
is equal in several choices is counted in the first of them.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from components.ingest.survey.listing import Listing
from components.ingest.write.report import ShardReport
from components.records.manifest import NEAR_DUPLICATES
from components.records.quarantine import printable
from components.settings.ingest import Ingest
from components.settings.splits import SPLITS
from components.storage import durable

if TYPE_CHECKING:
    from components.storage.location import Location

_BITS = 64
_MAX_LISTED = 10_000  # pairs
_BUCKETS = 64  # of each choice of bits
_MAX_COMPARED = 50_000_000  # per bucket: takes a few seconds, even if all images look alike
_MAX_FOUND = 1_000_000  # pairs of perceptual hashes, per bucket
_ROW = np.dtype([("content", "<u8"), ("perceptual_hash", "<u8"), ("number", "<u4")])  # see report.pack_hashes
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # multiplied with a key, its upper bits depend on all of the key's
_ONES = np.array([number.bit_count() for number in range(256)], np.uint8)

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NearPair:
    """Two images in different splits that look the same."""

    path: str
    split: str
    like: str
    like_split: str
    bits: int  # number of bits in which their perceptual hashes differ


@dataclass(frozen=True)
class NearDuplicates:
    """Pairs of images in different splits that look the same."""

    count: int = 0  # pairs in different splits
    pairs: tuple[NearPair, ...] = ()  # the first of them
    complete: bool = True  # whether all perceptual hashes were compared

    def warnings(self, bits: int) -> list[str]:
        """Returns warnings for the manifest, one line each."""
        if not self.count:
            return []
        some = "" if self.complete else "at least "
        first = self.pairs[0]
        listed = "all" if len(self.pairs) == self.count else f"the first {len(self.pairs):,}"
        same = f"look the same (they differ in at most ingest.near_duplicate_bits = {bits} of {_BITS} bits)"
        example = f"such as {first.path} ({first.split}) = {first.like} ({first.like_split})"
        where = f"{listed} are listed in {NEAR_DUPLICATES}"
        return [f"{some}{self.count:,} pairs of images in different splits {same}, {example}; {where}"]


class FoundImage(NamedTuple):
    """An image of a pair, in the order in which pairs are listed."""

    perceptual_hash: int
    content: int  # start of its SHA-256
    split: int
    shard: str
    number: int  # of its file in the listing, if a file is a record


@dataclass(frozen=True)
class NearFound:
    """Pairs of images before they are named; those of several buckets can be added up."""

    count: int = 0
    pairs: tuple[tuple[FoundImage, FoundImage], ...] = ()
    complete: bool = True


@dataclass(frozen=True)
class PackedImages:
    """The images of one shard, or some of them."""

    shard: str
    split: str
    rows: bytes  # as report.pack_hashes packs them


@dataclass(frozen=True)
class HashedImages:
    """Images with their content, perceptual hash and split, sorted by content; each content once."""

    contents: Hashes
    hashes: Hashes
    splits: Numbers
    numbers: Numbers  # of the files
    of: Numbers  # which of the shards
    shards: Sequence[str]

    def image(self, at: int) -> FoundImage:
        """Returns one of them."""
        return FoundImage(
            int(self.hashes[at]),
            int(self.contents[at]),
            int(self.splits[at]),
            self.shards[self.of[at]],
            int(self.numbers[at]),
        )


@dataclass(frozen=True)
class _Groups:
    """Images grouped by perceptual hash."""

    hashes: Hashes
    order: Numbers  # indices of the images, sorted by perceptual hash
    starts: Numbers  # where each group starts in `order`, and its end
    sizes: Numbers  # images per group and split

    def members(self, group: int) -> list[int]:
        """Returns the indices of the images of one group."""
        members: list[int] = self.order[self.starts[group] : self.starts[group + 1]].tolist()
        return members


def applies(reports: Sequence[ShardReport], settings: Ingest) -> list[str] | None:
    """Returns a warning if images were not decoded, none if they are to be compared, and None if they are not."""
    if settings.near_duplicate_bits < 0:
        return None
    if settings.image_check == "header" and any(side for report in reports for side in report.sides):
        return ["near duplicates were not searched: ingest.image_check = header decodes no image"]
    return []


def of_reports(reports: Sequence[ShardReport]) -> list[PackedImages]:
    """Returns the images of all shards."""
    filled = [report for report in reports if report.perceptual_hashes]
    return [PackedImages(each.name, each.split, base64.b64decode(each.perceptual_hashes)) for each in filled]


def find_all(images: Sequence[PackedImages], bits: int) -> NearFound:
    """Compares all images in this process, bucket after bucket."""
    found = NearFound()
    for number in range(choices(bits)):
        buckets: dict[int, list[PackedImages]] = {}
        for each in images:
            for bucket, part in divide(each, bits, number):
                buckets.setdefault(bucket, []).append(part)
        for parts in buckets.values():
            found = total([found, compare(parts, bits, number)])
    return found


def choices(bits: int) -> int:
    """Returns the number of sets of bits that may be equal."""
    return sum(1 for _ in _masks(bits))


def divide(images: PackedImages, bits: int, number: int) -> Iterator[tuple[int, PackedImages]]:
    """Yields images by bucket of one set of bits: near ones are together in at least one set."""
    rows, mask = np.frombuffer(images.rows, _ROW), list(_masks(bits))[number]
    upper = (rows["perceptual_hash"] & mask) * _SPREAD >> np.uint64(32)
    which = upper * np.uint64(_BUCKETS) >> np.uint64(32)  # by the uppermost bits: lower ones depend on fewer
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(_BUCKETS + 1, dtype=np.uint64)).tolist()
    for bucket, (start, stop) in enumerate(pairwise(starts)):
        if start < stop:
            yield bucket, PackedImages(images.shard, images.split, rows[order[start:stop]].tobytes())


def named(found: NearFound, name_of: Callable[[FoundImage], str]) -> NearDuplicates:
    """Returns the pairs with the names of their images."""
    return NearDuplicates(found.count, tuple(_pair(*pair, name_of) for pair in found.pairs), found.complete)


def names_of(listing: Listing, found: NearFound) -> dict[int, str]:
    """Returns the path of each content of these pairs; the first one if several files have the same bytes."""
    wanted = {image.content for pair in found.pairs for image in pair}
    known = dict[int, str]()
    for path, _, identity in listing.identities() if wanted else ():
        if not identity.startswith("stat ") and (content := int(identity[:16], 16)) in wanted:
            known.setdefault(content, printable(path))
    return known


def total(found: Sequence[NearFound]) -> NearFound:
    """Adds up the pairs of all buckets."""
    pairs = sorted((pair for each in found for pair in each.pairs), key=_order)
    complete = all(each.complete for each in found)
    return NearFound(sum(each.count for each in found), tuple(pairs[:_MAX_LISTED]), complete)


def _order(pair: tuple[FoundImage, FoundImage]) -> tuple[bool, int, int, int, int]:
    one, other = pair
    return (
        one.perceptual_hash != other.perceptual_hash,
        one.perceptual_hash,
        other.perceptual_hash,
        one.content,
        other.content,
    )


def write(artifact: "Location", found: NearDuplicates) -> None:
    """Writes the list of pairs into the artifact, if there are any."""
    if found.pairs:
        lines = [orjson.dumps(pair) + b"\n" for pair in found.pairs]
        durable.write_bytes(artifact / NEAR_DUPLICATES, b"".join(lines))


def compare(images: Sequence[PackedImages], bits: int, number: int) -> NearFound:
    """Returns the pairs of one bucket in different splits whose perceptual hashes differ in at most `bits` bits.

    Args:
        images: those of one bucket.
        bits: largest distance.
        number: of the set of bits that decides the bucket; pairs that an earlier one brings together are left out.
    """
    return find(_unpack(images), bits, number)


def find(images: HashedImages, bits: int, number: int) -> NearFound:
    """Does the same with images in columns."""
    groups = _group(images)
    near, complete = within(groups.hashes, bits, number)
    same = np.empty(0, np.int64) if number else np.flatnonzero(groups.sizes.sum(axis=1) > 1)
    pairs = np.concatenate([np.stack([same, same], axis=1), near])
    counts = _count_across(groups, pairs)
    found = chain.from_iterable(_across(images, groups, *pair) for pair in pairs[counts > 0].tolist())
    listed = tuple((images.image(one), images.image(other)) for one, other in islice(found, _MAX_LISTED))
    return NearFound(int(counts.sum()), listed, complete)


def within(hashes: Hashes, bits: int, number: int) -> tuple[Numbers, bool]:
    """Returns the indices of pairs of hashes that differ in at most `bits` bits, and whether these are all.

    They are equal in a set of bits, and in no earlier one.
    """
    masks = list(_masks(bits))
    found, budget = _neighbours(hashes, masks[number], bits, _MAX_COMPARED)
    found = np.unique(found)
    complete = budget >= 0 and len(found) <= _MAX_FOUND
    pairs = np.stack(np.divmod(found[:_MAX_FOUND], max(1, len(hashes))), axis=1)
    different = hashes[pairs[:, 0]] ^ hashes[pairs[:, 1]]
    for mask in masks[:number]:
        pairs, different = pairs[different & mask != 0], different[different & mask != 0]
    return pairs, complete


def _masks(bits: int) -> Iterator[np.uint64]:
    """Yields sets of bits; hashes that are near enough are equal in at least one of the sets."""
    kept = max(1, -(-bits // 3))
    edges = [_BITS * band // (bits + kept) for band in range(bits + kept + 1)]
    bands = [(1 << stop) - (1 << start) for start, stop in pairwise(edges)]
    for chosen in combinations(bands, kept):
        yield np.uint64(sum(chosen))


def _neighbours(hashes: Hashes, mask: np.uint64, bits: int, budget: int) -> tuple[Numbers, int]:
    """Returns near pairs, as smaller index * n + larger index, among hashes with equal bits under the mask."""
    order = np.argsort(hashes & mask, kind="stable")
    ordered = hashes[order]
    keys = ordered & mask
    found = [np.empty(0, np.int64)]
    left = np.flatnonzero(keys[1:] == keys[:-1])
    step = 1
    while len(left) and budget >= 0 and sum(map(len, found)) <= _MAX_FOUND:
        budget -= len(left)
        near = left[_distance(ordered[left], ordered[left + step]) <= bits]
        one, other = order[near], order[near + step]
        found.append(np.minimum(one, other) * len(hashes) + np.maximum(one, other))
        step += 1
        left = left[left + step < len(keys)]
        left = left[keys[left] == keys[left + step]]
    return np.concatenate(found), budget


def _distance(one: Hashes, other: Hashes) -> Numbers:
    """Returns the number of bits in which hashes differ."""
    ones: Numbers = _ONES[(one ^ other).view(np.uint8)].reshape(-1, 8).sum(axis=1)
    return ones


def _group(images: HashedImages) -> _Groups:
    order = np.argsort(images.hashes, kind="stable")
    hashes, starts, which = np.unique(images.hashes[order], return_index=True, return_inverse=True)
    sizes = np.bincount(which * len(SPLITS) + images.splits[order], minlength=len(hashes) * len(SPLITS))
    return _Groups(hashes, order, np.append(starts, len(order)), sizes.reshape(-1, len(SPLITS)))


def _count_across(groups: _Groups, pairs: Numbers) -> Numbers:
    """Returns for each pair of groups how many pairs of their images are in different splits."""
    one, other = groups.sizes[pairs[:, 0]], groups.sizes[pairs[:, 1]]
    counts: Numbers = one.sum(axis=1) * other.sum(axis=1) - (one * other).sum(axis=1)
    return np.where(pairs[:, 0] == pairs[:, 1], counts // 2, counts)


def _across(images: HashedImages, groups: _Groups, one: int, other: int) -> Iterator[tuple[int, int]]:
    """Yields the pairs of images of two groups that are in different splits."""
    for left in groups.members(one):
        for right in groups.members(other):
            if images.splits[left] != images.splits[right] and (one != other or left < right):
                yield left, right


def _pair(one: FoundImage, other: FoundImage, name_of: Callable[[FoundImage], str]) -> NearPair:
    bits = (one.perceptual_hash ^ other.perceptual_hash).bit_count()
    (split, path), (like_split, like) = sorted((each.split, name_of(each)) for each in (one, other))
    return NearPair(path, SPLITS[split], like, SPLITS[like_split], bits)


def _unpack(images: Sequence[PackedImages]) -> HashedImages:
    """Returns images in columns; those with the same content are one, the same whatever the order of the shards."""
    images = sorted(images, key=lambda each: each.shard)
    rows = [np.frombuffer(each.rows, _ROW) for each in images]
    sizes = list(map(len, rows))
    every = np.concatenate([*rows, np.empty(0, _ROW)])
    _, first = np.unique(every["content"], return_index=True)
    splits = np.repeat(np.array([SPLITS.index(each.split) for each in images], np.int64), sizes)
    shards = np.repeat(np.arange(len(images)), sizes)
    return HashedImages(
        every["content"][first],
        every["perceptual_hash"][first],
        splits[first],
        every["number"][first].astype(np.int64),
        shards[first],
        [each.shard for each in images],
    )
