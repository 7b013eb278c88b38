"""Finds the model that a user names: a SavedModel of ours, a serving folder, or the live version of a pipeline.

MODEL ─┬─ folder with saved_model.pb ─────► the model
       ├─ serving folder ─────────────────► its highest complete version
       └─ live, with a pipeline's root ───► the version in use: `live`
"""

from dataclasses import dataclass

from components.errors import SettingsError
from components.pretrained.artifacts import READING, SERVING
from components.serving import live as live_pointer
from components.serving import reading, versions
from components.serving.reading import Reading
from components.serving.store_push import MODEL
from components.storage.location import Location

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
    return ModelFolder(folder, version, versions.digest_of(folder), _reading(folder))


def live(root: Location | None, serving: Location, pipeline: str = "") -> Location:
    """Returns the folder of the live version of a pipeline, by its live pointer; its serving folder if that is empty.

    Args:
        root: of the pipeline; None if only its serving folder is known.
        serving: folder that it pushes to.
        pipeline: its name; empty if it is not known.
    """
    if root is None:
        return serving
    folder = live_pointer.folder_of(root, serving, pipeline)
    if folder is None and versions.complete(serving):
        raise SettingsError(
            f"live: none of the versions in {serving} is known to be one of the pipeline in {root}; name the pipeline "
            "with --task TASK, or its model"
        )
    return folder or serving


def _model_folder(place: Location) -> Location:
    for folder in (place, place / SERVING):
        if (folder / MODEL).is_file():
            return folder
    if known := versions.complete(place):
        return place / str(known[-1])
    if not place.is_dir():
        raise SettingsError(f"model {place}: no such folder; {_EXPECTED}")
    raise SettingsError(f"model {place}: neither a model nor versions of one in it; {_EXPECTED}")


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
