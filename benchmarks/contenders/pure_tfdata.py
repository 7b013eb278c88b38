"""The best pure tf.data code: what the Reader and the native op must beat."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from benchmarks.contenders import BenchData

_SIZE = (224, 224)
_CALLS = 2  # fixed: on two cores faster than autotuning
_IMAGE = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)}


def image_full(stored: BenchData, batch: int) -> Iterable[Any]:
    """Shuffle before decoding, uint8 output, flip."""

    def parse(example: tf.Tensor) -> Any:
        parsed = tf.io.parse_single_example(example, _IMAGE)
        image = tf.image.resize(tf.io.decode_jpeg(parsed["image"], channels=3), _SIZE)
        return tf.image.random_flip_left_right(_as_uint8(image)), parsed["label"]

    return _fast(_records(stored, 1000).map(parse, num_parallel_calls=_CALLS, deterministic=False).batch(batch))


def image_crop(stored: BenchData, batch: int) -> Iterable[Any]:
    """The crop decided from the header, and only its blocks decoded."""

    def parse(example: tf.Tensor) -> Any:
        parsed = tf.io.parse_single_example(example, _IMAGE)
        content = parsed["image"]
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(content),
            tf.zeros([1, 0, 4]),
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
            min_object_covered=0.0,
        )
        window = tf.concat([begin[:2], size[:2]], axis=0)
        image = tf.image.resize(tf.image.decode_and_crop_jpeg(content, window, channels=3), _SIZE)
        return tf.image.random_flip_left_right(_as_uint8(image)), parsed["label"]

    return _fast(_records(stored, 1000).map(parse, num_parallel_calls=_CALLS, deterministic=False).batch(batch))


def text_padded(stored: BenchData, batch: int) -> Iterable[Any]:
    """Whole batches parsed, split and looked up, padded to the longest."""
    table = _words(stored)
    spec = {"text": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(examples: tf.Tensor) -> Any:
        parsed = tf.io.parse_example(examples, spec)
        words = tf.strings.split(parsed["text"])
        return words.with_values(table.lookup(words.values)).to_tensor(), parsed["label"]

    return _fast(_records(stored, 10_000).batch(batch).map(parse, num_parallel_calls=_CALLS, deterministic=False))


def tensor_28(stored: BenchData, batch: int) -> Iterable[Any]:
    """Whole batches parsed and decoded."""
    return _tensors(stored, batch, tf.uint8, [28, 28])


def tensor_64(stored: BenchData, batch: int) -> Iterable[Any]:
    """Whole batches parsed and decoded."""
    return _tensors(stored, batch, tf.float32, [64, 64, 3])


def table(stored: BenchData, batch: int) -> Iterable[Any]:
    """Whole batches parsed."""
    spec = {f"f{index:02d}": tf.io.FixedLenFeature([], tf.float32) for index in range(12)}
    spec |= {f"i{index:02d}": tf.io.FixedLenFeature([], tf.int64) for index in range(6)}
    spec |= {key: tf.io.FixedLenFeature([], tf.string) for key in ("kind", "place")}
    spec["label"] = tf.io.FixedLenFeature([], tf.int64)

    def parse(examples: tf.Tensor) -> Any:
        parsed = tf.io.parse_example(examples, spec)
        return parsed, parsed.pop("label")

    return _fast(_records(stored, 10_000).batch(batch).map(parse, num_parallel_calls=_CALLS, deterministic=False))


def raw_records(stored: BenchData, batch: int) -> Iterable[Any]:
    """The limit of any reader of TFRecord files: read in order and batched, not parsed."""
    # Their lengths, and not the strings: making Python objects of those costs more than reading them.
    return _fast(tf.data.TFRecordDataset(stored.shards).repeat().batch(batch).map(tf.strings.length))


def raw_shuffled(stored: BenchData, batch: int) -> Iterable[Any]:
    """The limit of a reader that interleaves shards and shuffles single records."""
    return _fast(_records(stored, 10_000).batch(batch).map(tf.strings.length))


def _tensors(stored: BenchData, batch: int, dtype: tf.DType, shape: list[int]) -> tf.data.Dataset:
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(examples: tf.Tensor) -> Any:
        parsed = tf.io.parse_example(examples, spec)
        return tf.reshape(tf.io.decode_raw(parsed["image"], dtype), [-1, *shape]), parsed["label"]

    return _fast(_records(stored, 1024).batch(batch).map(parse, num_parallel_calls=_CALLS, deterministic=False))


def _records(stored: BenchData, buffer: int) -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensor_slices(stored.shards).shuffle(len(stored.shards))
    dataset = dataset.interleave(tf.data.TFRecordDataset, cycle_length=4)
    return dataset.shuffle(buffer).repeat()


def _fast(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    options.threading.max_intra_op_parallelism = 1
    return dataset.prefetch(2).with_options(options)


def _as_uint8(image: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)


def _words(stored: BenchData) -> tf.lookup.StaticVocabularyTable:
    words = (stored.raw / "words.list").read_text().split()
    numbers = tf.range(2, len(words) + 2, dtype=tf.int64)  # 0: padding, 1: unknown
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(words, numbers), default_value=1)
