"""KerasHub presets: folders that its `save_to_preset` wrote, and presets in its download cache, by name.

    config.json, model.weights.h5 ─► backbone          image_converter.json ─► size and scale of its images

KerasHub is an optional package, imported only to load a preset. Nothing is downloaded.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any

from components.errors import BadInput

PACKAGES = ("keras-hub",)
_CONFIG, _CONVERTER = "config.json", "image_converter.json"
_WEIGHTS = ("model.weights.h5", "model.weights.json")  # one file, or the index of several
_SIDE = 224  # of images, if neither backbone nor converter defines it
_IMAGE_RANK = 4  # of a batch of images


def home() -> Path:
    """Returns KerasHub's download cache."""
    return Path(os.environ.get("KAGGLEHUB_CACHE", "~/.cache/kagglehub")).expanduser() / "models"


def cached(name: str) -> Path | None:
    """Returns the folder of the latest cached version of a preset; None if it is not in the cache."""
    if not name.isidentifier():
        return None
    found = [path for path in home().glob(f"keras/*/keras/{name}/*") if path.name.isdigit() and is_preset(path)]
    return max(found, key=lambda path: int(path.name), default=None)


def is_preset(folder: Path) -> bool:
    """Returns whether a folder has the files of a preset."""
    return (folder / _CONFIG).is_file()


def require(folder: Path) -> None:
    """Raises BadInput if a preset lacks its weights, or if KerasHub is not installed. Imports nothing."""
    if not any((folder / name).is_file() for name in _WEIGHTS):
        raise BadInput(
            f"extract.model {folder}: the folder has no {_WEIGHTS[0]}; expected what KerasHub's save_to_preset writes"
        )
    if importlib.util.find_spec("keras_hub") is None:
        raise BadInput(
            f"extract.model {folder}: this is a KerasHub preset, but KerasHub is not installed; "
            "run `pip install 'penstock[hub]'`"
        )


def backbone(folder: Path) -> Any:
    """Returns a Keras model from square images with values 0–255 to the output of the preset's backbone."""
    require(folder)
    import keras
    import keras_hub

    try:
        model = keras_hub.models.Backbone.from_preset(str(folder), dtype="float32")
        converter = keras_hub.layers.ImageConverter.from_preset(str(folder)) if (folder / _CONVERTER).exists() else None
    except (KeyError, OSError, ValueError) as error:
        raise BadInput(f"extract.model {folder}: KerasHub cannot load it: {error}") from error
    side = _side(folder, model, converter)
    image = pixels = keras.Input([side, side, 3], name="image")
    if converter is not None:
        scale, offset = converter.scale, converter.offset
        pixels = keras.layers.Rescaling(1.0 if scale is None else scale, 0.0 if offset is None else offset)(image)
    output = model(pixels)
    if isinstance(output, dict):
        raise BadInput(f"extract.model {folder}: its outputs are {', '.join(output)}; expected one")
    return keras.Model(image, output)


def _side(folder: Path, model: Any, converter: Any) -> int:
    """Returns the side length of the images that the backbone expects."""
    shapes = [each.shape for each in model.inputs]
    if len(shapes) != 1 or len(shapes[0]) != _IMAGE_RANK:
        raise BadInput(
            f"extract.model {folder}: {type(model).__name__} is no image backbone; expected one input of images"
        )
    sizes = (shapes[0][1:3], getattr(converter, "image_size", None))
    height, width = next((tuple(size) for size in sizes if size and all(size)), (_SIDE, _SIDE))
    if height != width:
        raise BadInput(f"extract.model {folder}: its images are {height} x {width}; expected square images")
    return int(height)
