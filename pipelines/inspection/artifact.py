"""An Examples artifact: what its manifest says, and whether its shards match it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from components import refs
from components.errors import BadInput, PenstockError
from components.ingest.sources.rows import RowBatch
from components.records import checksum, manifest
from components.records.manifest import MANIFEST, QUARANTINE, Manifest, Shard
from components.records.quarantine import printable
from components.storage.location import Location
from pipelines.inspection.contact_sheet import ContactSheet
from pipelines.inspection.preview import Preview
from pipelines.inspection.reasons import Reasons

_TFRECORDS = "components.ingest.sources.tfrecord_rows:SOURCE"
_SHEET_RECORDS = 2000  # records read for a contact sheet: they are in hash order, so only rare classes are missing
_RANGE = 64 << 20  # bytes


@dataclass(frozen=True)
class ArtifactFacts:
    """What is in an artifact."""

    path: str
    manifest: Manifest
    reasons: Reasons  # of quarantined records
    faults: tuple[str, ...]  # shards that do not match the manifest
    verified: bool  # by checksum, not only by size
    preview: Preview
    warnings: tuple[str, ...]

    @property
    def has_images(self) -> bool:
        """Whether its records hold images."""
        return bool(self.preview.image)

    @property
    def error(self) -> str:
        """Why the artifact must not be used; empty if it matches its manifest."""
        if not self.faults:
            return ""
        return (
            f"{self.path}: {len(self.faults)} shards do not match the manifest, such as {self.faults[0]}; "
            "do not train on this artifact: restore it, or ingest the data again"
        )


def is_artifact(path: Location) -> bool:
    """Whether a folder is an Examples artifact; a manifest.json of another program does not count."""
    try:
        return (path / MANIFEST).is_file() and (any(path.glob("Split-*/*")) or _is_manifest(path / MANIFEST))
    except OSError as error:
        raise BadInput(f"{printable(str(path))}: cannot be read: {error.strerror}; check its permissions") from error


def study(
    path: Location, rows: int, sheet: ContactSheet | None, progress: Callable[[int], None], *, verify: bool
) -> ArtifactFacts:
    """Reads the manifest and compares the shards with it; of the records, only the first ones are read."""
    stored, home = _manifest(path), path.resolve() if isinstance(path, Path) else path
    reasons, warnings = _reasons(path)
    faults = tuple(f"{printable(name)}: {fault}" for name, fault in _faults(home, stored, verify=verify))
    preview, unreadable = _preview(home, stored, rows, sheet, progress)
    if reasons.total != stored.quarantined:
        warnings.append(f"{QUARANTINE} lists {reasons.total:,} records, the manifest counts {stored.quarantined:,}")
    return ArtifactFacts(printable(str(path)), stored, reasons, faults, verify, preview, (*warnings, *unreadable))


def _is_manifest(path: Location) -> bool:
    try:
        stored = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError:
        return False
    return isinstance(stored, dict) and {"data_digest", "shards"} <= stored.keys()


def _manifest(path: Location) -> Manifest:
    try:
        return manifest.read(path)
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"not a manifest of this version ({type(error).__name__}: {error})"
    raise BadInput(f"{printable(str(path / MANIFEST))}: {reason}; restore it, or ingest the data again")


def _reasons(path: Location) -> tuple[Reasons, list[str]]:
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
        return f"damaged line of {QUARANTINE}", ""


def _faults(home: Location, stored: Manifest, *, verify: bool) -> Iterator[tuple[str, str]]:
    """Yields the shards that do not match the manifest, and files beside them that it does not list."""
    for shard in stored.shards:
        if fault := _fault(home, shard, verify=verify):
            yield shard.name, fault
    listed = {shard.name for shard in stored.shards}
    found: list[Location] = sorted(home.glob("Split-*/*"))
    for file in found:
        name = str(file).removeprefix(f"{home}/")
        if name not in listed and not file.name.startswith((".", "_")):
            yield name, "not in the manifest"


def _fault(home: Location, shard: Shard, *, verify: bool) -> str:
    path = home / shard.name
    try:
        if not _is_inside(home, path):
            return "outside the artifact, not read"
        size = path.stat().st_size
        if size != shard.bytes:
            return f"{size:,} bytes, {shard.bytes:,} in the manifest"
        same = not verify or checksum.of_file(path) == shard.checksum
    except OSError as error:
        return "missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    except (ValueError, RuntimeError):  # a NUL in its name, a loop of symbolic links
        return "not a valid file name"
    return "" if same else "its checksum differs from the manifest's"


def _is_inside(home: Location, path: Location) -> bool:
    """Whether a file is in the artifact, also if it is a symbolic link; an object path cannot lead elsewhere."""
    return not isinstance(path, Path) or home in path.resolve().parents


def _preview(
    home: Location, stored: Manifest, rows: int, sheet: ContactSheet | None, progress: Callable[[int], None]
) -> tuple[Preview, list[str]]:
    preview = Preview(rows, sheet)
    wanted = _SHEET_RECORDS if sheet is not None else max(rows, 1)
    read = 0
    try:
        for batch in _batches(home, stored):
            preview.add(batch.columns)
            read += batch.columns.num_rows
            progress(read)
            if read >= wanted:
                break
    except (PenstockError, OSError) as error:
        return preview, [f"its records cannot be read: {error}"]
    return preview, []


def _batches(home: Location, stored: Manifest) -> Iterator[RowBatch]:
    source = refs.load(_TFRECORDS)
    for shard in stored.shards:
        path = home / shard.name
        if shard.records and _is_inside(home, path):
            schema = source.schema(path)
            for part in source.divide(path, shard.name, _RANGE):
                yield from source.read(path, part, schema)
