"""Loads a pretrained model: as a function from encoded images to embeddings, or as a Keras model.

A SavedModel is called by its signature `features`, or by its only signature. A Keras model is cut after its layer
`features`, or before its last softmax, or not at all; feature maps are averaged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import BadInput, SettingsError
from components.pretrained import presets
from components.pretrained.artifacts import EXTRACTOR
from components.pretrained.find import application_weights, is_preset
from components.settings.names import nearest

_FEATURES = "features"  # name of a layer, or of a signature
_MODEL = "pretrained"  # name of the model as a layer of another one
_SIDE = 224  # of images, for a model that accepts any size


@dataclass(frozen=True)
class EmbeddingModel:
    """A loaded pretrained model. A module that exports a function calling `embed` must track `resource`."""

    resource: Any
    embed: Callable[[Any], Any]  # encoded images, string [n] -> float32 [n, width]


def load(path: str, *, trusted: bool = False) -> EmbeddingModel:
    """Returns the model as a function from encoded images to embeddings.

    Args:
        path: the copy of a model that `copy_model` checked, or the name of a Keras application.
        trusted: whether code in it may run, such as a Lambda layer.
    """
    import tensorflow as tf

    if not Path(path).is_dir() or is_preset(Path(path)):
        model = keras_model(path, trusted=trusted)
        decode = _decoder(model.inputs[0].shape, model.inputs[0].dtype)
        return EmbeddingModel(model, lambda images: model(decode(images), training=False))
    loaded = tf.saved_model.load(path)
    signature = _signature(path, dict(loaded.signatures))
    inputs = signature.structured_input_signature[1]
    if len(inputs) != 1:
        raise BadInput(f"extract.model {path}: its inputs are {', '.join(inputs)}; expected one: a batch of images")
    ((name, spec),) = inputs.items()
    decode = _decoder(spec.shape, spec.dtype)
    return EmbeddingModel(loaded, lambda images: _first_float(signature(**{name: decode(images)})))


def _signature(path: str, signatures: dict[str, Any]) -> Any:
    if _FEATURES not in signatures and len(signatures) != 1:
        raise BadInput(
            f"extract.model {path}: its signatures are {', '.join(sorted(signatures)) or 'none'}; "
            f"expected a single one, or one named {_FEATURES}"
        )
    return signatures.get(_FEATURES) or next(iter(signatures.values()))


def _decoder(shape: Any, dtype: Any) -> Callable[[Any], Any]:
    """Returns a function from encoded images to the model's input: the bytes themselves, or pixels of its size."""
    import tensorflow as tf

    from components.features.image import ImageFeature

    wanted = tf.dtypes.as_dtype(dtype)
    if wanted == tf.string:
        return lambda images: images
    feature = ImageFeature(int(shape[1] or _SIDE))
    return lambda images: tf.cast(feature.decode(images), wanted)


def _first_float(outputs: Any) -> Any:
    import tensorflow as tf

    found = next(value for _, value in sorted(outputs.items()) if value.dtype.is_floating)
    return tf.reshape(found, [tf.shape(found)[0], -1])


def keras_model(path: str, *, trusted: bool = False) -> Any:
    """Returns the pretrained model as a Keras model from pixels to embeddings; see `load`."""
    import keras

    folder = Path(path)
    if is_preset(folder):
        model = presets.backbone(folder)
        return keras.Model(model.input, _pooled(model.output), name=_MODEL)
    if folder.exists():
        file = folder / EXTRACTOR if folder.is_dir() else folder
        return _cut(keras.models.load_model(file, compile=False, safe_mode=not trusted))
    return _application(path)


def _application(name: str) -> Any:
    import keras

    known = {each for each in dir(keras.applications) if each[:1].isupper()}
    if name not in known:
        raise SettingsError(f"extract.model {name}: no Keras application has this name; {nearest(name, known)}")
    base = getattr(keras.applications, name)(include_top=False, weights=str(application_weights(name)), pooling="avg")
    modules = [getattr(keras.applications, each) for each in dir(keras.applications) if each[:1].islower()]
    preprocess = next(module.preprocess_input for module in modules if hasattr(module, name))
    side = base.input_shape[1] or _SIDE
    image = keras.Input([side, side, 3], name="image")
    return keras.Model(image, base(preprocess(image)), name=_MODEL)


def _cut(model: Any) -> Any:
    """Returns the model up to its features."""
    import keras

    if len(model.inputs) != 1:
        raise BadInput(f"extract.model: the model has {len(model.inputs)} inputs; expected one: a batch of images")
    last = model.layers[-1]
    if _FEATURES in [layer.name for layer in model.layers]:
        found = model.get_layer(_FEATURES).output
    elif isinstance(last, keras.layers.Dense) and last.activation is keras.activations.softmax:
        found = last.input
    else:
        found = model.outputs[0]
    return keras.Model(model.inputs[0], _pooled(found), name=_MODEL)


def _pooled(found: Any) -> Any:
    """Returns a vector per image: feature maps and sequences are averaged."""
    import keras

    pooling = {4: keras.layers.GlobalAveragePooling2D, 3: keras.layers.GlobalAveragePooling1D}
    return pooling[len(found.shape)]()(found) if len(found.shape) in pooling else found
