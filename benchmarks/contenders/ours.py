"""Penstock's Reader, with settings for the same work as the others."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from benchmarks.contenders import BenchData
from benchmarks.features import RawColumns, vocabulary_lookup
from components.features import Feature
from components.features.image import ImageFeature
from components.features.tensor import TensorFeature
from components.features.text import TextFeature
from components.input_pipeline import Reader, RecordFile, each
from components.records import manifest
from components.settings.input import Augmentation, Input

_SEED = 17
_SIZE = 224
_PLAIN = {"brightness": 0.0, "contrast": 0.0}  # the others do not have it


def image_crop(stored: BenchData, batch: int) -> Iterable[Any]:
    """Random resized crop and flip, the same batches in every run."""
    return _images(stored, batch, crop="resized", flip=0.5)


def image_crop_fastest(stored: BenchData, batch: int) -> Iterable[Any]:
    """The same work; in any order."""
    return _images(stored, batch, order="fastest", crop="resized", flip=0.5)


def image_crop_plain(stored: BenchData, batch: int) -> Iterable[Any]:
    """The same work without the native op."""
    os.environ["PENSTOCK_NATIVE"] = "0"
    return _images(stored, batch, crop="resized", flip=0.5)


def image_full(stored: BenchData, batch: int) -> Iterable[Any]:
    """The whole image, resized and flipped."""
    return _images(stored, batch, crop="none", flip=0.5)


def image_full_plain(stored: BenchData, batch: int) -> Iterable[Any]:
    """The same work without the native op."""
    os.environ["PENSTOCK_NATIVE"] = "0"
    return _images(stored, batch, crop="none", flip=0.5)


def image_random_crop(stored: BenchData, batch: int) -> Iterable[Any]:
    """Random crop without resize, and flip: for images stored at 256 px."""
    return _images(stored, batch, crop="random", flip=0.5)


def image_128(stored: BenchData, batch: int) -> Iterable[Any]:
    """The whole image at 128 px, without augmentation, by the decoder of training."""
    return _images(stored, batch, size=128, crop="none")


def image_32(stored: BenchData, batch: int) -> Iterable[Any]:
    """Flip and brightness, as in the example."""
    return _images(stored, batch, size=32, crop="none", flip=0.5, brightness=0.2)


def image_32_defaults(stored: BenchData, batch: int) -> Iterable[Any]:
    """Default settings: shift, brightness and contrast."""
    settings = Input(batch_size=batch)
    return _read(stored, {"image": ImageFeature.of(settings, manifest.read(stored.artifact))}, settings)


def image_defaults(stored: BenchData, batch: int) -> Iterable[Any]:
    """Default settings at 224 px: antialias, shift, brightness and contrast."""
    settings = Input(batch_size=batch, image_size=_SIZE)
    return _read(stored, {"image": ImageFeature.of(settings, manifest.read(stored.artifact))}, settings)


def text(stored: BenchData, batch: int) -> Iterable[Any]:
    """Batches of texts of similar length."""
    return _read(stored, {"text": _text_feature(stored)}, Input(batch_size=batch, max_tokens=400), "int64")


def text_fastest(stored: BenchData, batch: int) -> Iterable[Any]:
    """The same work; in any order."""
    settings = Input(batch_size=batch, max_tokens=400, order="fastest")
    return _read(stored, {"text": _text_feature(stored)}, settings, "int64")


def tensor_28(stored: BenchData, batch: int) -> Iterable[Any]:
    """Bytes of 28 x 28."""
    return _read(stored, {"image": TensorFeature((28, 28), "uint8")}, Input(batch_size=batch), "int64")


def tensor_64(stored: BenchData, batch: int) -> Iterable[Any]:
    """Floats of 64 x 64 x 3."""
    return _read(stored, {"image": TensorFeature((64, 64, 3), "float32")}, Input(batch_size=batch), "int64")


def table(stored: BenchData, batch: int) -> Iterable[Any]:
    """Eighteen numbers side by side, two strings side by side."""
    columns = {f"f{index:02d}": "float32" for index in range(12)} | {f"i{index:02d}": "int64" for index in range(6)}
    columns |= {"kind": "string", "place": "string"}
    return _read(stored, {"row": RawColumns(columns)}, Input(batch_size=batch), "int64")


def _images(stored: BenchData, batch: int, *, size: int = _SIZE, order: str = "exact", **augmentation: Any) -> Any:
    how = Augmentation.model_validate(_PLAIN | augmentation)
    # The others do not antialias, which costs as much as resizing.
    given = {"batch_size": batch, "image_size": size, "antialias": False, "order": order, "augmentation": how}
    settings = Input.model_validate(given)
    return _read(stored, {"image": ImageFeature.of(settings, manifest.read(stored.artifact))}, settings)


def _text_feature(stored: BenchData) -> TextFeature:
    words = (stored.raw / "words.list").read_text().split()
    numbers = tf.range(1, len(words) + 1, dtype=tf.int64)
    lookup = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(words, numbers), default_value=0)
    return TextFeature(vocabulary_lookup(lookup.lookup), max_tokens=400)


def _read(
    stored: BenchData, features: Mapping[str, Feature], settings: Input, label_type: str = "string"
) -> Iterable[Any]:
    known = manifest.read(stored.artifact)
    shards = [RecordFile(stored.artifact / each.name, each.records, each.bytes) for each in known.shards_of("train")]
    number = _class_numbers(list(known.classes["train"])) if label_type == "string" else tf.identity
    return each(Reader(features, "label", number, settings, _SEED, label_type=label_type).training(shards))


def _class_numbers(names: list[str]) -> Any:
    numbers = tf.range(len(names), dtype=tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(names, numbers), -1).lookup
