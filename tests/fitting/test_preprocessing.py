"""What Transform fits: a number for every class, whatever its name, and how many records it saw."""

from typing import Any

import apache_beam as beam
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

from components.fitting import fitted, preprocessing

pytestmark = pytest.mark.slow  # starts Beam

# How often each class stands in the data; names that a text file, a split at blanks or a decoder would spoil.
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
    # Equally frequent: by name, the last one first.
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


def preprocess(inputs: dict[str, Any]) -> dict[str, Any]:
    """The entry point with what the pipeline hands it."""
    return preprocessing.preprocessing_fn(inputs, CONFIG)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The graph fitted on records of these classes, with Beam."""
    folder = tmp_path_factory.mktemp("fitted")
    spec = {"label": tf.io.FixedLenFeature([], tf.string)}
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(spec))
    records = [{"label": label.encode()} for label, count in sorted(COUNTS.items()) for _ in range(count)]
    with beam.Pipeline() as pipeline, tft_beam.Context(temp_dir=str(folder / "temporary")):
        fitted = (pipeline | beam.Create(records), metadata) | tft_beam.AnalyzeDataset(preprocess)
        _ = fitted | tft_beam.WriteTransformFn(str(folder / "graph"))
    return str(folder / "graph")


def numbers(graph: str, labels: list[str]) -> list[int]:
    """Returns the number that the fitted graph gives to each label."""
    batch = {"label": tf.constant([label.encode() for label in labels])}
    found = tft.TFTransformOutput(graph).transform_raw_features(batch)["label"]
    assert found.dtype == tf.int64
    return [int(number) for number in found.numpy()]


def test_classes_are_named_by_falling_frequency(graph: str) -> None:
    """All of them, line breaks and accents included; D2: equally frequent ones in an order of their own."""
    assert fitted.class_names(tft.TFTransformOutput(graph)) == list(COUNTS)


def test_numbers_are_places_in_the_list_of_classes(graph: str) -> None:
    """Training's numbers are the columns of the model's outputs."""
    assert numbers(graph, list(COUNTS)) == list(range(len(COUNTS)))


def test_a_class_that_was_not_seen_has_no_number(graph: str) -> None:
    """Nor have parts of a name; the reader refuses -1."""
    assert numbers(graph, ["two", "blanks", "", "a"]) == [-1, -1, -1, 11]


def test_every_fitted_record_is_counted(graph: str) -> None:
    """The ledger compares this with the train split."""
    assert fitted.label_counts(tft.TFTransformOutput(graph)) == COUNTS


def test_fitting_reads_nothing_but_labels() -> None:
    """Neither images nor ids reach Transform's analysis."""
    assert tft.get_analyze_input_columns(preprocess, COLUMNS) == ["label"]


def test_nothing_but_labels_is_transformed() -> None:
    """The graph that training applies asks for nothing else."""
    assert tft.get_transform_input_columns(preprocess, COLUMNS) == ["label"]
