"""A pretrained network that turns a image into a vector, from wherever it comes.

| `extract.model` is                        | on Beam | frozen, finetune                                             |
|-------------------------------------------|---------|--------------------------------------------------------------|
| a SavedModel that Penstock pushed         | yes     | yes: a Keras model of the same weights is in it              |
| any other SavedModel with one input       | yes     | no                                                           |
| a .keras file                             | yes     | yes                                                          |
| the name of a Keras application           | yes     | yes; its weights must be in Keras' folder already            |
| a preset of KerasHub: a folder, or a name | yes     | yes; by name it must be in KerasHub's folder already         |

A SavedModel is asked by its signature `features`, else by the only one it has. Of a Keras model the layer `features` is
taken, else what its last softmax would see, else its output; maps are averaged.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import BadInput, SettingsError
from components.pretrained import presets
from components.records import seal
from components.settings.extract import Extract
from components.settings.names import nearest
from components.storage import durable
from components.storage.hashing import HashCache, digest_of, sha256_of

INSIDE = Path("assets.extra") / "extractor.keras"  # of a SavedModel that Penstock exported
PROVENANCE = Path("assets.extra") / "provenance.json"  # of one that it pushed
SERVING = "Format-Serving"  # inside of an artifact, where TFX looks for a model
LOOKED_AT_BY = Path("assets.extra") / "looked_at_by.txt"  # of one that was trained on vectors: the network's digest
_SIGNATURE = "features"
_SAVED_MODEL = "saved_model.pb"
_TAIL = 1000  # characters of what a process said before it died


@dataclass(frozen=True)
class Source:
    """Where the network is, and what it is."""

    path: str  # absolute, or the name of a Keras application
    digest: str
    packages: tuple[str, ...] = ()  # whose code it is made of, besides Keras and TensorFlow


def find(settings: Extract, cache: HashCache) -> Source:
    """Returns the network that the settings name, if it is there and the one that is meant. Imports nothing heavy."""
    path = Path(settings.model).expanduser().absolute()
    if not path.exists():
        path = presets.cached(settings.model) or path
    if path.is_dir():
        if _is_preset(path):
            presets.require(path)
        elif not (path / _SAVED_MODEL).exists():
            raise BadInput(
                f"extract.model {path}: no {_SAVED_MODEL} in it; expected a SavedModel, such as serving/1, "
                "or a preset of KerasHub"
            )
        digest = seal.seal(path, cache).digest
    elif path.is_file():
        if path.suffix != ".keras":
            raise BadInput(f"extract.model {path}: expected a .keras file, or the folder of a SavedModel")
        digest = sha256_of(path)
    else:
        weights = _weights(settings.model)
        return _checked(Source(settings.model, digest_of([settings.model, sha256_of(weights)])), settings)
    return _checked(Source(str(path), digest, presets.PACKAGES if _is_preset(path) else ()), settings)


def _is_preset(path: Path) -> bool:
    return presets.is_preset(path) and not (path / _SAVED_MODEL).exists()


def _checked(source: Source, settings: Extract) -> Source:
    if settings.sha256 and settings.sha256 != source.digest:
        raise BadInput(
            f"extract.model {source.path}: its sha256 is {source.digest}, extract.sha256 wants {settings.sha256}: "
            "it is not the model that was meant"
        )
    return source


def _weights(name: str) -> Path:
    """Returns the file with the weights of a Keras application; Keras itself would go and fetch it."""
    home = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser() / "models"
    wanted = _plain(name)
    found = sorted(path for path in home.glob("*notop*.h5") if _plain(path.name).startswith(wanted))
    found += sorted(path for path in home.glob("*no_top*.h5") if _plain(path.name).startswith(wanted))
    if "/" in name:
        raise BadInput(
            f"extract.model {name}: there is no such file or folder; expected a SavedModel, a .keras file, "
            "or a preset of KerasHub"
        )
    if not found:
        raise BadInput(
            f"extract.model {name}: there is no such file or folder, no weights of a Keras application of that name in "
            f"{home}, and no preset of KerasHub in {presets.home()}; put the weights (without top) there, or let "
            f"KerasHub fetch the preset where there is a network: keras_hub.models.Backbone.from_preset({name!r})"
        )
    return found[0]


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def path_in(model: Path) -> str:
    """Returns the network that the Extractor has put at `model`: a folder, a .keras file, or a name in a .txt."""
    if (name := model.with_suffix(".txt")).exists():
        return name.read_text()
    single = model.with_suffix(".keras")
    return str(single if single.exists() else model)


def is_comparable(model: Path, other: Path) -> bool:
    """Returns whether two trained models, by their artifacts, read the same: images, or vectors of one network."""
    return _looked_at_by(model) == _looked_at_by(other)


def _looked_at_by(model: Path) -> str:
    note = model / SERVING / LOOKED_AT_BY
    return note.read_text() if note.exists() else ""


def keras_model(path: str) -> Any:
    """Returns the network as a Keras model of pixels that ends in a vector."""
    import keras

    if _is_preset(Path(path)):
        model = presets.backbone(Path(path))
        return keras.Model(model.input, _vector(model.output))
    if Path(path).is_dir():
        inside = Path(path) / INSIDE
        if not inside.exists():
            raise BadInput(
                f"extract.model {path}: no {INSIDE} in it, so it cannot be part of another model; "
                "set extract.where to beam, or name a .keras file"
            )
        return _cut(keras.models.load_model(inside, compile=False))
    if Path(path).is_file():
        return _cut(keras.models.load_model(path, compile=False))
    return _application(path)


def _application(name: str) -> Any:
    import keras

    known = {each for each in dir(keras.applications) if each[:1].isupper()}
    if name not in known:
        raise SettingsError(f"extract.model {name}: no Keras application of that name; {nearest(name, known)}")
    base = getattr(keras.applications, name)(include_top=False, weights=str(_weights(name)), pooling="avg")
    homes = [getattr(keras.applications, each) for each in dir(keras.applications) if each[:1].islower()]
    scale = next(home.preprocess_input for home in homes if hasattr(home, name))
    side = next((size for size in (base.input_shape[1],) if size), 224)
    image = keras.Input([side, side, 3], name="image")
    return keras.Model(image, base(scale(image)))


def _cut(model: Any) -> Any:
    """Returns a model up to its features."""
    import keras

    if len(model.inputs) != 1:
        raise BadInput(f"extract.model: it has {len(model.inputs)} inputs, expected one: a batch of images")
    names = [layer.name for layer in model.layers]
    last = model.layers[-1]
    if _SIGNATURE in names:
        found = model.get_layer(_SIGNATURE).output
    elif isinstance(last, keras.layers.Dense) and last.activation is keras.activations.softmax:
        found = last.input
    else:
        found = model.outputs[0]
    return keras.Model(model.inputs[0], _vector(found))


def _vector(found: Any) -> Any:
    import keras

    pooled = {4: keras.layers.GlobalAveragePooling2D, 3: keras.layers.GlobalAveragePooling1D}
    return pooled[len(found.shape)]()(found) if len(found.shape) in pooled else found


def load(path: str) -> "Loaded":
    """Returns the network, ready to look at encoded images."""
    import tensorflow as tf

    if not Path(path).is_dir() or _is_preset(Path(path)):
        return _of_keras(keras_model(path))
    loaded = tf.saved_model.load(path)
    signatures = dict(loaded.signatures)
    if _SIGNATURE not in signatures and len(signatures) != 1:
        raise BadInput(
            f"extract.model {path}: its signatures are {', '.join(sorted(signatures)) or 'none'}; "
            f"expected one, or one that is called {_SIGNATURE}"
        )
    signature = signatures.get(_SIGNATURE) or next(iter(signatures.values()))
    inputs = signature.structured_input_signature[1]
    if len(inputs) != 1:
        raise BadInput(f"extract.model {path}: it wants {', '.join(inputs)}; expected one input, a batch of images")
    ((name, spec),) = inputs.items()
    decode = _decoder(spec.shape, spec.dtype)
    return Loaded(loaded, lambda images: _first(signature(**{name: decode(images)})))


def _of_keras(model: Any) -> "Loaded":
    decode = _decoder(model.inputs[0].shape, model.inputs[0].dtype)
    return Loaded(model, lambda images: model(decode(images), training=False))


def _decoder(shape: Any, dtype: Any) -> Callable[[Any], Any]:
    """Returns what turns encoded images into what a network wants: as they are, or pixels of its size."""
    import tensorflow as tf

    from components.features.image import ImageFeature

    wanted = tf.dtypes.as_dtype(dtype)
    if wanted == tf.string:
        return lambda images: images
    side = shape[1] or 224
    feature = ImageFeature(int(side))
    return lambda images: tf.cast(feature.decode(images), wanted)


def _first(outputs: Any) -> Any:
    import tensorflow as tf

    found = next(value for _, value in sorted(outputs.items()) if value.dtype.is_floating)
    return tf.reshape(found, [tf.shape(found)[0], -1])


@dataclass(frozen=True)
class Loaded:
    """A network. `held` must be tracked by whoever exports a function that calls it."""

    held: Any
    features: Callable[[Any], Any]  # encoded images, string [n] -> float32 [n, width]


def width(source: Source, notes: Path) -> int:
    """Returns how long the vectors are; found out once for every network, and remembered in `notes`."""
    known = notes / "extractors" / f"{source.digest}.json"
    if known.exists():
        return int(json.loads(known.read_bytes())["width"])
    found = _ask_width(source.path)
    if notes.exists():  # a mere look at what would be done makes no folder
        known.parent.mkdir(exist_ok=True)
        durable.write_bytes(known, json.dumps({"width": found}).encode())
    return found


def _ask_width(path: str) -> int:
    """Asks in a process of its own: what is due is decided without TensorFlow, and without its chatter."""
    asked = f"from {__name__} import tell_width; tell_width({path!r})"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    told = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"bad": done.stderr[-_TAIL:].strip()}
    if "bad" in told:
        raise BadInput(f"extract.model {path}: {told['bad']}")
    return int(told["width"])


def tell_width(path: str) -> None:
    """Prints how long the vectors are, or why there are none."""
    import io

    import tensorflow as tf
    from PIL import Image

    blank = io.BytesIO()
    Image.new("RGB", (32, 32)).save(blank, "PNG")
    try:
        print(json.dumps({"width": int(load(path).features(tf.constant([blank.getvalue()])).shape[1])}))
    except BadInput as error:
        print(json.dumps({"bad": str(error)}))
