"""Counts the texts of each split that are longer than the model's maximum."""

import tensorflow as tf

from components.features.text import count_truncated
from components.records import manifest
from components.settings.transform import Fit
from components.storage.location import Location

_BATCH = 128  # records; small, because a text may be long


def count(examples: Location, columns: list[str], settings: Fit) -> dict[str, int]:
    """Returns the number of truncated texts per split, over all text columns."""
    ingested = manifest.read(examples)
    spec = {name: tf.io.FixedLenFeature([], tf.string, "") for name in columns}

    def in_batch(records: tf.Tensor) -> tf.Tensor:
        texts = tf.concat(list(tf.io.parse_example(records, spec).values()), axis=0)
        return count_truncated(texts, settings.max_tokens, settings.tokens, settings.lower, settings.ngrams)

    found = {}
    for split in ingested.records:
        files = [str(examples / shard.name) for shard in ingested.shards_of(split) if shard.records]
        records = tf.data.TFRecordDataset(files, "GZIP" if files and files[0].endswith(".gz") else "")
        counts = records.batch(_BATCH).map(in_batch, tf.data.AUTOTUNE)
        found[split] = int(counts.reduce(tf.constant(0, tf.int64), tf.add))
    return found
