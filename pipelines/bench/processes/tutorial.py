"""The common tutorial code for reading TFRecords, as a reference for comparison.

    files ─► parse one by one ─► decode, to float32, resize, flip, brighten ─► shuffle 1000 ─► batch ─► prefetch

It is kept as the tutorials have it, with the task's own columns, sizes and batch size, so the gain is measured on the
user's own records.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from components import features as modalities
from components.features import Feature
from components.features.image import ImageFeature
from pipelines.bench.processes.training_data import TrainingData

_BUFFER = 1000


def batches(data: TrainingData) -> tf.data.Dataset:
    """Returns endless batches."""
    reader, size = data.reader, data.reader.settings.batch_size

    def parse(example: tf.Tensor) -> Any:
        parsed = tf.io.parse_single_example(example, reader.spec())
        values = {key: _decode(feature, parsed, key) for key, feature in reader.features.items()}
        return (values, parsed[reader.label]) if reader.label else values

    files = [str(file.path) for file in data.shards]
    dataset = tf.data.TFRecordDataset(files, compression_type=data.shards[0].compression)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(_BUFFER)
    dataset = dataset.repeat()
    ragged = any(feature.is_ragged for feature in reader.features.values())
    dataset = dataset.padded_batch(size) if ragged else dataset.batch(size)
    return dataset.prefetch(buffer_size=tf.data.AUTOTUNE)


def _decode(feature: Feature, parsed: Mapping[str, tf.Tensor], key: str) -> Any:
    if isinstance(feature, ImageFeature):
        return _image(parsed[key], feature)
    # The feature's own decoder works on batches: a batch of one record.
    one = tf.nest.map_structure(lambda value: value[tf.newaxis], modalities.stored(parsed, key, feature))
    return tf.nest.map_structure(lambda value: value[0], feature.decode(one))


def _image(content: tf.Tensor, feature: ImageFeature) -> tf.Tensor:
    image = tf.io.decode_jpeg(content, channels=3)
    image = tf.image.convert_image_dtype(image, dtype=tf.float32)
    image = tf.image.resize(image, (feature.size, feature.size))
    image = tf.image.random_flip_left_right(image)
    return tf.image.random_brightness(image, max_delta=0.2)
