"""Exact duplicates among records, found without holding them: each shard leaves fingerprints, which are merged.

    shard ─► (content, label, number) of every record ─► sorted runs in a file ─┐
                                                             … of all shards ───┴─► bucket by bucket ─► what is twice

A bucket is a slice of the space of fingerprints that fits into memory, whatever the size of the data. Two records
count as the same if 64 bits of their content are: among two million that is wrong once in ten million times.
"""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from components import durable

_FOLDER = "fingerprints"
_ROW = np.dtype([("content", "<u8"), ("label", "<u4"), ("number", "<u4")])
_RUN = 1 << 18  # rows that are sorted together: 4 MB
_BUCKET = 1 << 19  # rows that are merged together
Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.void]
Place = tuple[str, int]  # shard, and the record's number in it, from 0


@dataclass(frozen=True)
class Duplicates:
    """What stands in the data more than once."""

    extra: int = 0  # records that could be left out
    groups: int = 0
    torn: int = 0  # contents that stand under two labels
    example: tuple[Place, Place] | None = None
    torn_example: tuple[Place, Place] | None = None

    def warnings(self) -> list[str]:
        """Returns what a person should know of it, a line each."""
        lines = []
        if self.example:
            told = f"{self.extra} exact duplicates in {self.groups} groups, each kept within one split"
            lines.append(f"{told}, such as {_shown(self.example)}")
        if self.torn_example:
            lines.append(f"{self.torn} records stand under two labels, such as {_shown(self.torn_example)}")
        return lines


class Notes:
    """Notes down the fingerprints of the records of one shard, in their order."""

    def __init__(self, artifact: Path, shard: str) -> None:
        self._target = file_of(artifact, shard)
        self._waiting: list[Rows] = []
        self._count, self._held = 0, 0

    def __enter__(self) -> "Notes":
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._aside = durable.aside_of(self._target)
        self._file = self._aside.open("wb")
        return self

    def add(self, contents: Hashes, labels: Hashes) -> None:
        """Notes the next records."""
        rows = np.empty(len(contents), _ROW)
        rows["content"], rows["label"] = contents, labels >> np.uint64(32)
        rows["number"] = np.arange(self._count, self._count + len(rows))
        self._waiting.append(rows)
        self._count += len(rows)
        self._held += len(rows)
        if self._held >= _RUN:
            self._store(whole_runs=True)

    def __exit__(self, failed: object, *_: object) -> None:
        with contextlib.closing(self._file):
            if not failed:
                self._store(whole_runs=False)
        # No fsync: after a crash of the machine there is no report either that would vouch for it.
        if failed:
            self._aside.unlink()
        else:
            self._aside.replace(self._target)

    def _store(self, *, whole_runs: bool) -> None:
        """Sorts and stores what is waiting; a run that is not whole may only be the last one of a file."""
        rows = np.concatenate(self._waiting) if self._waiting else np.empty(0, _ROW)
        end = len(rows) // _RUN * _RUN if whole_runs else len(rows)
        for start in range(0, end, _RUN):
            run = rows[start : min(start + _RUN, end)]
            self._file.write(run[np.argsort(run["content"])].tobytes())
        self._waiting, self._held = [rows[end:]], len(rows) - end


def file_of(artifact: Path, shard: str) -> Path:
    """Returns where the fingerprints of a shard are kept."""
    return artifact / _FOLDER / shard.replace("/", "_")


def clear(artifact: Path) -> None:
    """Removes all fingerprints."""
    if (artifact / _FOLDER).exists():
        shutil.rmtree(artifact / _FOLDER)


def find(artifact: Path, shards: Sequence[str]) -> Duplicates:
    """Compares all records of these shards; one without fingerprints is left out."""
    runs = [run for number, shard in enumerate(shards) for run in _runs(file_of(artifact, shard), number)]
    buckets = max(1, -(-sum(run.rows for run in runs) // _BUCKET))
    edges = [(number << 64) // buckets for number in range(1, buckets)]
    cuts = [_cuts(run, np.array(edges, np.uint64)) for run in runs]
    found = Duplicates()
    for bucket in range(buckets):
        pieces = [(run, cut[bucket], cut[bucket + 1]) for run, cut in zip(runs, cuts, strict=True)]
        found = _add(found, _compare(pieces, shards))
    return found


@dataclass(frozen=True)
class _Run:
    """Rows of a file that are sorted by their content."""

    path: Path
    first: int
    rows: int
    shard: int

    def read(self, start: int, stop: int) -> Rows:
        # Not mapped: pages of a map count as memory that is in use.
        return np.fromfile(self.path, _ROW, stop - start, offset=(self.first + start) * _ROW.itemsize)


def _runs(path: Path, shard: int) -> Iterator[_Run]:
    rows = path.stat().st_size // _ROW.itemsize if path.exists() else 0
    for first in range(0, rows, _RUN):
        yield _Run(path, first, min(_RUN, rows - first), shard)


def _cuts(run: _Run, edges: Hashes) -> list[int]:
    """Returns where each bucket begins in a run, and the end."""
    inner = np.searchsorted(run.read(0, run.rows)["content"], edges).tolist() if len(edges) else []
    return [0, *inner, run.rows]


def _compare(pieces: Sequence[tuple[_Run, int, int]], shards: Sequence[str]) -> Duplicates:
    """Returns what is there twice in one bucket."""
    taken = [run.read(start, stop) for run, start, stop in pieces]
    rows = np.concatenate(taken) if taken else np.empty(0, _ROW)
    contents = np.sort(rows["content"])
    repeated = contents[1:][contents[1:] == contents[:-1]]
    if not len(repeated):
        return Duplicates()
    of = np.repeat([run.shard for run, _, _ in pieces], [len(each) for each in taken])
    same = np.flatnonzero(_is_in(rows["content"], repeated))
    rows, of = rows[same], of[same]
    order = np.lexsort((rows["number"], of, rows["label"], rows["content"]))
    return _count(rows[order], of[order], shards)


def _is_in(values: Hashes, ordered: Hashes) -> npt.NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: npt.NDArray[np.bool_] = ordered[places] == values
    return found


def _count(rows: Rows, of: npt.NDArray[np.int64], shards: Sequence[str]) -> Duplicates:
    """Counts groups in rows that are ordered by content, then label, then place."""
    other_content = rows["content"][1:] != rows["content"][:-1]
    other_label = ~other_content & (rows["label"][1:] != rows["label"][:-1])
    repeats = ~other_content & ~other_label  # row i + 1 is the same record as row i
    firsts = repeats & ~np.append(False, repeats[:-1])
    contents = np.cumsum(np.append(0, other_content))

    def example(flags: npt.NDArray[np.bool_]) -> tuple[Place, Place] | None:
        if not flags.any():
            return None
        at = int(np.argmax(flags))
        first, second = ((shards[of[row]], int(rows["number"][row])) for row in (at, at + 1))
        return first, second

    return Duplicates(
        extra=int(repeats.sum()),
        groups=int(firsts.sum()),
        torn=len(np.unique(contents[1:][other_label])),
        example=example(repeats),
        torn_example=example(other_label),
    )


def _add(one: Duplicates, other: Duplicates) -> Duplicates:
    return replace(
        one,
        extra=one.extra + other.extra,
        groups=one.groups + other.groups,
        torn=one.torn + other.torn,
        example=one.example or other.example,
        torn_example=one.torn_example or other.torn_example,
    )


def _shown(places: tuple[Place, Place]) -> str:
    return " = ".join(f"{shard} record {number + 1}" for shard, number in places)
