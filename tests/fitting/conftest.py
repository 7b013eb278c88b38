"""Fits columns as the executor does, without Beam: one shard, analyzed, then a graph with the results."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_transform import impl_helper
from tensorflow_transform.tf_metadata import schema_utils

from components.fitting.analysis import trace
from components.fitting.analysis.shards import ShardAnalyzer
from components.records.manifest import Shard

Preprocess = Callable[[Any], dict[str, Any]]
Fit = Callable[[Mapping[str, Sequence[Any]], Mapping[str, Preprocess]], dict[str, str]]


@pytest.fixture(scope="session")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """Fits columns with each of several preprocessing functions; returns the folders of the graphs by name."""

    def run(columns: Mapping[str, Sequence[Any]], functions: Mapping[str, Preprocess]) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("fitted")
        typed = {name: _typed(values) for name, values in columns.items()}
        spec = {name: tf.io.FixedLenFeature([], _dtype(values)) for name, values in typed.items()}
        shard = _write(folder, typed)
        graphs = {name: str(folder / f"graph-{place}") for place, name in enumerate(functions)}
        for name, function in functions.items():
            _fit(folder, shard, spec, function, graphs[name])
        return graphs

    return run


def _fit(folder: Path, shard: Shard, spec: dict[str, Any], function: Preprocess, graph: str) -> None:
    analyzer = ShardAnalyzer(text_format.MessageToString(schema_utils.schema_from_feature_spec(spec)), function)
    counted = analyzer.start()
    analyzer.add(folder, shard, counted)
    results = Path(f"{graph}-results")
    trace.write(results, analyzer.analyses, counted)

    def with_results(inputs: Any) -> dict[str, Any]:
        with trace.applying(results):
            return function(inputs)

    types = {name: tf.TensorSpec([None], each.dtype) for name, each in spec.items()}
    impl_helper.analyze_in_place(with_results, False, spec, types, graph)


def _write(folder: Path, columns: Mapping[str, list[Any]]) -> Shard:
    file = folder / "shard"
    with tf.io.TFRecordWriter(str(file)) as writer:
        for row in zip(*columns.values(), strict=True):
            features = {name: _feature(value) for name, value in zip(columns, row, strict=True)}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    rows = len(next(iter(columns.values())))
    return Shard("train", file.name, rows, file.stat().st_size, "")


def _feature(value: Any) -> Any:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, np.floating):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def _typed(values: Sequence[Any]) -> list[Any]:
    if isinstance(values[0], str | bytes):
        return [value.encode() if isinstance(value, str) else value for value in values]
    return list(np.asarray(values, np.int64 if all(isinstance(value, int) for value in values) else np.float32))


def _dtype(values: Sequence[Any]) -> Any:
    return tf.string if isinstance(values[0], bytes) else tf.dtypes.as_dtype(values[0].dtype)
