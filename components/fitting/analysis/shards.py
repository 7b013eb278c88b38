"""Reads shards for the accumulators: TensorFlow parses and tokenizes batches, NumPy and Arrow add them up.

shard ─► serialized records ─► the columns that are analyzed ─► their values, distinct strings ─► accumulators
"""

import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import analyzer_nodes, annotators, graph_context
from tensorflow_transform.tf_metadata import schema_utils

from components.fitting.analysis import trace
from components.fitting.analysis.trace import Accumulator
from components.records.manifest import Shard
from components.storage.local_copy import local_copy
from components.storage.location import Location

Fit = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_BATCH_BYTES, _MOST_RECORDS = 4 << 20, 4096  # of serialized records; larger batches were not faster
_GZIP = 8  # times smaller than its content, as an estimate
_BATCHES = 3  # at most at once in memory; tokens take many times the bytes of their records

_TRACING = threading.Lock()  # TensorFlow Transform keeps what it traces in variables of its modules


class ShardAnalyzer:
    """The analyses of fit functions, and a function from records to their values."""

    def __init__(self, schema: str, fit: Fit) -> None:
        """Traces the fit functions.

        Args:
            schema: of the records, as text.
            fit: returns the transformed columns.
        """
        specs = specs_of(parsed(schema))
        types = types_of(specs)
        collected: list[trace.Collected] = []
        self._tracked = annotators.ObjectTracker()  # a lookup table is deleted with the last reference to it

        def collect(*flat: Any) -> None:
            inputs = tf.nest.pack_sequence_as(types, flat, expand_composites=True)
            # Fit functions may use analyzers of TensorFlow Transform as well, which look for these contexts.
            with (
                tempfile.TemporaryDirectory(prefix="penstock-trace-") as folder,
                graph_context.TFGraphContext(tf.Module(), folder, {}),
                annotators.object_tracker_scope(self._tracked),
                trace.collecting() as found,
            ):
                fit(inputs)
                sinks = tf.compat.v1.get_collection(analyzer_nodes.ALL_REPLACEMENTS)
                found.require_independent(sink.tensor.op for sink in sinks)
            collected.append(found)

        with _TRACING:
            traced = tf.compat.v1.wrap_function(collect, _flat(types))
        self.analyses = collected[0].analyses
        self.uses_tft = bool(traced.graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS))
        reached = trace.reached([value for values in collected[0].values for value in values])
        # After the columns, the inputs of the traced function are what it captures: tables, tensors outside of it.
        inputs = tf.nest.pack_sequence_as(types, traced.inputs[: len(_flat(types))], expand_composites=True)
        used = {name: value for name, value in inputs.items() if any(each.op in reached for each in _flat(value))}
        self.columns = tuple(used)
        self._spec = {name: specs[name] for name in used}
        self._values: Any = traced.prune(feeds=_flat(used), fetches=collected[0].values) if used else None

    def start(self) -> list[Accumulator]:
        """Returns an accumulator without values for each analysis."""
        return [analysis.start() for analysis in self.analyses]

    def add(self, examples: Location, shards: Sequence[Shard], accumulators: Sequence[Accumulator]) -> None:
        """Adds the values of all records of shards, in one dataset: each costs a quarter of a second to set up."""
        if not (self.analyses and any(shard.records for shard in shards)):
            return
        with ExitStack() as copies:
            files = [str(copies.enter_context(local_copy(examples / each.name))) for each in shards if each.records]
            stored = tf.data.TFRecordDataset(files, "GZIP" if files[0].endswith(".gz") else "").batch(
                _batch_size(shards)
            )
            batches = stored.map(self._of_batch, min(_BATCHES, os.cpu_count() or 1), deterministic=False)
            for values in batches.as_numpy_iterator():
                for accumulator, each in zip(accumulators, values, strict=True):
                    accumulator.add(*each)

    def _of_batch(self, records: Any) -> Any:
        columns = tf.io.parse_example(records, self._spec)
        return tuple(map(tuple, self._values(*_flat(columns))))


def _batch_size(shards: Sequence[Shard]) -> int:
    """Returns how many records of the shards are a batch."""
    size = sum(shard.bytes * (_GZIP if shard.name.endswith(".gz") else 1) for shard in shards)
    return max(1, min(_MOST_RECORDS, _BATCH_BYTES * sum(shard.records for shard in shards) // max(1, size)))


def _flat(structure: Any) -> list[Any]:
    found: list[Any] = tf.nest.flatten(structure, expand_composites=True)
    return found


def parsed(schema: str) -> schema_pb2.Schema:
    """Returns a schema that was written as text."""
    return text_format.Parse(schema, schema_pb2.Schema())


def specs_of(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns how TensorFlow parses each column."""
    found: dict[str, Any] = schema_utils.schema_as_feature_spec(schema).feature_spec
    return found


def types_of(specs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the type of each parsed column of a batch."""
    return {name: _type_of(spec) for name, spec in specs.items()}


def _type_of(spec: Any) -> Any:
    """Returns the type of a parsed column of a batch."""
    if isinstance(spec, tf.io.FixedLenFeature):
        return tf.TensorSpec([None, *spec.shape], spec.dtype)
    if isinstance(spec, tf.io.VarLenFeature):
        return tf.SparseTensorSpec([None, None], spec.dtype)
    return tf.RaggedTensorSpec([None, None], spec.dtype, ragged_rank=1, row_splits_dtype=spec.row_splits_dtype)
