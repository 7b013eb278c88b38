"""What Transform fits: only what needs the whole data set. Image bytes are never read here.

label strings of the train split ─► vocabulary ─► class numbers, the same in training, evaluation and serving
"""

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from components import refs

LABEL_VOCABULARY = "labels"
LABEL_COUNTS = "label_counts"
# A text vocabulary drops tokens with a line break in them; records keep any folder name.
_FORMAT = "tfrecord_gzip"


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Entry point of the Transform component: hands over to the Task's own function."""
    outputs: dict[str, Any] = refs.load(custom_config["preprocess"])(inputs, custom_config)
    return outputs


def label_vocabulary(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Numbers the classes by falling frequency, and keeps how often each was seen for the ledger."""
    key = custom_config["label"]
    label = inputs[key]
    tft.vocabulary(label, vocab_filename=LABEL_COUNTS, store_frequency=True, file_format=_FORMAT)
    number = tft.compute_and_apply_vocabulary(label, vocab_filename=LABEL_VOCABULARY, file_format=_FORMAT)
    return {key: tf.cast(number, tf.int64)}


def class_names(transform_graph: str) -> list[str]:
    """Returns the fitted classes, in the order of the model's outputs."""
    output = tft.TFTransformOutput(transform_graph)
    return [name.decode() for name in output.vocabulary_by_name(LABEL_VOCABULARY)]


def fitted_records(transform_graph: str) -> int:
    """Returns how many records the vocabulary was fitted on."""
    output = tft.TFTransformOutput(transform_graph)
    path = output.vocabulary_file_by_name(LABEL_COUNTS)
    rows = tf.data.TFRecordDataset(path, compression_type="GZIP").as_numpy_iterator()
    return sum(int(row.split(b" ", 1)[0]) for row in rows)
