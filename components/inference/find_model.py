"""Finds the model that a user names: a SavedModel of ours, a serving folder, or the live version of a pipeline.

MODEL ─┬─ folder with saved_model.pb ─────► the model
       ├─ serving folder ─────────────────► its highest complete version
       └─ live, with a pipeline's root ───► the version in use: `live`
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from components.errors import SettingsError
from components.pretrained.artifacts import PROVENANCE, READING, SERVING
from components.serving import reading, store_push
from components.serving.reading import Reading
from components.serving.store_push import MODEL
from components.storage import paths
from components.storage.location import Location

_CHUNK = 8 << 20  # bytes of a model's file in memory
_EXPECTED = (
    "expected a model that Penstock exported, such as runs/image/serving/1, or a serving folder such as "
    "runs/image/serving"
)


@dataclass(frozen=True)
class ModelFolder:
    """A model that can predict raw data."""

    path: Location
    version: str  # number in the serving folder; empty if it is not in one
    digest: str  # of all of its files
    reading: Reading


def find(place: Location) -> ModelFolder:
    """Returns the model in a folder; raises SettingsError if there is none, or none that can read raw data."""
    folder = _model_folder(place)
    version = folder.name if folder.name.isdigit() else ""
    return ModelFolder(folder, version, digest_of(folder), _reading(folder))


def live(serving: Location) -> Location:
    """Returns the folder of the live version: the newest one that was pushed, until there is a live pointer."""
    return serving


def _model_folder(place: Location) -> Location:
    for folder in (place, place / SERVING):
        if (folder / MODEL).is_file():
            return folder
    versions = _versions(place)
    if versions:
        return place / str(versions[-1])
    if not place.is_dir():
        raise SettingsError(f"model {place}: no such folder; {_EXPECTED}")
    raise SettingsError(f"model {place}: neither a model nor versions of one in it; {_EXPECTED}")


def _versions(serving: Location) -> list[int]:
    """Returns the complete versions of a serving folder, lowest first."""
    if not isinstance(serving, Path):
        return store_push.versions(serving)
    if not serving.is_dir():
        return []
    return sorted(int(each.name) for each in serving.iterdir() if each.name.isdigit() and (each / MODEL).is_file())


def _reading(folder: Location) -> Reading:
    file = folder / READING.as_posix()
    fix = "export it again: run its pipeline with this version of Penstock (penstock run TASK --force Trainer)"
    if not file.is_file():
        raise SettingsError(
            f"model {folder}: it has no {READING.as_posix()}, which says how raw data becomes the arguments of its "
            f"signature raw; another program exported it, or an older Penstock: {fix}"
        )
    try:
        return reading.parse(file.read_bytes())
    except ValueError as error:
        raise SettingsError(f"model {folder}: {READING.as_posix()} cannot be read: {error}; {fix}") from error


def digest_of(folder: Location) -> str:
    """Returns a digest of all files but the provenance: every pushed copy of a model has the same one."""
    digest = hashlib.sha256()
    for name in sorted(paths.files_below(folder)):
        if name != PROVENANCE.as_posix():
            digest.update(f"{name}\0{_digest_of_file(folder / name)}\n".encode())
    return digest.hexdigest()


def _digest_of_file(file: Location) -> str:
    digest = hashlib.sha256()
    with paths.open_whole(file) as stream:
        while content := stream.read(_CHUNK):
            digest.update(content)
    return digest.hexdigest()
