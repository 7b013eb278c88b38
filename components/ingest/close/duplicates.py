"""Exact duplicates among records, found in bounded memory: each shard writes fingerprints, which are merged.

    shard ─► (content, label, number) of each record ─► sorted runs in a file ─┐
                                                           … of all shards ────┴─► bucket by bucket ─► duplicates

A bucket is a part of the range of fingerprints that fits in memory, for up to 130 million records of any size. Two
records count as equal if 64 bits of their content are: among two million records, the chance of one error is one in
ten million; among ten billion, about three errors are expected.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from components.ingest.write.fingerprints import FOLDER, ROW, Hashes, Rows, file_name, groups
from components.storage.local_copy import local_copy

if TYPE_CHECKING:
    from components.storage.location import Location

_BUCKET, _MAX_BUCKETS = 1 << 19, 256  # rows per bucket, and maximum number of buckets
Place = tuple[str, int]  # shard, and the record's number in it, from 0


@dataclass(frozen=True)
class Duplicates:
    """Records that occur more than once."""

    extra: int = 0  # records that are copies of another
    groups: int = 0
    conflicts: int = 0  # contents with two labels
    example: tuple[Place, Place] | None = None
    conflict: tuple[Place, Place] | None = None  # an example of two labels

    def warnings(self, left_out: Sequence[str] = ()) -> list[str]:
        """Returns warnings for the manifest, one line each; `left_out` are the columns that were not compared."""
        note = f"; not compared: {', '.join(left_out)}" if left_out else ""
        return describe(self.extra, self.groups, _shown(self.example), self.conflicts, _shown(self.conflict), note)


def describe(extra: int, groups: int, example: str, conflicts: int, conflict: str, note: str = "") -> list[str]:
    """Returns warnings about equal records; none without an example."""
    examples = {
        f"{extra} exact duplicates in {groups} groups, each kept within one split": example,
        f"{conflicts} groups of equal records have different labels": conflict,
    }
    return [f"{counts}, such as {shown}{note}" for counts, shown in examples.items() if shown]


def find(artifact: "Location", shards: Sequence[str]) -> Duplicates:
    """Compares all records of these shards; a shard without fingerprints is left out."""
    with local_copy(artifact / FOLDER) as folder:
        return _find(folder, shards)


def _find(folder: Path, shards: Sequence[str]) -> Duplicates:
    runs = [run for number, shard in enumerate(shards) for run in _runs(folder / file_name(shard), number)]
    buckets = min(max(1, -(-sum(run.rows for run in runs) // _BUCKET)), _MAX_BUCKETS)
    edges = np.array([(number << 64) // buckets for number in range(1, buckets)], np.uint64)
    cuts = [_cuts(run, edges) for run in runs]
    found = []
    for bucket in range(buckets):
        pieces = [(run, int(cut[bucket]), int(cut[bucket + 1])) for run, cut in zip(runs, cuts, strict=True)]
        found.append(_compare(pieces, shards))
    return Duplicates(
        extra=sum(run.left_out for run in runs) + sum(each.extra for each in found),
        groups=sum(each.groups for each in found),
        conflicts=sum(each.conflicts for each in found),
        example=next((each.example for each in found if each.example), None),
        conflict=next((each.conflict for each in found if each.conflict), None),
    )


@dataclass(frozen=True)
class _SortedRun:
    """Rows of a file that are sorted by content."""

    path: Path
    first: int
    rows: int
    left_out: int  # rows of records that are in it twice already
    shard: int

    def read(self, start: int, stop: int) -> Rows:
        # Not memory-mapped: mapped pages count as memory in use.
        return np.fromfile(self.path, ROW, stop - start, offset=(self.first + start) * ROW.itemsize)


def _runs(path: Path, shard: int) -> Iterator[_SortedRun]:
    total = path.stat().st_size // ROW.itemsize if path.exists() else 0
    at = 0
    while at < total:
        [(left_out, _, rows)] = np.fromfile(path, ROW, 1, offset=at * ROW.itemsize).tolist()
        yield _SortedRun(path, at + 1, rows, left_out, shard)
        at += 1 + rows


def _cuts(run: _SortedRun, edges: Hashes) -> npt.NDArray[np.int64]:
    """Returns where each bucket begins in a run, and its end."""
    inner = np.searchsorted(run.read(0, run.rows)["content"], edges) if len(edges) else edges
    return np.array([0, *inner, run.rows], np.int64)


def _compare(pieces: Sequence[tuple[_SortedRun, int, int]], shards: Sequence[str]) -> Duplicates:
    """Returns the duplicates of one bucket."""
    taken = [run.read(start, stop) for run, start, stop in pieces]
    rows = np.concatenate(taken) if taken else np.empty(0, ROW)
    contents = np.sort(rows["content"])
    repeated = contents[1:][contents[1:] == contents[:-1]]
    if not len(repeated):
        return Duplicates()
    same = np.flatnonzero(_is_in(rows["content"], repeated))
    piece = np.searchsorted(np.cumsum([len(each) for each in taken]), same, side="right")
    of = np.array([run.shard for run, _, _ in pieces])[piece]
    rows = rows[same]
    order = np.lexsort((rows["number"], of, rows["label"], rows["content"]))
    return _count(rows[order], [shards[number] for number in of[order]])


def _is_in(values: Hashes, ordered: Hashes) -> npt.NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: npt.NDArray[np.bool_] = ordered[places] == values
    return found


def _count(rows: Rows, shards: Sequence[str]) -> Duplicates:
    """Counts duplicates in rows that are sorted by content, then label, then place."""
    starts, sizes = groups(rows)
    # Equal contents with different labels are neighbours.
    conflicts = np.append(False, rows["content"][starts][1:] == rows["content"][starts][:-1])

    def example(row: int) -> tuple[Place, Place]:
        first, second = ((shards[at], int(rows["number"][at])) for at in (row - 1, row))
        return first, second

    return Duplicates(
        extra=int((sizes - 1).sum()),
        groups=int((sizes > 1).sum()),
        conflicts=len(np.unique(rows["content"][starts][conflicts])),
        example=example(int(starts[sizes > 1][0]) + 1) if (sizes > 1).any() else None,
        conflict=example(int(starts[conflicts][0])) if conflicts.any() else None,
    )


def _shown(places: tuple[Place, Place] | None) -> str:
    return " = ".join(f"{shard} record {number + 1}" for shard, number in places or ())
