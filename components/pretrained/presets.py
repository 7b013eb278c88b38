"""Presets of KerasHub: folders that its `save_to_preset` writes, and those that it has fetched before, by their name.

    config.json, model.weights.h5 ─► backbone          image_converter.json ─► size and scale of its images

KerasHub is an optional package, imported when a preset is loaded and at no other time. Nothing is fetched.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any

from components.errors import BadInput

PACKAGES = ("keras-hub",)
_CONFIG, _CONVERTER = "config.json", "image_converter.json"
_WEIGHTS = ("model.weights.h5", "model.weights.json")  # in one file, or the list of many
_SIDE = 224  # of images, where neither network nor converter says
_IMAGE = 4  # dimensions of a batch of them


def home() -> Path:
    """Returns where KerasHub keeps what it has fetched."""
    return Path(os.environ.get("KAGGLEHUB_CACHE", "~/.cache/kagglehub")).expanduser() / "models"


def cached(name: str) -> Path | None:
    """Returns the folder of a preset that was fetched before, its latest version; None if there is none."""
    if not name.isidentifier():
        return None
    found = [path for path in home().glob(f"keras/*/keras/{name}/*") if path.name.isdigit() and is_preset(path)]
    return max(found, key=lambda path: int(path.name), default=None)


def is_preset(folder: Path) -> bool:
    """Returns whether a folder looks like one."""
    return (folder / _CONFIG).is_file()


def require(folder: Path) -> None:
    """Says what is missing, if a preset cannot be loaded. Imports nothing."""
    if not any((folder / name).is_file() for name in _WEIGHTS):
        raise BadInput(
            f"extract.model {folder}: no {_WEIGHTS[0]} in it; expected a preset as KerasHub's save_to_preset writes it"
        )
    if importlib.util.find_spec("keras_hub") is None:
        raise BadInput(
            f"extract.model {folder}: it is a preset of KerasHub, which is not installed; "
            "`pip install 'penstock[hub]'` brings it"
        )


def backbone(folder: Path) -> Any:
    """Returns a Keras model of square images, 0 to 255, that ends in whatever the preset's backbone ends in."""
    require(folder)
    import keras
    import keras_hub

    try:
        network = keras_hub.models.Backbone.from_preset(str(folder), dtype="float32")
        converter = keras_hub.layers.ImageConverter.from_preset(str(folder)) if (folder / _CONVERTER).exists() else None
    except (KeyError, OSError, ValueError) as error:
        raise BadInput(f"extract.model {folder}: KerasHub cannot load it: {error}") from error
    side = _side(folder, network, converter)
    image = pixels = keras.Input([side, side, 3], name="image")
    if converter is not None:
        scale, offset = converter.scale, converter.offset
        pixels = keras.layers.Rescaling(1.0 if scale is None else scale, 0.0 if offset is None else offset)(image)
    found = network(pixels)
    if isinstance(found, dict):
        raise BadInput(f"extract.model {folder}: it has the outputs {', '.join(found)}; expected one")
    return keras.Model(image, found)


def _side(folder: Path, network: Any, converter: Any) -> int:
    shapes = [each.shape for each in network.inputs]
    if len(shapes) != 1 or len(shapes[0]) != _IMAGE:
        raise BadInput(f"extract.model {folder}: {type(network).__name__} is no network of images alone")
    asked = (shapes[0][1:3], getattr(converter, "image_size", None))
    height, width = next((tuple(size) for size in asked if size and all(size)), (_SIDE, _SIDE))
    if height != width:
        raise BadInput(f"extract.model {folder}: it takes images of {height} x {width}; expected squares")
    return int(height)
