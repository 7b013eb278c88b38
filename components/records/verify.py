"""Compares shards with the manifest before they are read, and reports where a shard is damaged.

    size and checksum as in the manifest? ── yes ──► read the shard
                 │ no
                 ▼
    every record: length, checksum of the length, data, checksum of the data ─► faults with byte offsets
                 │
                 ├─ on_bad = stop ──► the run stops, and names shard, byte offset and fault
                 └─ on_bad = skip ──► the Trainer reads a copy of the intact records; the loss is reported and limited

TensorFlow silently reads a shard that was cut between two records, or that has data after its end.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from components.errors import BadInput
from components.records import checksum
from components.records.manifest import Shard
from components.records.quarantine import printable
from components.records.tfrecord.walk import Fault, decompress, intact_records
from components.settings.input import Input
from components.storage.paths import DataPath

_SHOWN = 5  # damaged shards named in a message
_EXPECTED, _AGAIN = "expected the shards that ingest wrote", "run again with --force Ingest"


@dataclass(frozen=True)
class Damage:
    """The faults of a shard, and how many records they cost."""

    shard: str
    records: int  # in the manifest
    lost: int
    faults: tuple[Fault, ...]

    def message(self, artifact: DataPath) -> str:
        """Returns one line: file, first fault, loss."""
        first = self.faults[0]
        more = f", and at {len(self.faults) - 1} more places" if len(self.faults) > 1 else ""
        lost = f"{self.lost:,} of {self.records:,} records are lost" if self.lost else "no record is lost"
        return f"{printable(str(artifact / self.shard))}: {first.reason} at byte offset {first.offset:,}{more}; {lost}"

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Verified:
    """Shards that can be read, and what is missing in them."""

    shards: tuple[Shard, ...]  # with absolute paths as names: of the artifact, or of a copy of the intact records
    damages: tuple[Damage, ...] = ()

    @property
    def lost(self) -> int:
        """Records of the manifest that cannot be read."""
        return sum(damage.lost for damage in self.damages)


def check(artifact: DataPath, shards: Sequence[Shard]) -> None:
    """Raises BadInput if a shard is not as in the manifest; names each shard, the byte offset and the fault."""
    if damages := [_examine(artifact, shard)[0] for shard in _damaged(artifact, shards)]:
        raise BadInput(_message(artifact, damages, f"{_EXPECTED}: {_AGAIN}"))


@contextlib.contextmanager
def verified(artifact: DataPath, shards: Sequence[Shard], settings: Input) -> Iterator[Verified]:
    """Yields the shards that have records, each compared with the manifest; copies are deleted afterwards."""
    examined = {shard.name: _examine(artifact, shard) for shard in _damaged(artifact, shards)}
    damages = tuple(damage for damage, _ in examined.values())
    _check_loss(artifact, damages, sum(shard.records for shard in shards), settings)
    with tempfile.TemporaryDirectory(prefix="penstock-intact-") if examined else contextlib.nullcontext("") as folder:
        readable = [
            _copy(Path(folder, f"{number:05d}"), shard, examined[shard.name][1])
            if shard.name in examined
            else replace(shard, name=str(artifact / shard.name))
            for number, shard in enumerate(shards)
        ]
        yield Verified(tuple(shard for shard in readable if shard.records), damages)


def _damaged(artifact: DataPath, shards: Sequence[Shard]) -> list[Shard]:
    """Returns the shards that are not as in the manifest."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        matches = list(pool.map(lambda shard: _matches(artifact, shard), shards))
    return [shard for shard, good in zip(shards, matches, strict=True) if not good]


def _matches(artifact: DataPath, shard: Shard) -> bool:
    """Whether size and checksum of a shard are those in the manifest."""
    path = artifact / shard.name
    try:
        return path.stat().st_size == shard.bytes and checksum.of_file(path) == shard.checksum
    except OSError as error:
        _require_answer(path, error)
        return False


def _require_answer(path: DataPath, error: OSError) -> None:
    """Raises the error of a store that could not be asked, which says nothing about the shard."""
    if not isinstance(path, Path) and not isinstance(error, FileNotFoundError):
        raise error


def _check_loss(artifact: DataPath, damages: Sequence[Damage], records: int, settings: Input) -> None:
    """Stops the run unless there is no damage, or the settings allow the loss."""
    lost = sum(damage.lost for damage in damages)
    may_skip = settings.on_bad == "skip" and lost <= settings.max_bad_fraction * records and lost < records
    if not damages or may_skip:
        return
    if settings.on_bad == "skip":
        limit = f"more than input.max_bad_fraction = {settings.max_bad_fraction:g} allows"
        advice = f"{lost:,} of {records:,} records are lost, {limit}; {_AGAIN}"
    else:
        advice = f"{_EXPECTED}: {_AGAIN}, or continue without the lost records (--set input.on_bad=skip)"
    raise BadInput(_message(artifact, damages, advice))


def _message(artifact: DataPath, damages: Sequence[Damage], advice: str) -> str:
    shown = [damage.message(artifact) for damage in damages[:_SHOWN]]
    more = [f"… {len(damages) - _SHOWN} more shards"] if len(damages) > _SHOWN else []
    return "\n".join([*shown, *more, advice])


def _examine(artifact: DataPath, shard: Shard) -> tuple[Damage, list[bytes]]:
    """Returns the damage of a shard, and its intact records, each in its frame."""
    try:
        content = (artifact / shard.name).read_bytes()
    except OSError as error:
        _require_answer(artifact / shard.name, error)
        return Damage(shard.name, shard.records, shard.records, (Fault(0, f"cannot be read: {error.strerror}"),)), []
    data, faults = decompress(content) if shard.name.endswith(".gz") else (content, [])
    added = len(content) - shard.bytes
    if added > 0 and checksum.of_bytes(content[: shard.bytes]) == shard.checksum:
        faults = [Fault(shard.bytes, f"{added:,} bytes were added after its end")]
        data = data if shard.name.endswith(".gz") else data[: shard.bytes]
    intact, found = intact_records(data)
    intact, faults = intact[: shard.records], [*found, *faults]
    if not faults and len(intact) < shard.records:
        faults = [Fault(len(data), "ends between two records")]
    if not faults:
        # All checksums are right: another program wrote this shard, and which records are ingest's is not known.
        intact, faults = [], [Fault(0, "contains intact records that ingest did not write")]
    return Damage(shard.name, shard.records, shard.records - len(intact), tuple(faults)), intact


def _copy(path: Path, shard: Shard, intact: Sequence[bytes]) -> Shard:
    content = b"".join(intact)
    path.write_bytes(content)
    return Shard(shard.split, str(path), len(intact), len(content), checksum.of_bytes(content))
