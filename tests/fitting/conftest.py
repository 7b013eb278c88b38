"""Fits columns with Transform and Beam, with several functions per pipeline because Beam starts slowly."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

Preprocess = Callable[[dict[str, Any]], dict[str, Any]]
Fit = Callable[[Mapping[str, Sequence[Any]], Mapping[str, Preprocess]], dict[str, str]]


@pytest.fixture(scope="session")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """Fits columns with each of several preprocessing functions; returns the folders of the graphs by name."""

    def run(columns: Mapping[str, Sequence[Any]], functions: Mapping[str, Preprocess]) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("fitted")
        typed = {name: _typed(values) for name, values in columns.items()}
        spec = {name: tf.io.FixedLenFeature([], _dtype(values)) for name, values in typed.items()}
        metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(spec))
        records = [dict(zip(typed, row, strict=True)) for row in zip(*typed.values(), strict=True)]
        graphs = {name: str(folder / f"graph-{place}") for place, name in enumerate(functions)}
        with beam.Pipeline() as pipeline:
            rows = pipeline | beam.Create(records)
            for name, function in functions.items():
                # In a shared folder, one function would overwrite the vocabularies of another.
                with tft_beam.Context(temp_dir=f"{graphs[name]}-temporary"):
                    fitted = (rows, metadata) | f"fit {name}" >> tft_beam.AnalyzeDataset(function)
                    _ = fitted | f"write {name}" >> tft_beam.WriteTransformFn(graphs[name])
        return graphs

    return run


def _typed(values: Sequence[Any]) -> list[Any]:
    if isinstance(values[0], str | bytes):
        return [value.encode() if isinstance(value, str) else value for value in values]
    return list(np.asarray(values, np.int64 if all(isinstance(value, int) for value in values) else np.float32))


def _dtype(values: Sequence[Any]) -> Any:
    return tf.string if isinstance(values[0], bytes) else tf.dtypes.as_dtype(values[0].dtype)
