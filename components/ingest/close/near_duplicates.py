"""Images in different splits that look the same: a re-encoded copy is a leak that no checksum finds.

    shards ─► (content, perceptual hash) of every image ─► hashes within a few bits ─► pairs in different splits

Hashes that differ in at most `bits` of their 64 bits are found without comparing all with all. Cut both into
`bits + k` bands: at least k of them must be equal. So for every choice of k bands the hashes are sorted by these alone,
and only neighbours with the same key are compared. k is chosen so that a key has 16 bits or more: among 200,000
images a few share it by chance.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from components.ingest.survey.listing import Listing
from components.records.quarantine import printable
from components.settings.ingest import Ingest
from components.settings.splits import SPLITS
from components.storage import durable

NEAR_DUPLICATES = "near_duplicates.jsonl"
_BITS = 64
_LISTED = 10_000  # pairs
_COMPARED = 50_000_000  # some seconds: images that all look much the same must not take for ever
_FOUND = 1_000_000  # pairs of perceptual hashes
_ROW = np.dtype([("content", "<u8"), ("perceptual_hash", "<u8")])
_ONES = np.array([number.bit_count() for number in range(256)], np.uint8)

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pair:
    """Two images that look the same, each with its split."""

    path: str
    split: str
    like: str
    like_split: str
    bits: int  # in which their perceptual hashes differ


@dataclass(frozen=True)
class NearDuplicates:
    """What was found."""

    count: int = 0  # pairs in different splits
    pairs: tuple[Pair, ...] = ()  # the first of them
    complete: bool = True  # whether all perceptual hashes were compared

    def warnings(self, bits: int) -> list[str]:
        """Returns what a person should know of it, a line each."""
        if not self.count:
            return []
        some = "" if self.complete else "at least "
        first = self.pairs[0]
        listed = "all" if len(self.pairs) == self.count else f"the first {len(self.pairs):,}"
        same = f"look the same (they differ in at most ingest.near_bits = {bits} of {_BITS} bits)"
        example = f"such as {first.path} ({first.split}) = {first.like} ({first.like_split})"
        where = f"{listed} are listed in {NEAR_DUPLICATES}"
        return [f"{some}{self.count:,} pairs of images in different splits {same}, {example}; {where}"]


@dataclass(frozen=True)
class Seen:
    """Images, each with its content, perceptual hash and split; no content twice in a split."""

    contents: Hashes
    hashes: Hashes
    splits: Numbers


@dataclass(frozen=True)
class _Groups:
    """Each perceptual hash once, and who has it."""

    hashes: Hashes
    order: Numbers  # numbers of the images, by perceptual hash
    starts: Numbers  # where in them a group starts, and the end
    sizes: Numbers  # images of a group, by split

    def members(self, group: int) -> list[int]:
        """Returns the numbers of the images with a perceptual hash."""
        members: list[int] = self.order[self.starts[group] : self.starts[group + 1]].tolist()
        return members


def pack(hashes: Sequence[tuple[str, int]]) -> str:
    """Returns (sha256, perceptual_hash) of images as text: as JSON numbers they would be most of a shard's report."""
    rows = np.array([(int(sha256[:16], 16), value) for sha256, value in hashes], _ROW)
    return base64.b64encode(rows.tobytes()).decode()


def close_look(manifest: Listing, reports: Sequence[Any], settings: Ingest) -> tuple[NearDuplicates, list[str]]:
    """Compares the images that shards tell of; returns what was found, and what a person should know of it."""
    if settings.near_bits < 0:
        return NearDuplicates(), []
    if settings.image_check == "header" and any(side for report in reports for side in report.sides):
        return NearDuplicates(), ["near duplicates were not looked for: ingest.image_check = header decodes no image"]
    seen = _unpack(reports)
    found = find(seen, _paths(manifest, seen), settings.near_bits)
    return found, found.warnings(settings.near_bits)


def write(artifact: Path, found: NearDuplicates) -> None:
    """Lists the pairs in the artifact, if there are any."""
    if found.pairs:
        lines = [orjson.dumps(pair) + b"\n" for pair in found.pairs]
        durable.write_bytes(artifact / NEAR_DUPLICATES, b"".join(lines))


def find(seen: Seen, paths: Sequence[str], bits: int) -> NearDuplicates:
    """Returns all pairs in different splits whose perceptual hashes differ in at most `bits` bits."""
    groups = _group(seen)
    near, complete = within(groups.hashes, bits)
    same = np.flatnonzero(groups.sizes.sum(axis=1) > 1)
    pairs = np.concatenate([np.stack([same, same], axis=1), near])
    apart = _apart(groups, pairs)
    found = chain.from_iterable(_across(seen, groups, *pair) for pair in pairs[apart > 0].tolist())
    listed = tuple(_pair(seen, paths, *each) for each in islice(found, _LISTED))
    return NearDuplicates(int(apart.sum()), listed, complete)


