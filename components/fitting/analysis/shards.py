"""Reads shards for the accumulators: TensorFlow parses and tokenizes batches, NumPy and Arrow add them up.

shard ─► serialized records ─► the columns that are analyzed ─► their values, distinct strings ─► accumulators
"""

import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import annotators, graph_context
from tensorflow_transform.tf_metadata import schema_utils

from components.fitting.analysis import trace
from components.fitting.analysis.trace import Accumulator
from components.records.manifest import Shard
from components.storage.local_copy import local_copy
from components.storage.location import Location

Fit = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_BATCH_BYTES, _MOST_RECORDS = 4 << 20, 4096  # of serialized records; larger batches were not faster

_TRACING = threading.Lock()  # TensorFlow Transform keeps what it traces in variables of its modules


class ShardAnalyzer:
    """The analyses of fit functions, and a function from records to their values."""

    def __init__(self, schema: str, fit: Fit) -> None:
        """Traces the fit functions.

        Args:
            schema: of the records, as text.
            fit: returns the transformed columns.
        """
        parsed = text_format.Parse(schema, schema_pb2.Schema())
        specs = schema_utils.schema_as_feature_spec(parsed).feature_spec
        types = {name: _type_of(spec) for name, spec in specs.items()}
        collected: list[trace.Collected] = []

        def collect(*flat: Any) -> None:
            inputs = tf.nest.pack_sequence_as(types, flat, expand_composites=True)
            # Fit functions may use analyzers of TensorFlow Transform as well, which look for these contexts.
            with (
                tempfile.TemporaryDirectory(prefix="penstock-trace-") as folder,
                graph_context.TFGraphContext(tf.Module(), folder, {}),
                annotators.object_tracker_scope(annotators.ObjectTracker()),
                trace.collecting() as found,
            ):
                fit(inputs)
            collected.append(found)

        with _TRACING:
            traced = tf.compat.v1.wrap_function(collect, tf.nest.flatten(types, expand_composites=True))
        self.analyses = collected[0].analyses
        reached = trace.reached([value for values in collected[0].values for value in values])
        inputs = tf.nest.pack_sequence_as(types, traced.inputs, expand_composites=True)
        used = {name: value for name, value in inputs.items() if any(each.op in reached for each in _flat(value))}
        self.columns = tuple(used)
        self._spec = {name: specs[name] for name in used}
        self._values: Any = traced.prune(feeds=_flat(used), fetches=collected[0].values) if used else None

    def start(self) -> list[Accumulator]:
        """Returns an accumulator without values for each analysis."""
        return [analysis.start() for analysis in self.analyses]

    def add(self, examples: Location, shard: Shard, accumulators: Sequence[Accumulator]) -> None:
        """Adds the values of all records of a shard."""
        if not (shard.records and self.analyses):
            return
        size = max(1, min(_MOST_RECORDS, _BATCH_BYTES * shard.records // max(1, shard.bytes)))
        with local_copy(examples / shard.name) as file:
            records = tf.data.TFRecordDataset(str(file), "GZIP" if file.suffix == ".gz" else "").batch(size)
            batches = records.map(self._of_batch, os.cpu_count(), deterministic=False).prefetch(1)
            for batch in batches.as_numpy_iterator():
                for accumulator, values in zip(accumulators, batch, strict=True):
                    accumulator.add(*values)

    def _of_batch(self, records: Any) -> Any:
        columns = tf.io.parse_example(records, self._spec)
        return tuple(map(tuple, self._values(*_flat(columns))))


def _flat(structure: Any) -> list[Any]:
    found: list[Any] = tf.nest.flatten(structure, expand_composites=True)
    return found


def _type_of(spec: Any) -> Any:
    """Returns the type of a parsed column of a batch."""
    if isinstance(spec, tf.io.FixedLenFeature):
        return tf.TensorSpec([None, *spec.shape], spec.dtype)
    if isinstance(spec, tf.io.VarLenFeature):
        return tf.SparseTensorSpec([None, None], spec.dtype)
    return tf.RaggedTensorSpec([None, None], spec.dtype, ragged_rank=1, row_splits_dtype=spec.row_splits_dtype)
