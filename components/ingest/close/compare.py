"""Compares records over all shards: exact duplicates and, among images, near duplicates.

one machine   fingerprints of all shards ─► here: bucket after bucket ──────────────┐
an engine     the same ─► compare_on_beam.py: one result per bucket, as a file ─────┴─► counts, and some pairs
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from components.errors import LedgerMismatch
from components.ingest.close import duplicates, near_duplicates, reports
from components.ingest.close.duplicates import Duplicates
from components.ingest.close.near_duplicates import FoundImage, NearFound
from components.ingest.write.report import ShardReport
from components.storage import durable, paths, transfers

if TYPE_CHECKING:
    from components.settings.ingest import Ingest
    from components.storage.location import Location

_PREFIX = "bucket-"
_READS = 8  # requests to a store at once
_NOTHING = NearFound()


@dataclass(frozen=True)
class Compared:
    """Records that occur more than once, and images in different splits that look the same."""

    exact: Duplicates
    near: NearFound = _NOTHING


@dataclass(frozen=True)
class ComparedBucket:
    """The result of one bucket."""

    records: int  # that were compared for exact duplicates, those that were left out included
    left_out: int
    compared: Compared


def here(artifact: "Location", found: Sequence[ShardReport], settings: "Ingest") -> Compared:
    """Compares the records of all shards in this process.

    Raises:
        LedgerMismatch: Records were not compared.
    """
    exact, compared = duplicates.find(artifact, [report.name for report in found if report.name])
    _check_counts(compared, found)
    if near_duplicates.applies(found, settings) != []:
        return Compared(exact)
    return Compared(exact, near_duplicates.find_all(near_duplicates.of_reports(found), settings.near_duplicate_bits))


def store(artifact: "Location", bucket: str, result: ComparedBucket) -> None:
    """Stores the result of one bucket; a retried bundle stores the same again."""
    content = orjson.dumps(result, default=list)  # images are named tuples
    durable.write_bytes(artifact / reports.FOLDER / f"{_PREFIX}{bucket}.json", content, sync=False)


def collect(artifact: "Location", found: Sequence[ShardReport]) -> Compared:
    """Adds up the results of all buckets.

    Raises:
        LedgerMismatch: Records were not compared.
    """
    folder = artifact / reports.FOLDER
    names = sorted(name for name in paths.files_below(folder) if name.startswith(_PREFIX))
    records, exact, near = 0, Duplicates(), _NOTHING
    for start in range(0, len(names), _READS):  # not all at once: each may list thousands of pairs
        read = transfers.each(
            lambda name: _from_json((folder / name).read_bytes()), names[start : start + _READS], _READS
        )
        records += sum(each.records for each in read)
        exact = duplicates.total([exact, *(each.compared.exact for each in read)], sum(each.left_out for each in read))
        near = near_duplicates.total([near, *(each.compared.near for each in read)])
    _check_counts(records, found)
    return Compared(exact, near)


def _check_counts(compared: int, found: Sequence[ShardReport]) -> None:
    records = sum(report.records for report in found)
    if compared < records:  # more: a writer has lost records, which the ledger says
        raise LedgerMismatch(f"{compared:,} of {records:,} records were compared to find duplicates: run again")


def _from_json(content: bytes) -> ComparedBucket:
    stored = orjson.loads(content)
    exact, near = stored["compared"]["exact"], stored["compared"]["near"]
    places: dict[str, Any] = {name: _places(exact[name]) for name in ("example", "conflict")}
    pairs = tuple((FoundImage(*one), FoundImage(*other)) for one, other in near["pairs"])
    compared = Compared(Duplicates(**{**exact, **places}), NearFound(near["count"], pairs, near["complete"]))
    return ComparedBucket(stored["records"], stored["left_out"], compared)


def _places(stored: list[list[Any]] | None) -> Any:
    return tuple((shard, number) for shard, number in stored) if stored else None
