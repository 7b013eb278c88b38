"""Exact duplicates among records, found in bounded memory: each shard writes fingerprints, which are merged.

    shard ─► (content, label, number) of each record ─► sorted runs in a file ─┐
                                                           … of all shards ────┴─► bucket by bucket ─► duplicates

A bucket is a part of the range of fingerprints that fits in memory. On one machine the buckets are read one after
another; on an engine each is one element (`compare_on_beam.py`). Two records count as equal if 64 bits of their content
are: among two million records, the chance of one error is one in ten million; among ten billion, about three errors
are expected.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from components.ingest.write.fingerprints import ROW, Hashes, Rows, groups
from components.ingest.write.shards import FINGERPRINTS, fingerprints_of
from components.storage.local_copy import local_copy

if TYPE_CHECKING:
    from components.storage.location import Location

_BUCKET, _MAX_BUCKETS = 1 << 19, 256  # rows per bucket, and maximum number of buckets
Place = tuple[str, int]  # shard, and the number of the record; see fingerprints.py
Piece = tuple[str, Rows]  # shard, and some of its fingerprints


@dataclass(frozen=True)
class Duplicates:
    """Records that occur more than once."""

    extra: int = 0  # records that are copies of another
    groups: int = 0
    conflicts: int = 0  # contents with two labels
    example: tuple[Place, Place] | None = None
    conflict: tuple[Place, Place] | None = None  # an example of two labels

    def warnings(self, name_of: Callable[[str, int], str], left_out: Sequence[str] = ()) -> list[str]:
        """Returns warnings for the manifest, one line each.

        Args:
            name_of: returns the name of a record, by its place.
            left_out: the columns that were not compared.
        """
        note = f"; not compared: {', '.join(left_out)}" if left_out else ""
        examples = {
            f"{self.extra} exact duplicates in {self.groups} groups, each kept within one split": self.example,
            f"{self.conflicts} groups of equal records have different labels": self.conflict,
        }
        return [
            f"{counts}, such as {' = '.join(name_of(*place) for place in places)}{note}"
            for counts, places in examples.items()
            if places
        ]


def row_name(shard: str, number: int) -> str:
    """Returns the name of a record that was a row."""
    return f"{shard} record {number + 1}"


def edges_of(buckets: int) -> Hashes:
    """Returns the fingerprints at which all buckets but the first begin."""
    return np.array([(number << 64) // buckets for number in range(1, buckets)], np.uint64)


def find(artifact: "Location", shards: Sequence[str]) -> tuple[Duplicates, int]:
    """Compares the records of these shards, and returns how many they are; a shard without fingerprints is left out."""
    with local_copy(artifact / FINGERPRINTS) as folder:
        return _find(folder, shards)


def _find(folder: Path, shards: Sequence[str]) -> tuple[Duplicates, int]:
    runs = [run for shard in shards for run in _runs(folder / Path(fingerprints_of(shard)).name, shard)]
    buckets = min(max(1, -(-sum(run.rows for run in runs) // _BUCKET)), _MAX_BUCKETS)
    cuts = [_cuts(run, edges_of(buckets)) for run in runs]
    found = [
        compare([run.piece(*cut[bucket : bucket + 2].tolist()) for run, cut in zip(runs, cuts, strict=True)])
        for bucket in range(buckets)
    ]
    left_out = sum(run.left_out for run in runs)
    return total(found, left_out), left_out + sum(run.rows for run in runs)


def divide(artifact: "Location", shard: str, buckets: int) -> Iterator[tuple[int, int, bytes]]:
    """Yields the fingerprints of a shard by bucket, and with them how many equal ones were left out."""
    with local_copy(artifact / fingerprints_of(shard)) as file:
        for run in _runs(file, shard):
            left_out, cuts = run.left_out, _cuts(run, edges_of(buckets)).tolist()
            rows = run.read(0, run.rows)
            for bucket, (start, stop) in enumerate(pairwise(cuts)):
                if start < stop:
                    yield bucket, left_out, rows[start:stop].tobytes()
                    left_out = 0


def total(found: Sequence[Duplicates], left_out: int) -> Duplicates:
    """Adds up the duplicates of all buckets, in their order."""
    return Duplicates(
        extra=left_out + sum(each.extra for each in found),
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
    shard: str

    def read(self, start: int, stop: int) -> Rows:
        # Not memory-mapped: mapped pages count as memory in use.
        return np.fromfile(self.path, ROW, stop - start, offset=(self.first + start) * ROW.itemsize)

    def piece(self, start: int, stop: int) -> Piece:
        return self.shard, self.read(start, stop)


def _runs(path: Path, shard: str) -> Iterator[_SortedRun]:
    total = path.stat().st_size // ROW.itemsize if path.is_file() else 0
    at = 0
    while at < total:
        [(left_out, _, rows)] = np.fromfile(path, ROW, 1, offset=at * ROW.itemsize).tolist()
        yield _SortedRun(path, at + 1, rows, left_out, shard)
        at += 1 + rows


def _cuts(run: _SortedRun, edges: Hashes) -> npt.NDArray[np.int64]:
    """Returns where each bucket begins in a run, and its end."""
    inner = np.searchsorted(run.read(0, run.rows)["content"], edges) if len(edges) else edges
    return np.array([0, *inner, run.rows], np.int64)


def compare(pieces: Sequence[Piece]) -> Duplicates:
    """Returns the duplicates of one bucket, the same whatever the order of its pieces."""
    taken = [rows for _, rows in pieces]
    rows = np.concatenate(taken) if taken else np.empty(0, ROW)
    contents = np.sort(rows["content"])
    repeated = contents[1:][contents[1:] == contents[:-1]]
    if not len(repeated):
        return Duplicates()
    same = np.flatnonzero(_is_in(rows["content"], repeated))
    piece = np.searchsorted(np.cumsum([len(each) for each in taken]), same, side="right")
    shards = sorted({shard for shard, _ in pieces})
    number_of = {shard: number for number, shard in enumerate(shards)}
    of = np.array([number_of[shard] for shard, _ in pieces])[piece]
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
