"""Records that occur twice are counted, whatever the number of shards, in bounded memory."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import LedgerMismatch
from components.ingest.close import compare, duplicates
from components.ingest.close.duplicates import Duplicates, row_name
from components.ingest.write import fingerprints
from components.ingest.write.fingerprints import ROW, Hashes, fingerprint_writer
from components.ingest.write.report import ShardReport
from components.ingest.write.shards import fingerprints_of
from components.settings.ingest import Ingest

Record = tuple[int, int]  # content and label


def hashes(numbers: Sequence[int]) -> Hashes:
    """Spreads small numbers over the range of fingerprints."""
    return np.array(numbers, np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def write(artifact: Path, shards: Sequence[Sequence[Record]], step: int = 3) -> list[str]:
    """Writes the fingerprints of some shards, a few records at a time, and returns the shards' names."""
    names = [f"Split-train/data_tfrecord-{number:05d}-of-{len(shards):05d}" for number in range(len(shards))]
    for name, records in zip(names, shards, strict=True):
        with fingerprint_writer(artifact, name) as writer:
            for start in range(0, len(records), step):
                some = records[start : start + step]
                writer.add(hashes([content for content, _ in some]), np.array([label for _, label in some], np.uint32))
    return names


def counted(shards: Sequence[Sequence[Record]]) -> tuple[int, int, int]:
    """Counts by hand: extra records, groups, contents with two labels."""
    counts = Counter(record for records in shards for record in records)
    labels = defaultdict(set)
    for content, label in counts:
        labels[content].add(label)
    several = [count for count in counts.values() if count > 1]
    return sum(several) - len(several), len(several), sum(len(each) > 1 for each in labels.values())


def by_buckets(artifact: Path, names: Sequence[str], buckets: int) -> Duplicates:
    """Finds duplicates as workers do: each shard is cut, each bucket is compared alone, in any order of its pieces."""
    groups: dict[int, list[tuple[str, Any]]] = {bucket: [] for bucket in range(buckets)}
    extra = 0
    for name in reversed(names):
        for bucket, left_out, rows in duplicates.divide(artifact, name, buckets):
            groups[bucket].append((name, np.frombuffer(rows, ROW)))
            extra += left_out
    return duplicates.total([duplicates.compare(pieces) for pieces in groups.values()], extra)


RECORDS = st.tuples(st.integers(0, 30), st.integers(0, 2))


@settings(deadline=None)
@given(shards=st.lists(st.lists(RECORDS, max_size=40), max_size=4), run=st.integers(1, 20), bucket=st.integers(1, 20))
def test_counts_are_those_of_all_records_together(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[Record]], run: int, bucket: int
) -> None:
    """However they are spread over shards, runs and buckets."""
    artifact = tmp_path_factory.mktemp("artifact")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "_RUN", run)
        patch.setattr(duplicates, "_BUCKET", bucket)
        names = write(artifact, shards)
        found = duplicates.find(artifact, names)[0]

        assert by_buckets(artifact, names, bucket) == found
    assert (found.extra, found.groups, found.conflicts) == counted(shards)


@settings(deadline=None)
@given(shards=st.lists(st.lists(RECORDS, max_size=40), max_size=4), run=st.integers(1, 20), bucket=st.integers(1, 20))
def test_an_example_names_two_records_that_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[Record]], run: int, bucket: int
) -> None:
    """By shard and number; an equal content with another label is the other kind of example."""
    artifact = tmp_path_factory.mktemp("artifact")
    names: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "_RUN", run)
        patch.setattr(duplicates, "_BUCKET", bucket)
        names = write(artifact, shards)
        found = duplicates.find(artifact, names)[0]
    records = dict(zip(names, shards, strict=True))
    if found.example:
        (one, other) = found.example
        assert one != other
        assert records[one[0]][one[1]] == records[other[0]][other[1]]
    if found.conflict:
        (content, label), (same, another) = (records[shard][number] for shard, number in found.conflict)
        assert (content, label != another) == (same, True)

    assert [found.example is None, found.conflict is None] == [not found.groups, not found.conflicts]


def test_warnings(tmp_path: Path) -> None:
    """How many, in how many groups, and an example that can be looked up."""
    names = write(tmp_path, [[(1, 0), (2, 0), (3, 0)], [(4, 0), (2, 0), (3, 1)], [(2, 0)]])

    same, conflict = (f"{names[0]} record {number} = {names[1]} record {number}" for number in (2, 3))

    assert duplicates.find(tmp_path, names)[0].warnings(row_name) == [
        f"2 exact duplicates in 1 groups, each kept within one split, such as {same}",
        f"1 groups of equal records have different labels, such as {conflict}",
    ]


def test_records_that_are_all_different_give_no_warning(tmp_path: Path) -> None:
    """Neither do no records at all."""
    names = write(tmp_path, [[(1, 0), (2, 0)], [(3, 0)]])

    assert (duplicates.find(tmp_path, names)[0], Duplicates().warnings(row_name)) == (Duplicates(), [])


def test_one_record_a_million_times_takes_two_rows(tmp_path: Path) -> None:
    """A constant table must not fill the memory of the merge."""
    names = write(tmp_path, [[(7, 1)] * 1000], step=100)

    assert duplicates.find(tmp_path, names)[0].extra == 999
    assert (tmp_path / fingerprints_of(names[0])).stat().st_size == 3 * 16  # with the row before the run


def test_a_shard_without_fingerprints_is_left_out(tmp_path: Path) -> None:
    """Such as a shard of an earlier version."""
    names = write(tmp_path, [[(1, 0)], [(1, 0)]])
    (tmp_path / fingerprints_of(names[1])).unlink()

    assert duplicates.find(tmp_path, names)[0] == Duplicates()


def test_a_failed_shard_leaves_nothing(tmp_path: Path) -> None:
    """Neither fingerprints nor a temporary file."""
    with pytest.raises(ValueError, match="broadcast"), fingerprint_writer(tmp_path, "Split-train/x") as writer:
        writer.add(hashes([1]), np.array([1, 2], np.uint32))

    assert list((tmp_path / "fingerprints").iterdir()) == []


def test_a_full_disk_leaves_nothing(tiny_disk: Path) -> None:
    """Promise B5: the error is raised, and there is no truncated file."""
    many = np.arange(10_000, dtype=np.uint64)
    with pytest.raises(OSError, match="No space left"), fingerprint_writer(tiny_disk, "Split-train/x") as writer:
        writer.add(many, many.astype(np.uint32))

    assert list((tiny_disk / "fingerprints").iterdir()) == []


def test_records_that_are_not_compared_stop_the_ingest(tmp_path: Path) -> None:
    """Without its fingerprints a shard would have no duplicates."""
    names = write(tmp_path, [[(1, 1), (2, 1)], [(1, 1)]])
    reported = [ShardReport("train", name, records) for name, records in zip(names, (2, 1), strict=True)]
    settings = Ingest(near_duplicate_bits=-1)
    assert compare.here(tmp_path, reported, settings).exact.extra == 1
    (tmp_path / fingerprints_of(names[1])).unlink()

    with pytest.raises(LedgerMismatch, match=r"2 of 3 records were compared"):
        compare.here(tmp_path, reported, settings)
