"""Statistics of a split with few records, in this process: a Beam pipeline takes two seconds before its first record.

TFDV's combiners see the same batch as on Beam; its sketches of top values are exact if all values are short and fit.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.statistics import stats_impl
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
from tfx_bsl.coders import example_coder

from components.records.manifest import Shard
from components.records.schema import TEXT
from components.storage.local_copy import local_copy
from components.storage.location import Location

MOST = 1000  # records: TFDV's batch on Beam
_SKETCH = 1024  # values that TFDV's sketch counts one by one, and bytes from which it takes all values for the same


def are_few(shards: Sequence[Shard]) -> bool:
    """Whether a split is small enough, and not empty: an empty one is left to TFDV's pipeline."""
    return 0 < sum(shard.records for shard in shards) <= MOST


def statistics(
    examples: Location, shards: Sequence[Shard], schema: schema_pb2.Schema | None
) -> statistics_pb2.DatasetFeatureStatisticsList | None:
    """Returns the statistics of all records in the shards; None if TFDV would count values otherwise than on Beam."""
    batch = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch(_records(examples, shards))
    if not all(map(_is_exact, _counted(batch, schema))):
        return None
    return stats_impl.generate_statistics_in_memory(batch, tfdv.StatsOptions(schema=schema))


def _counted(batch: pa.RecordBatch, schema: schema_pb2.Schema | None) -> list[pa.Array]:
    """Returns the values of each column of bytes whose counts matter: neither images and arrays, nor texts."""
    known = schema.feature if schema else ()
    other = {each.name for each in known if each.HasField("image_domain") or TEXT in each.annotation.tag}
    values = [column.flatten() for field, column in _with_values(batch) if field.name not in other]
    return [each for each in values if pa.types.is_large_binary(each.type)]


def _with_values(batch: pa.RecordBatch) -> list[tuple[pa.Field, pa.Array]]:
    columns = zip(batch.schema, batch.columns, strict=True)
    return [(field, column) for field, column in columns if not pa.types.is_null(field.type)]


def _is_exact(values: pa.Array) -> bool:
    return len(values) <= _SKETCH and (pc.max(pc.binary_length(values)).as_py() or 0) < _SKETCH


def _records(examples: Location, shards: Sequence[Shard]) -> Any:
    with ExitStack() as copies:
        files = [str(copies.enter_context(local_copy(examples / each.name))) for each in shards if each.records]
        stored = tf.data.TFRecordDataset(files, "GZIP" if files[0].endswith(".gz") else "")
        return next(stored.batch(MOST).as_numpy_iterator())