def within(hashes: Hashes, bits: int) -> tuple[Numbers, bool]:
    """Returns the numbers of all pairs of different hashes that differ in at most `bits` bits, and if it is all."""
    found = np.empty(0, np.int64)
    budget, complete = _COMPARED, True
    for mask in _masks(bits):
        fresh, budget = _neighbours(hashes, mask, bits, budget)
        found = np.unique(np.concatenate([found, fresh]))
        complete = budget >= 0 and len(found) <= _FOUND
        if not complete:
            break
    return np.stack(np.divmod(found[:_FOUND], max(1, len(hashes))), axis=1), complete


def _masks(bits: int) -> Iterator[np.uint64]:
    """Yields the bits that are compared together; hashes that are near enough are equal in some such choice."""
    kept = max(1, -(-bits // 3))
    edges = [_BITS * band // (bits + kept) for band in range(bits + kept + 1)]
    bands = [(1 << stop) - (1 << start) for start, stop in pairwise(edges)]
    for chosen in combinations(bands, kept):
        yield np.uint64(sum(chosen))


def _neighbours(hashes: Hashes, mask: np.uint64, bits: int, budget: int) -> tuple[Numbers, int]:
    """Returns near pairs (smaller number * n + larger one) among perceptual hashes with equal bits under the mask."""
    order = np.argsort(hashes & mask, kind="stable")
    ordered = hashes[order]
    keys = ordered & mask
    found = [np.empty(0, np.int64)]
    left = np.flatnonzero(keys[1:] == keys[:-1])
    step = 1
    while len(left) and budget >= 0 and sum(map(len, found)) <= _FOUND:
        budget -= len(left)
        near = left[_distance(ordered[left], ordered[left + step]) <= bits]
        one, other = order[near], order[near + step]
        found.append(np.minimum(one, other) * len(hashes) + np.maximum(one, other))
        step += 1
        left = left[left + step < len(keys)]
        left = left[keys[left] == keys[left + step]]
    return np.concatenate(found), budget


def _distance(one: Hashes, other: Hashes) -> Numbers:
    """Returns in how many bits perceptual hashes differ."""
    ones: Numbers = _ONES[(one ^ other).view(np.uint8)].reshape(-1, 8).sum(axis=1)
    return ones


def _group(seen: Seen) -> _Groups:
    order = np.argsort(seen.hashes, kind="stable")
    hashes, starts, which = np.unique(seen.hashes[order], return_index=True, return_inverse=True)
    sizes = np.bincount(which * len(SPLITS) + seen.splits[order], minlength=len(hashes) * len(SPLITS))
    return _Groups(hashes, order, np.append(starts, len(order)), sizes.reshape(-1, len(SPLITS)))


def _apart(groups: _Groups, pairs: Numbers) -> Numbers:
    """Returns how many images of two groups, or of one with itself, are in different splits, pair by pair."""
    one, other = groups.sizes[pairs[:, 0]], groups.sizes[pairs[:, 1]]
    apart: Numbers = one.sum(axis=1) * other.sum(axis=1) - (one * other).sum(axis=1)
    return np.where(pairs[:, 0] == pairs[:, 1], apart // 2, apart)


def _across(seen: Seen, groups: _Groups, one: int, other: int) -> Iterator[tuple[int, int]]:
    """Yields the images of two groups that are in different splits."""
    for left in groups.members(one):
        for right in groups.members(other):
            if seen.splits[left] != seen.splits[right] and (one != other or left < right):
                yield left, right


def _pair(seen: Seen, paths: Sequence[str], one: int, other: int) -> Pair:
    bits = int(_distance(seen.hashes[[one]], seen.hashes[[other]])[0])
    (split, path), (like_split, like) = sorted((int(seen.splits[each]), paths[each]) for each in (one, other))
    return Pair(path, SPLITS[split], like, SPLITS[like_split], bits)


def _unpack(reports: Sequence[Any]) -> Seen:
    """Returns what shards tell of; records with the same content are one."""
    told = [report for report in reports if report.perceptual_hashes]
    rows = [np.frombuffer(base64.b64decode(report.perceptual_hashes), _ROW) for report in told]
    splits = [np.full(len(each), SPLITS.index(report.split)) for each, report in zip(rows, told, strict=True)]
    every = np.concatenate([*rows, np.empty(0, _ROW)])
    _, first = np.unique(every["content"], return_index=True)
    every_split = np.concatenate([*splits, np.empty(0, int)])
    return Seen(every["content"][first], every["perceptual_hash"][first], every_split[first])


def _paths(manifest: Listing, seen: Seen) -> list[str]:
    """Returns a file of each content; of several with the same bytes the first."""
    known = {int(item.sha256[:16], 16): item.file.path for item in reversed(manifest.files)}
    return [printable(known.get(content, "")) for content in seen.contents.tolist()]
