"""Reuse of spans that an earlier ingest has read: unchanged spans keep their shards and reports.

    artifact/spans/s00003.json   key (content, settings, columns, code, libraries), content, reports of the shards

A shard and its fingerprints are linked, or copied where the filesystem has no links, after their bytes were compared
with their checksums. An object store copies them on its own side.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

import orjson

from components import fingerprint, refs
from components.ingest.close import reports
from components.ingest.survey.survey import SpanFiles, Table
from components.ingest.write import shards
from components.ingest.write.report import ShardReport
from components.records import checksum, shard_files, spans
from components.records.manifest import MANIFEST
from components.settings.ingest import Ingest
from components.storage import durable
from components.storage.hashing import digest_of
from components.storage.location import Location
from components.storage.objects import ObjectPath

_OF_ALL_SPANS = ("spans", "window", "late", "gaps", "max_bad_fraction", "near_duplicate_bits")  # settings
_LIBRARIES = ("numpy", "pillow", "pyarrow", "tensorflow")


def key_of(span: SpanFiles, table: Table | None, settings: Ingest, strata: str = "") -> str:
    """Returns a digest of all that the shards of a span depend on; `strata` is the digest of stratified splits."""
    depends_on = {
        "data": span.listing.digest,
        "strata": strata,
        "settings": settings.model_dump(mode="json", exclude={*_OF_ALL_SPANS}),
        "columns": [str(table.schema), table.label, table.images, repr(table.source)] if table else [],
        "code": fingerprint.sources(["components.ingest.units", refs.module_of(span.located.source)]),
        "libraries": {name: metadata.version(name) for name in _LIBRARIES},
    }
    return digest_of([orjson.dumps(depends_on, option=orjson.OPT_SORT_KEYS).decode()])


def link_shards(span: SpanFiles, key: str, earlier: Location, artifact: Location) -> list[ShardReport] | None:
    """Links the shards of a span from the newest earlier artifact that has them intact; None if there is none.

    Args:
        span: the span.
        key: what its shards depend on.
        earlier: an earlier artifact, or the folder of all of them.
        artifact: where the shards go.
    """
    for old in _artifacts(earlier):
        stored = _read(old, span)
        if stored.get("key") == key and (found := [reports.from_json(row) for row in stored["reports"]]):
            if all(_link_intact(old, artifact, report) for report in found):
                return found
            for name in filter(None, (report.name for report in found)):
                (artifact / name).unlink(missing_ok=True)
    return None


def has_data(span: SpanFiles, earlier: Location) -> bool:
    """Whether an earlier ingest was finished with this content of a span; one of before 0.2 notes no content."""
    stored = (_read(old, span) for old in _artifacts(earlier))
    return any(each and each.get("data", span.listing.digest) == span.listing.digest for each in stored)


def store(artifact: Location, span: SpanFiles, key: str, written: Sequence[ShardReport]) -> None:
    """Stores the key and the reports of a span, for the next ingest."""
    stored = {"key": key, "data": span.listing.digest, "reports": [asdict(report) for report in written]}
    durable.write_bytes(_file_of(artifact, span), orjson.dumps(stored, option=orjson.OPT_NON_STR_KEYS), private=True)


def _artifacts(folder: Location) -> list[Location]:
    """Returns finished artifacts, newest first: `folder` itself, or those in it, which are numbered."""
    if (folder / MANIFEST).is_file():
        return [folder]
    inside: Iterable[Location] = folder.iterdir() if folder.is_dir() else ()
    found = [path for path in inside if path.name.isdigit() and (path / MANIFEST).is_file()]
    return sorted(found, key=lambda path: int(path.name), reverse=True)


def _file_of(artifact: Location, span: SpanFiles) -> Location:
    return artifact / spans.FOLDER / f"{span.span.name}.json"


def _read(artifact: Location, span: SpanFiles) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = orjson.loads(_file_of(artifact, span).read_bytes())
    except (OSError, ValueError):
        return {}
    return stored


def _link_intact(old: Location, artifact: Location, report: ShardReport) -> bool:
    """Links one shard and its fingerprints; False if one of them is missing or not what was written."""
    if not report.name:
        return True  # a range with no good row has no shard
    beside = shards.fingerprints_of(report.name)
    expected = {beside: report.fingerprints, report.name: report.checksum}
    if not all(_is_intact(old / name, digest) for name, digest in expected.items()):
        return False
    for name in expected:
        _link(old, artifact, name)
    return True


def _is_intact(file: Location, digest: str) -> bool:
    return file.is_file() and checksum.of_file(file) == digest


def _link(old: Location, artifact: Location, name: str) -> None:
    source, target = old / name, artifact / name
    if isinstance(source, ObjectPath) and isinstance(target, ObjectPath):
        source.copy_to(target)
        return
    with shard_files.publish(artifact, name, sync=True) as temporary:
        if isinstance(source, ObjectPath):
            source.download(temporary)
            return
        try:
            os.link(source, temporary)
        except OSError:  # another filesystem, or one without links
            shutil.copyfile(source, temporary)
