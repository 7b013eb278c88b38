"""Small served models in plain TensorFlow, whose predictions can be computed by hand."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.serving.reading import Argument, Reading
from pipelines.predict import PredictRequest

CLASSES = ("low", "high")
Saved = Callable[..., Path]


def score(argument: Argument, values: Any) -> Any:
    """Returns a number per record: the value, the length of a string, the sum of a tensor, the mean of an image."""
    if argument.role == "image":
        mean = tf.map_fn(
            lambda content: tf.reduce_mean(
                tf.cast(tf.io.decode_image(content, 3, expand_animations=False), tf.float32)
            ),
            values,
            fn_output_signature=tf.float32,
        )
        return mean / 255
    if argument.role == "tensor":
        return tf.reduce_sum(tf.io.decode_raw(values, tf.float32), axis=1)
    if values.dtype == tf.string:
        with tf.control_dependencies([tf.debugging.assert_none_equal(values, "boom")]):
            return tf.cast(tf.strings.length(values), tf.float32)
    if values.dtype == tf.int64:
        return tf.where(values == tf.int64.min, 0.5, tf.cast(values, tf.float32))
    return tf.where(tf.math.is_nan(values), 0.5, values)


class Adder(tf.Module):
    """Predicts the sum of the scores of its arguments, or whether it is above 2."""

    def __init__(self, arguments: Sequence[Argument], kind: str) -> None:
        super().__init__()
        self._arguments, self._kind = list(arguments), kind

    def raw(self, **values: Any) -> dict[str, Any]:
        """Returns what an exported model returns."""
        total = tf.add_n([score(each, values[each.name]) for each in self._arguments])
        if self._kind == "quantity":
            return {"value": total}
        high = tf.sigmoid(total - 2)
        return {"probabilities": tf.stack([1 - high, high], axis=1)}


class Convolution(tf.Module):
    """A convolution with batch normalization, whose last digits depend on the number of images that it gets at once."""

    def __init__(self) -> None:
        super().__init__()
        random = np.random.default_rng(5)
        self.kernel = tf.Variable(random.normal(size=(3, 3, 3, 16)), dtype=tf.float32)
        self.moments = [tf.Variable(random.uniform(0.5, 1.5, 16), dtype=tf.float32) for _ in range(4)]
        self.head = tf.Variable(random.normal(size=(16, 2)), dtype=tf.float32)

    def raw(self, image: Any) -> dict[str, Any]:
        """Returns what an exported model returns."""
        pixels = tf.map_fn(self._decode, image, fn_output_signature=tf.TensorSpec([8, 8, 3], tf.uint8))
        maps = tf.nn.conv2d(tf.cast(pixels, tf.float32) / 255, self.kernel, 1, "SAME")
        maps = tf.nn.relu(tf.nn.batch_normalization(maps, *self.moments, 1e-3))
        return {"probabilities": tf.nn.softmax(tf.reduce_mean(maps, [1, 2]) @ self.head)}

    def _decode(self, content: Any) -> Any:
        return tf.ensure_shape(tf.io.decode_image(content, 3, expand_animations=False), [8, 8, 3])


def save_convolution(folder: Path) -> None:
    """Saves a model of images of 8 x 8 pixels."""
    module = Convolution()
    raw = tf.function(module.raw, autograph=False).get_concrete_function(tf.TensorSpec([None], tf.string, "image"))
    tf.saved_model.save(module, str(folder), signatures={"raw": raw})
    Reading((Argument("image", "image", "image", "bytes"),), "label", "class", CLASSES).write(folder)


def dtype_of(argument: Argument) -> Any:
    """Returns the type of an argument in the signature."""
    return {"float": tf.float32, "int": tf.int64, "bool": tf.int64}.get(argument.kind, tf.string)


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    """A function that saves a model with these arguments as version 1 of a serving folder."""

    def save(arguments: Sequence[Argument], kind: str = "class", **facts: Any) -> Path:
        folder = tmp_path / "serving" / "1"
        module = Adder(arguments, kind)
        specs = {each.name: tf.TensorSpec([None], dtype_of(each), each.name) for each in arguments}
        raw = tf.function(module.raw, autograph=False).get_concrete_function(**specs)
        tf.saved_model.save(module, str(folder), signatures={"raw": raw})
        classes = CLASSES if kind == "class" else ()
        Reading(tuple(arguments), "label", kind, classes, **facts).write(folder)  # type: ignore[arg-type]
        return folder.parent

    return save


@pytest.fixture
def request_of(tmp_path: Path) -> Callable[..., PredictRequest]:
    """A function that returns the request to predict data into the folder `out`."""

    def make(model: Path, data: Path | str, **others: Any) -> PredictRequest:
        return PredictRequest(**{"model": model, "data": str(data), "out": tmp_path / "out", **others})

    return make


def png(brightness: int, side: int = 8) -> bytes:
    """Returns an image of one brightness."""
    out = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), brightness, np.uint8)).save(out, "PNG")
    return out.getvalue()
