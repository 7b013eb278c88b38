"""Compares records over all shards on Beam's workers: what crosses the shuffle is packed, many records per element.

    written unit ─► its reports ─┬─► fingerprints of its shards, cut into buckets ──────┐
    shards of reused spans ──────┴─► perceptual hashes of its images, cut into buckets ─┴─► GroupByKey on the bucket
                                                              ─► duplicates of the bucket ─► a file beside the reports

Exact duplicates are in one bucket because a bucket is a part of the range of fingerprints. Of near duplicates, some
bits are equal: for each choice of bits that may be equal, an image is in the bucket of these bits.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import apache_beam as beam
import numpy as np

from components.ingest.close import compare as results
from components.ingest.close import duplicates, near_duplicates, reports
from components.ingest.close.compare import Compared, ComparedBucket
from components.ingest.close.duplicates import Duplicates
from components.ingest.close.near_duplicates import PackedImages
from components.ingest.write.fingerprints import ROW
from components.ingest.write.report import ShardReport

if TYPE_CHECKING:
    from components.settings.ingest import Ingest
    from components.storage.location import Location

_Key: TypeAlias = tuple[int, int]  # number of a set of bits, or _EXACT; bucket
_Piece: TypeAlias = tuple[str, int, str, bytes]  # shard, equal fingerprints left out, split, rows; Beam has its coder
_EXACT = -1
_REUSED = "reused-"  # begins the names of the reports of reused shards
_SHARDS = 64  # reused ones per element


def compare(
    written: beam.PCollection,
    artifact: "Location",
    reused: Sequence[ShardReport],
    settings: "Ingest",
    buckets: int,
) -> None:
    """Adds the comparison of all records to a pipeline; `compare.collect` returns what it has found.

    Args:
        written: name and number of records of each work unit.
        artifact: where shards and reports are.
        reused: reports of shards that no unit writes.
        settings: of the ingest.
        buckets: into how many parts the fingerprints are divided.
    """
    names = [f"{_REUSED}{start:05d}" for start in range(0, len(reused), _SHARDS)]
    for number, name in enumerate(names):
        reports.store(artifact, name, reused[number * _SHARDS : (number + 1) * _SHARDS])
    bits = settings.near_duplicate_bits if settings.image_check != "header" else -1
    units = written | "NameUnits" >> beam.MapTuple(_first)
    if names:
        old = written.pipeline | "ReusedShards" >> beam.Create(names) | "DistributeReused" >> beam.Reshuffle()
        units = (units, old) | "AllUnits" >> beam.Flatten()
    cut = units | "CutIntoBuckets" >> beam.ParDo(_CutIntoBuckets(artifact, buckets, bits))
    _ = cut | "GroupBuckets" >> beam.GroupByKey() | "CompareBuckets" >> beam.ParDo(_CompareBucket(artifact, bits))


def _first(name: str, records: int) -> str:
    del records
    return name


class _CutIntoBuckets(beam.DoFn):
    """Yields the fingerprints and perceptual hashes of a work unit, by bucket."""

    def __init__(self, artifact: "Location", buckets: int, bits: int) -> None:
        self._artifact, self._buckets, self._bits = artifact, buckets, bits

    def process(self, name: str) -> Iterator[tuple[_Key, _Piece]]:
        found = [report for report in reports.of_unit(self._artifact, name) if report.name]
        for report in found:
            for bucket, left_out, rows in duplicates.divide(self._artifact, report.name, self._buckets):
                yield (_EXACT, bucket), (report.name, left_out, report.split, rows)
        for images in near_duplicates.of_reports(found) if self._bits >= 0 else ():
            for number in range(near_duplicates.choices(self._bits)):
                for bucket, part in near_duplicates.divide(images, self._bits, number):
                    yield (number, bucket), (part.shard, 0, part.split, part.rows)


class _CompareBucket(beam.DoFn):
    """Compares the records of one bucket, and stores what it finds."""

    def __init__(self, artifact: "Location", bits: int) -> None:
        self._artifact, self._bits = artifact, bits

    def process(self, group: tuple[_Key, Iterable[_Piece]]) -> tuple[()]:
        (kind, bucket), found = group
        # Zeros first: results are added up in the order of their names.
        results.store(self._artifact, f"{kind + 1:03d}-{bucket:05d}", self._compared(kind, list(found)))
        return ()

    def _compared(self, kind: int, pieces: Sequence[_Piece]) -> ComparedBucket:
        if kind != _EXACT:
            images = [PackedImages(shard, split, rows) for shard, _, split, rows in pieces]
            return ComparedBucket(0, 0, Compared(Duplicates(), near_duplicates.compare(images, self._bits, kind)))
        left_out = sum(left_out for _, left_out, _, _ in pieces)
        fingerprints = [(shard, np.frombuffer(rows, ROW)) for shard, _, _, rows in pieces]
        records = left_out + sum(len(rows) for _, rows in fingerprints)
        return ComparedBucket(records, left_out, Compared(duplicates.compare(fingerprints)))
