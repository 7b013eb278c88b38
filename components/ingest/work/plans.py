"""How plans of shards reach the workers: as files beside the shards, the way that reports come back.

In the graph of a Beam pipeline they would be packed and unpacked several times: for small files that took a third of
the whole ingest. A plan stays until all shards are written, so that a retried bundle finds it again.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import orjson

from components.ingest.sources import SourceFile
from components.ingest.survey.listing import ListedFile
from components.ingest.work.shards import ShardPlan

_FOLDER = "plans"


def store(artifact: Path, shard: ShardPlan) -> ShardPlan:
    """Leaves a plan for the workers, and returns what is left to be sent."""
    target = _file_of(artifact, shard)
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = [(_text(item.file.path), item.file.label, item.size, item.sha256, item.stat) for item in shard.files]
    target.write_bytes(orjson.dumps(rows))  # not forced to disk: after a crash of the machine no one asks for it
    return replace(shard, files=())


def read(artifact: Path, shard: ShardPlan) -> ShardPlan:
    """Returns a plan that was stored."""
    rows = orjson.loads(_file_of(artifact, shard).read_bytes())
    files = (ListedFile(SourceFile(_path(path), label), size, sha256, stat) for path, label, size, sha256, stat in rows)
    return replace(shard, files=tuple(files))


def clear(artifact: Path) -> None:
    """Removes all plans."""
    if (artifact / _FOLDER).exists():
        shutil.rmtree(artifact / _FOLDER)


def _file_of(artifact: Path, shard: ShardPlan) -> Path:
    return artifact / _FOLDER / (shard.name.replace("/", "_") + ".json")


def _text(path: str) -> str:
    # Names on disk are bytes, and JSON is UTF-8.
    return os.fsencode(path).decode("latin-1")


def _path(text: str) -> str:
    return os.fsdecode(text.encode("latin-1"))
