"""Pushes a model to a serving folder on this machine, under a version number that only increases.

    model ─► <serving>/.aside-… (copied, fsynced) ─► rename to <serving>/<version>

A server that polls the folder sees a version only when it is complete. On an object store: `store_push.py`.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filelock
import orjson

from components.errors import DiskFull
from components.pretrained.artifacts import PROVENANCE
from components.storage import durable, paths
from components.storage.location import Location

_VERSION = re.compile("[0-9]+")
_BLOCK = 4096  # bytes: the space that a small file takes
_HIGHEST = ".highest-version"  # a version is never used twice, even if its folder is deleted


def push(model: Location, serving: Path, provenance: Mapping[str, Any] | None = None, above: int = 0) -> Path:
    """Copies `model` to the next version below `serving`, with its provenance, and returns the new folder.

    Args:
        model: the files.
        serving: folder of the versions.
        provenance: what the version says about itself.
        above: a version that was used, even if nothing in the folder shows it.
    """
    serving.mkdir(parents=True, exist_ok=True)
    # Several pipelines may share a serving folder: one of them pushes at a time.
    with filelock.FileLock(serving / ".lock"):
        durable.sweep(serving)
        _check_space(model, serving)
        version = max(_next_version(serving), above + 1)
        durable.write_bytes(serving / _HIGHEST, str(version).encode())
        target = serving / str(version)
        with durable.publish_folder(target) as temporary:
            copy(model, temporary)
            if provenance:
                (temporary / PROVENANCE).parent.mkdir(exist_ok=True)
                (temporary / PROVENANCE).write_bytes(orjson.dumps(dict(provenance)))
    return target


def remove(serving: Path, version: int) -> None:
    """Deletes a version; a reader sees all of it, or nothing."""
    with filelock.FileLock(serving / ".lock"):
        temporary = durable.temporary_of(serving / str(version))
        (serving / str(version)).rename(temporary)
        durable.remove(temporary)


def copy(model: Location, target: Path) -> None:
    """Copies the files of a model into a folder."""
    if isinstance(model, Path):
        shutil.copytree(model, target, dirs_exist_ok=True)
        return
    for name in paths.files_below(model):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).download(target / name)


def _check_space(model: Location, serving: Path) -> None:
    sizes = [stat.st_size for stat in paths.files_below(model).values()]
    needed = sum(-(-size // _BLOCK) * _BLOCK for size in sizes)
    free = shutil.disk_usage(serving).free
    if needed > free:
        raise DiskFull(
            f"{serving}: the model needs {needed / 1e6:,.1f} MB, its disk has {free / 1e6:,.1f} MB free; nothing was "
            "pushed, and the served versions stay. Free disk space, or choose another folder (--set push.directory=…)"
        )


def _next_version(serving: Path) -> int:
    """Returns one more than the highest version that exists or ever existed."""
    highest = serving / _HIGHEST
    used = [int(highest.read_text())] if highest.exists() else []
    present = [int(entry.name) for entry in serving.iterdir() if _VERSION.fullmatch(entry.name)]
    return max([*used, *present], default=0) + 1
