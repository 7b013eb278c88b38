"""Finds the pretrained model that `extract.model` names, and computes its digest. Imports no TensorFlow."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from components.errors import BadInput
from components.pretrained import presets, scan
from components.pretrained.artifacts import EXTRACTOR
from components.records import seal
from components.settings.extract import Extract
from components.storage.hashing import HashCache, digest_of, sha256_of

_SAVED_MODEL = "saved_model.pb"


@dataclass(frozen=True)
class PretrainedModel:
    """A pretrained model: where it is, and what identifies it."""

    path: str  # absolute path, or the name of a Keras application
    digest: str
    packages: tuple[str, ...] = ()  # packages it needs besides Keras and TensorFlow
    trusted: bool = False  # whether it may contain code, by extract.trust or extract.sha256


def find_model(settings: Extract, cache: HashCache) -> PretrainedModel:
    """Returns the pretrained model that the settings name, after checking its format and digest."""
    path = Path(settings.model).expanduser().absolute()
    if not path.exists():
        path = presets.cached(settings.model) or path
    if path.is_dir():
        found = _in_folder(path, cache)
    elif path.is_file():
        if path.suffix != ".keras":
            raise BadInput(f"extract.model {path}: expected a .keras file, or the folder of a SavedModel")
        found = PretrainedModel(str(path), sha256_of(path))
    else:
        weights = application_weights(settings.model)
        found = PretrainedModel(settings.model, digest_of([settings.model, sha256_of(weights)]))
    if settings.where != "beam" and _lacks_extractor(path):
        raise BadInput(
            f"extract.model {path}: the SavedModel has no {EXTRACTOR}, so it cannot be part of another model, as "
            f"extract.where = {settings.where} requires; set extract.where to beam, or name a .keras file"
        )
    if settings.sha256 and settings.sha256 != found.digest:
        raise BadInput(
            f"extract.model {found.path}: its SHA-256 is {found.digest}, but extract.sha256 is {settings.sha256}; "
            "use the expected model, or change extract.sha256"
        )
    return replace(found, trusted=settings.trust or bool(settings.sha256))


def _in_folder(path: Path, cache: HashCache) -> PretrainedModel:
    scan.require_no_links(path)
    if is_preset(path):
        presets.require(path)
    elif not (path / _SAVED_MODEL).exists():
        raise BadInput(
            f"extract.model {path}: the folder has no {_SAVED_MODEL}; expected a SavedModel, such as serving/1, "
            "or a KerasHub preset"
        )
    return PretrainedModel(str(path), seal.seal(path, cache).digest, presets.PACKAGES if is_preset(path) else ())


def _lacks_extractor(path: Path) -> bool:
    return path.is_dir() and not is_preset(path) and not (path / EXTRACTOR).exists()


def is_preset(path: Path) -> bool:
    """Returns whether a path is a KerasHub preset and not a SavedModel."""
    return presets.is_preset(path) and not (path / _SAVED_MODEL).exists()


def application_weights(name: str) -> Path:
    """Returns the cached weights file of a Keras application; Keras itself would download it."""
    if "/" in name:
        raise BadInput(
            f"extract.model {name}: no such file or folder; expected a SavedModel, a .keras file, or a KerasHub preset"
        )
    home = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser() / "models"
    files = [*sorted(home.glob("*notop*.h5")), *sorted(home.glob("*no_top*.h5"))]
    found = [path for path in files if _letters(path.name).startswith(_letters(name))]
    if not found:
        raise BadInput(
            f"extract.model {name}: no such file or folder, no weights of a Keras application of that name in "
            f"{home}, and no KerasHub preset in {presets.home()}; copy the weights (without top) there, or let "
            f"KerasHub download the preset on a machine with a network: "
            f"keras_hub.models.Backbone.from_preset({name!r})"
        )
    return found[0]


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
