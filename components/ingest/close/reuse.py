"""What an earlier ingest has read already: a span that has not changed is taken over, shards and account.

    artifact/spans/s00003.json   key (content, settings, columns, code, libraries), and the reports of its shards

A shard is linked, or copied where links are not to be had, after its bytes were compared with its checksum.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson

from components import fingerprint, refs
from components.ingest.close import duplicates, reports
from components.ingest.survey.survey import Part, Table
from components.ingest.write.files import ShardReport
from components.records import checksum
from components.records.manifest import MANIFEST
from components.settings.ingest import Ingest
from components.storage import durable
from components.storage.hashing import digest_of

_FOLDER = "spans"
_LIBRARIES = ("numpy", "pillow", "pyarrow", "tensorflow")


def key_of(part: Part, table: Table | None, settings: Ingest) -> str:
    """Returns what the shards of a part depend on."""
    code = fingerprint.sources(["components.ingest.work.units", refs.module_of(part.located.source)])
    told = {
        "data": part.manifest.digest,
        "settings": settings.model_dump(mode="json", exclude={"spans", "max_bad_fraction", "near_bits"}),
        "columns": [str(table.schema), table.label, table.images, dict(table.names)] if table else [],
        "code": code,
        "libraries": {name: metadata.version(name) for name in _LIBRARIES},
    }
    return digest_of([orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()])


def artifacts(folder: Path) -> list[Path]:
    """Returns finished artifacts, newest first: `folder` itself, or those in it, which are numbered."""
    if (folder / MANIFEST).exists():
        return [folder]
    found = [path for path in folder.glob("*") if path.name.isdigit() and (path / MANIFEST).exists()]
    return sorted(found, key=lambda path: int(path.name), reverse=True)


def take_over(part: Part, key: str, earlier: Sequence[Path], artifact: Path) -> list[ShardReport] | None:
    """Brings the shards of a part over from the first artifact that has them unbroken; None if there is none."""
    for old in earlier:
        stored = _read(old, part)
        if stored.get("key") == key and (found := [reports.from_json(row) for row in stored["reports"]]):
            if all(_bring(old, artifact, report) for report in found):
                return found
            for report in found:
                (artifact / report.name).unlink(missing_ok=True)
    return None


def keep(artifact: Path, part: Part, key: str, written: Sequence[ShardReport]) -> None:
    """Stores what the next ingest needs to take this part over."""
    target = _file(artifact, part)
    target.parent.mkdir(exist_ok=True)
    told = {"key": key, "reports": [asdict(report) for report in written]}
    durable.write_bytes(target, orjson.dumps(told, option=orjson.OPT_NON_STR_KEYS))


def _file(artifact: Path, part: Part) -> Path:
    return artifact / _FOLDER / f"{part.span.name}.json"


def _read(artifact: Path, part: Part) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = orjson.loads(_file(artifact, part).read_bytes())
    except (OSError, ValueError):
        return {}
    return stored


def _bring(old: Path, artifact: Path, report: ShardReport) -> bool:
    """Links or copies one shard; False if it is not what it was."""
    if not report.name:
        return True  # a range of nothing but bad rows
    source = old / report.name
    if not source.is_file() or source.stat().st_size != report.bytes or checksum.of_file(source) != report.checksum:
        return False
    notes = duplicates.file_of(old, report.name)
    if notes.exists():
        _link(notes, duplicates.file_of(artifact, report.name))
    _link(source, artifact / report.name)
    return True


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with durable.publish_file(target) as aside:
        try:
            os.link(source, aside)
        except OSError:  # another filesystem, or one without links
            shutil.copyfile(source, aside)
