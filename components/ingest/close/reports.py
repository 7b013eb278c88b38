"""Reports of work units, as files beside the shards.

What a Beam runner returns to its caller differs from runner to runner. A folder that all workers share does not, the
shards need one anyway, and a file survives a retried bundle.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from components.errors import LedgerMismatch
from components.ingest.write.report import ShardReport
from components.records.quarantine import Quarantined
from components.storage import durable

FOLDER = "reports"


def store(artifact: Path, unit: str, reports: Sequence[ShardReport]) -> None:
    """Stores the reports of one work unit; a retried bundle stores the same ones again."""
    content = orjson.dumps([asdict(report) for report in reports], option=orjson.OPT_NON_STR_KEYS)
    # Renamed, so that it is whole or absent, but not synced: after a crash of the machine nothing reads it.
    # Private, because it holds the quarantined rows.
    durable.write_bytes(_file_of(artifact, unit), content, private=True, sync=False)


def collect(artifact: Path, units: Sequence[str]) -> list[ShardReport]:
    """Returns the reports of all work units; raises LedgerMismatch if one has none."""
    missing = [unit for unit in units if not _file_of(artifact, unit).exists()]
    if missing:
        raise LedgerMismatch(f"{len(missing)} of {len(units)} work units were not written, such as {missing[0]}")
    return [report for unit in units for report in _read(_file_of(artifact, unit))]


def _file_of(artifact: Path, unit: str) -> Path:
    return artifact / FOLDER / (unit.replace("/", "_") + ".json")


def _read(path: Path) -> list[ShardReport]:
    return [from_json(stored) for stored in orjson.loads(path.read_bytes())]


def from_json(stored: dict[str, Any]) -> ShardReport:
    """Returns a report from its JSON form."""
    stored["sides"] = {int(side): count for side, count in stored["sides"].items()}
    stored["quarantined"] = tuple(Quarantined(**row) for row in stored["quarantined"])
    return ShardReport(**stored)
