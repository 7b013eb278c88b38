"""How shard reports come back from the workers: as files beside the shards.

What a Beam runner hands back to its caller differs from runner to runner; a folder that all workers share does not,
and the shards need one anyway.
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import orjson

from components import durable
from components.errors import LedgerMismatch
from components.ingest.shards import ShardPlan
from components.ingest.sources import Refused
from components.ingest.write import ShardReport

_FOLDER = "reports"


def store(artifact: Path, report: ShardReport) -> None:
    """Leaves one report; a retried bundle leaves the same one again."""
    target = _file_of(artifact, report.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    durable.write_bytes(target, orjson.dumps(asdict(report), option=orjson.OPT_NON_STR_KEYS))


def collect(artifact: Path, plans: Sequence[ShardPlan]) -> list[ShardReport]:
    """Takes all reports away; a shard without one was not written."""
    missing = [plan.name for plan in plans if not _file_of(artifact, plan.name).exists()]
    if missing:
        raise LedgerMismatch(f"{len(missing)} of {len(plans)} shards were not written, such as {missing[0]}")
    reports = [_read(_file_of(artifact, plan.name)) for plan in plans]
    shutil.rmtree(artifact / _FOLDER)
    return reports


def _file_of(artifact: Path, shard_name: str) -> Path:
    return artifact / _FOLDER / (shard_name.replace("/", "_") + ".json")


def _read(path: Path) -> ShardReport:
    stored = orjson.loads(path.read_bytes())
    stored["sides"] = {int(side): count for side, count in stored["sides"].items()}
    stored["quarantined"] = tuple(Refused(**row) for row in stored["quarantined"])
    return ShardReport(**stored)
