"""The tutorial way: published examples as written, corrected only where they do not run.

- Labels are read as Penstock stores them (class names of images are strings).
- Example 1 of "How to create TFRecord batches" fails on images of different sizes: it resizes here.
- Its example 3 fits a vocabulary inside `map` and never yields a batch: the vocabulary is fitted once, before.
- Examples that end after one epoch are repeated, so that a rate can be measured.
"""

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from benchmarks.contenders import BenchData

_SIZE = (224, 224)
_BUFFER = 1000
_IMAGE = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)}


def image_example_1(stored: BenchData, batch: int) -> Iterable[Any]:
    """Decode, convert to float32, batch."""

    def parse(example: tf.Tensor) -> Any:
        parsed = tf.io.parse_single_example(example, _IMAGE)
        image = tf.io.decode_jpeg(parsed["image"], channels=3)
        image = tf.image.convert_image_dtype(image, dtype=tf.float32)
        return tf.image.resize(image, _SIZE), parsed["label"]

    return _shuffled_late(stored, parse, batch)


def image_example_2(stored: BenchData, batch: int) -> Iterable[Any]:
    """Decode, convert to float32, resize, flip, change the brightness."""
    return _example_2(stored, batch, _SIZE)


def image_32(stored: BenchData, batch: int) -> Iterable[Any]:
    """The same on small images, to their own size."""
    return _example_2(stored, batch, (32, 32))


def _example_2(stored: BenchData, batch: int, size: tuple[int, int]) -> Iterable[Any]:
    def parse(example: tf.Tensor) -> Any:
        parsed = tf.io.parse_single_example(example, _IMAGE)
        image = tf.io.decode_jpeg(parsed["image"], channels=3)
        image = tf.image.convert_image_dtype(image, dtype=tf.float32)
        image = tf.image.resize(image, size)
        image = tf.image.random_flip_left_right(image)
        image = tf.image.random_brightness(image, max_delta=0.2)
        return image, parsed["label"]

    return _shuffled_late(stored, parse, batch)


def image_crop(stored: BenchData, batch: int) -> Iterable[Any]:
    """The same example with a random resized crop instead of brightness: decode, convert, crop, resize."""

    def parse(example: tf.Tensor) -> Any:
        parsed = tf.io.parse_single_example(example, _IMAGE)
        image = tf.io.decode_jpeg(parsed["image"], channels=3)
        image = tf.image.convert_image_dtype(image, dtype=tf.float32)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.shape(image),
            tf.zeros([1, 0, 4]),
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
            min_object_covered=0.0,
        )
        image = tf.image.resize(tf.slice(image, begin, size), _SIZE)
        return tf.image.random_flip_left_right(image), parsed["label"]

    return _shuffled_late(stored, parse, batch)


def image_128(stored: BenchData, batch: int) -> Iterable[Any]:
    """Example 3 of "How can TensorFlow's Dataset API accelerate network training?"."""

    def parse(example: tf.Tensor) -> Any:
        parsed = tf.io.parse_single_example(example, _IMAGE)
        image = tf.io.decode_jpeg(parsed["image"], channels=3)
        image = tf.image.resize(image, [128, 128])
        image = tf.cast(image, tf.float32) / 255.0
        return image, parsed["label"]

    dataset = tf.data.TFRecordDataset(stored.shards)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(buffer_size=100).repeat()
    dataset = dataset.batch(batch_size=batch)
    return dataset.prefetch(buffer_size=tf.data.AUTOTUNE)


def text_50(stored: BenchData, batch: int) -> Iterable[Any]:
    """Texts truncated or padded to 50 words, as in the example."""
    return _texts(stored, batch, 50)


def text_256(stored: BenchData, batch: int) -> Iterable[Any]:
    """Texts truncated or padded to 256 words, so that few are truncated."""
    return _texts(stored, batch, 256)


def tensor_28(stored: BenchData, batch: int) -> Iterable[Any]:
    """Raw bytes of 28 x 28 numbers, decoded one by one."""
    return _tensors(stored, batch, tf.uint8, [28, 28])


def tensor_64(stored: BenchData, batch: int) -> Iterable[Any]:
    """Raw bytes of 64 x 64 x 3 floats, decoded one by one: example 3 of "Where should batch size be defined"."""
    return _tensors(stored, batch, tf.float32, [64, 64, 3])


def table(stored: BenchData, batch: int) -> Iterable[Any]:
    """Rows parsed one by one."""
    spec = {f"f{index:02d}": tf.io.FixedLenFeature([], tf.float32) for index in range(12)}
    spec |= {f"i{index:02d}": tf.io.FixedLenFeature([], tf.int64) for index in range(6)}
    spec |= {key: tf.io.FixedLenFeature([], tf.string) for key in ("kind", "place")}
    spec["label"] = tf.io.FixedLenFeature([], tf.int64)

    def parse(example: tf.Tensor) -> Any:
        parsed = tf.io.parse_single_example(example, spec)
        return parsed, parsed.pop("label")

    return _shuffled_late(stored, parse, batch)


def _shuffled_late(stored: BenchData, parse: Any, batch: int) -> tf.data.Dataset:
    dataset = tf.data.TFRecordDataset(stored.shards)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(_BUFFER)
    dataset = dataset.repeat()
    dataset = dataset.batch(batch)
    return dataset.prefetch(buffer_size=tf.data.AUTOTUNE)


def _texts(stored: BenchData, batch: int, length: int) -> tf.data.Dataset:
    spec = {"text": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    tokenizer = keras.layers.TextVectorization(output_mode="int", output_sequence_length=length)
    tokenizer.set_vocabulary((stored.raw / "words.list").read_text().split())

    def parse(example: tf.Tensor) -> Any:
        parsed = tf.io.parse_single_example(example, spec)
        return parsed["text"], parsed["label"]

    dataset = tf.data.TFRecordDataset(stored.shards)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.map(lambda text, label: (tokenizer(text), label), num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(_BUFFER)
    dataset = dataset.repeat()
    dataset = dataset.padded_batch(batch, padded_shapes=([length], []))
    return dataset.prefetch(buffer_size=tf.data.AUTOTUNE)


def _tensors(stored: BenchData, batch: int, dtype: tf.DType, shape: list[int]) -> tf.data.Dataset:
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(example_proto: tf.Tensor) -> Any:
        example = tf.io.parse_single_example(example_proto, spec)
        image = tf.io.decode_raw(example["image"], dtype)
        image = tf.reshape(image, shape)
        label = tf.cast(example["label"], tf.int32)
        return image, label

    raw_dataset = tf.data.TFRecordDataset(stored.shards)
    parsed_dataset = raw_dataset.map(parse)
    return parsed_dataset.shuffle(buffer_size=1024).repeat().batch(batch)
