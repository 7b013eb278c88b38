"""Shards are compared with the manifest before anything is learned from them; what differs is looked into.

    size, checksum as ingest wrote them? ── yes ──► read it
                 │ no
                 ▼
    record after record: length, checksum of the length, data, checksum of the data ─► where it is damaged, and how
                 │
                 ├─ on_bad = stop ──► the run ends, naming shard, byte offset and what is wrong
                 └─ on_bad = skip ──► a copy of the intact records is read; the loss is listed, and has a budget

TensorFlow reads a shard that was cut between two records, or that has something behind its end, without a word.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.errors import BadInput
from components.input_pipeline.sharding import RecordFile
from components.records import checksum, record_walk
from components.records.manifest import Shard
from components.records.quarantine import printable
from components.records.record_walk import Fault
from components.settings.input import Input

_SHOWN = 5


@dataclass(frozen=True)
class Damage:
    """What is wrong with a shard, and what it costs."""

    shard: str
    records: int  # that ingest wrote
    lost: int
    faults: tuple[Fault, ...]

    def told(self, home: Path) -> str:
        """Returns it as a line for people."""
        first = self.faults[0]
        more = f", and at {len(self.faults) - 1} more places" if len(self.faults) > 1 else ""
        lost = f"{self.lost:,} of {self.records:,} records are lost" if self.lost else "no record is lost"
        return f"{printable(str(home / self.shard))}: {first.reason} at byte offset {first.offset:,}{more}; {lost}"

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Checked:
    """Shards to be read, and what is missing in them."""

    files: tuple[RecordFile, ...]
    damages: tuple[Damage, ...] = ()

    @property
    def lost(self) -> int:
        """Records that ingest wrote and that are not read."""
        return sum(damage.lost for damage in self.damages)


@contextlib.contextmanager
def readable(artifact: Path, shards: Sequence[Shard], settings: Input) -> Iterator[Checked]:
    """Yields the shards, each compared with the manifest; copies of damaged ones are gone afterwards."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = [
            shard
            for shard, good in zip(shards, pool.map(lambda s: _is_whole(artifact, s), shards), strict=True)
            if not good
        ]
    if not bad:
        yield Checked(tuple(_file(artifact / shard.name, shard) for shard in shards if shard.records))
        return
    with tempfile.TemporaryDirectory(prefix="penstock-intact-") as folder:
        looked = {shard.name: _look(artifact, shard) for shard in bad}
        damages = tuple(damage for damage, _ in looked.values())
        _decide(artifact, damages, sum(shard.records for shard in shards), settings)
        files = []
        for number, shard in enumerate(shards):
            if shard.name not in looked:
                files.append(_file(artifact / shard.name, shard))
            elif looked[shard.name][1]:
                files.append(_copy(Path(folder, f"{number:05d}"), looked[shard.name][1]))
        yield Checked(tuple(file for file in files if file.records), damages)


def _is_whole(artifact: Path, shard: Shard) -> bool:
    path = artifact / shard.name
    try:
        return path.stat().st_size == shard.bytes and checksum.of_file(path) == shard.checksum
    except OSError:
        return False


def _file(path: Path, shard: Shard) -> RecordFile:
    return RecordFile(path, shard.records, shard.bytes)


def _decide(artifact: Path, damages: Sequence[Damage], records: int, settings: Input) -> None:
    lost = sum(damage.lost for damage in damages)
    if settings.on_bad == "skip" and lost <= settings.max_bad_fraction * records and lost < records:
        return
    shown = [damage.told(artifact) for damage in damages[:_SHOWN]]
    more = [f"… {len(damages) - _SHOWN} more shards"] if len(damages) > _SHOWN else []
    if settings.on_bad == "skip":
        limit = f"more than input.max_bad_fraction = {settings.max_bad_fraction:g} allows"
        advice = f"{lost:,} of {records:,} records are lost, {limit}; run again with --force Ingest"
    else:
        advice = "expected the shards that ingest wrote: run again with --force Ingest, or go on without what is lost "
        advice += "(--set input.on_bad=skip)"
    raise BadInput("\n".join([*shown, *more, advice]))


def _look(artifact: Path, shard: Shard) -> tuple[Damage, list[bytes]]:
    """Returns what is wrong with a shard, and its intact records, each in its frame."""
    try:
        content = (artifact / shard.name).read_bytes()
    except OSError as error:
        return Damage(shard.name, shard.records, shard.records, (Fault(0, f"cannot be read: {error.strerror}"),)), []
    data, faults = record_walk.unpack(content) if shard.name.endswith(".gz") else (content, [])
    added = len(content) - shard.bytes
    if added > 0 and checksum.of_bytes(content[: shard.bytes]) == shard.checksum:
        faults = [Fault(shard.bytes, f"{added:,} bytes were added after its end")]
        data = data if shard.name.endswith(".gz") else data[: shard.bytes]
    intact, found = record_walk.walk(data)
    intact, faults = intact[: shard.records], [*found, *faults]
    if not faults and len(intact) < shard.records:
        faults = [Fault(len(data), "ends between two records")]
    if not faults:
        # All checksums are right: somebody wrote another shard, and which records are ingest's cannot be told.
        intact, faults = [], [Fault(0, "holds whole records that ingest did not write")]
    return Damage(shard.name, shard.records, shard.records - len(intact), tuple(faults)), intact


def _copy(path: Path, intact: Sequence[bytes]) -> RecordFile:
    path.write_bytes(b"".join(intact))
    return RecordFile(path, len(intact), path.stat().st_size)
