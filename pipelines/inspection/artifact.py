"""An Examples artifact of Penstock's: what its manifest says, and whether its shards are what the manifest says."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from components import refs
from components.errors import BadInput, PenstockError
from components.records import checksum
from components.records import manifest as account
from components.records.manifest import MANIFEST, QUARANTINE, Manifest, Shard
from components.records.quarantine import printable
from pipelines.inspection.reasons import Reasons
from pipelines.inspection.sheet import Gallery

if TYPE_CHECKING:
    from components.ingest.sources.rows import RowBatch
    from pipelines.inspection.records import FirstRecords

_TFRECORDS = "components.ingest.sources.tfrecord_rows:SOURCE"
_DRAWN_FROM = 2000  # records: hashes order them, so all classes but the rarest are among these


@dataclass(frozen=True)
class ArtifactFacts:
    """What is in an artifact."""

    path: str
    account: Manifest
    reasons: Reasons
    faults: tuple[str, ...]  # shards that are not what the manifest says
    verified: bool  # by checksum, not by size alone
    first: "FirstRecords"
    warnings: tuple[str, ...]


def is_one(path: Path) -> bool:
    """Whether a folder is an artifact: another program's data may hold a manifest.json too."""
    try:
        return (path / MANIFEST).is_file() and (any(path.glob("Split-*")) or _is_ours(path / MANIFEST))
    except OSError as error:
        raise BadInput(f"{printable(str(path))}: cannot be read: {error.strerror}; check its permissions") from error


def study(
    path: Path, rows: int, gallery: Gallery | None, told: Callable[[int], None], *, verify: bool
) -> ArtifactFacts:
    """Reads the manifest and compares the shards with it; of records only the first are read."""
    kept = _account(path)
    reasons, warnings = _reasons(path)
    faults = tuple(f"{plain}: {fault}" for plain, fault in _faults(path, kept, verify=verify))
    first, unread = _first(path, kept, rows, gallery, told)
    if reasons.total != kept.quarantined:
        warnings.append(f"{QUARANTINE} lists {reasons.total:,} records, the manifest counts {kept.quarantined:,}")
    return ArtifactFacts(printable(str(path)), kept, reasons, faults, verify, first, (*warnings, *unread))


def _is_ours(manifest: Path) -> bool:
    try:
        stored = orjson.loads(manifest.read_bytes())
    except orjson.JSONDecodeError:
        return False
    return isinstance(stored, dict) and {"data_digest", "shards"} <= stored.keys()


def _account(path: Path) -> Manifest:
    try:
        return account.read(path)
    except OSError as error:
        said = error.strerror or str(error)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        said = f"not as this version writes it ({type(error).__name__}: {error})"
    raise BadInput(f"{printable(str(path / MANIFEST))}: {said}; restore it, or ingest the data again")


def _reasons(path: Path) -> tuple[Reasons, list[str]]:
    reasons = Reasons()
    try:
        with (path / QUARANTINE).open("rb") as lines:
            for line in lines:
                reasons.add(*_reason(line))
    except OSError as error:
        return reasons, [f"{QUARANTINE}: cannot be read: {error.strerror}"]
    return reasons, []


def _reason(line: bytes) -> tuple[str, str]:
    try:
        row = orjson.loads(line)
        return str(row["reason"]), ": ".join(filter(None, (str(row.get("path", "")), str(row.get("position", "")))))
    except (ValueError, TypeError, KeyError, AttributeError):
        return f"a damaged line of {QUARANTINE}", ""


def _faults(path: Path, kept: Manifest, *, verify: bool) -> Iterator[tuple[str, str]]:
    home = path.resolve()
    listed = {shard.name for shard in kept.shards}
    for shard in kept.shards:
        if fault := _fault(home, shard, verify=verify):
            yield printable(shard.name), fault
    for found in sorted(home.glob("Split-*/*")):
        name = found.relative_to(home).as_posix()
        if name not in listed and not found.name.startswith((".", "_")):
            yield printable(name), "not in the manifest"


def _fault(home: Path, shard: Shard, *, verify: bool) -> str:
    place = home / shard.name
    try:
        if home not in place.resolve().parents:
            return "outside the artifact, not looked at"
        size = place.stat().st_size
        if size != shard.bytes:
            return f"{size:,} bytes, {shard.bytes:,} in the manifest"
        same = not verify or checksum.of_file(place) == shard.checksum
    except OSError as error:
        return "missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    except (ValueError, RuntimeError):  # a NUL in its name, a circle of links
        return "not the name of a file"
    return "" if same else "another checksum than in the manifest"


def _first(
    path: Path, kept: Manifest, rows: int, gallery: Gallery | None, told: Callable[[int], None]
) -> "tuple[FirstRecords, list[str]]":
    from pipelines.inspection.records import Taker

    taker = Taker(rows, gallery)
    wanted = _DRAWN_FROM if gallery is not None else max(rows, 1)
    seen = 0
    try:
        for batch in _batches(path, kept):
            taker.add(batch.columns)
            seen += batch.columns.num_rows
            told(seen)
            if seen >= wanted:
                break
    except (PenstockError, OSError) as error:
        return taker.taken(), [f"its records cannot be read: {error}"]
    return taker.taken(), []


def _batches(path: Path, kept: Manifest) -> "Iterator[RowBatch]":
    source = refs.load(_TFRECORDS)
    home = path.resolve()
    for shard in kept.shards:
        place = home / shard.name
        if shard.records and home in place.resolve().parents:
            schema = source.schema(place)
            for part in source.divide(place, shard.name, 64 << 20):
                yield from source.read(place, part, schema)
