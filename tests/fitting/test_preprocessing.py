"""Transform fits an index for every class name, and counts the records."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format
from tensorflow_transform.tf_metadata import schema_utils

from components.fitting import fitted, preprocessing
from components.fitting.analysis.shards import ShardAnalyzer

pytestmark = pytest.mark.slow  # traces graphs

# Records per class; names that a text file, a split at spaces or a decoder would damage.
COUNTS = {
    "back\\nslash": 10,
    "猫 🐈": 9,
    "two\nlines": 8,
    "dög": 7,
    "carriage\rreturn": 6,
    " blanks  around ": 5,
    "tab\tbed": 4,
    "7": 3,
    "line\u2028separator": 2,
    # Equal frequency: in descending order of names.
    "c": 1,
    "b": 1,
    "a": 1,
}
CONFIG: dict[str, Any] = {"label": "label", "kind": "class", "parts": [], "settings": {}}
COLUMNS = {
    "image": tf.TensorSpec([None], tf.string),
    "label": tf.TensorSpec([None], tf.string),
    "id": tf.TensorSpec([None], tf.int64),
}


def fit_all(inputs: Any) -> dict[str, Any]:
    """Calls the fit functions as the executor does."""
    return preprocessing.fit_all(inputs, CONFIG)


@pytest.fixture(scope="module")
def graph(fit: Callable[..., dict[str, str]]) -> str:
    """The graph, fitted on records of these classes."""
    labels = [label for label, count in sorted(COUNTS.items()) for _ in range(count)]
    return fit({"label": labels}, {"graph": fit_all})["graph"]


def indices(graph: str, labels: list[str]) -> list[int]:
    """Returns the class index of each label."""
    batch = {"label": tf.constant([label.encode() for label in labels])}
    found = tft.TFTransformOutput(graph).transform_raw_features(batch)["label"]
    assert found.dtype == tf.int64
    return [int(index) for index in found.numpy()]


def test_classes_are_in_order_of_descending_frequency(graph: str) -> None:
    """With line breaks and accents; D2: classes of equal frequency have a fixed order."""
    assert fitted.class_names(tft.TFTransformOutput(graph)) == list(COUNTS)


def test_indices_are_positions_in_the_list_of_classes(graph: str) -> None:
    """They are also the columns of the model's output."""
    assert indices(graph, list(COUNTS)) == list(range(len(COUNTS)))


def test_an_unknown_class_has_no_index(graph: str) -> None:
    """Parts of a name are unknown too; -1 stops the reader."""
    assert indices(graph, ["two", "blanks", "", "a"]) == [-1, -1, -1, 11]


def test_every_fitted_record_is_counted(graph: str) -> None:
    """The ledger compares this with the train split."""
    assert fitted.label_counts(tft.TFTransformOutput(graph)) == COUNTS


def test_fitting_reads_nothing_but_labels() -> None:
    """Transform analyzes neither images nor ids."""
    spec = {name: tf.io.FixedLenFeature([], each.dtype) for name, each in COLUMNS.items()}
    schema = text_format.MessageToString(schema_utils.schema_from_feature_spec(spec))

    assert ShardAnalyzer(schema, fit_all).columns == ("label",)
