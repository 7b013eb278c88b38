"""Statistics of a split with few records, in this process: a Beam pipeline takes two seconds before its first record.

TFDV's combiners see the same batch as on Beam, and its sketches of top values are exact below their size.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import tensorflow as tf
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.statistics import stats_impl
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
from tfx_bsl.coders import example_coder

from components.records.manifest import Shard
from components.storage.local_copy import local_copy
from components.storage.location import Location

MOST = 1000  # records: TFDV's batch on Beam; its sketch of top values is exact up to 1,024 different ones


def are_few(shards: Sequence[Shard]) -> bool:
    """Whether a split is small enough, and not empty: an empty one is left to TFDV's pipeline."""
    return 0 < sum(shard.records for shard in shards) <= MOST


def statistics(
    examples: Location, shards: Sequence[Shard], schema: schema_pb2.Schema | None
) -> statistics_pb2.DatasetFeatureStatisticsList:
    """Returns the statistics of all records in the shards."""
    batch = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch(_records(examples, shards))
    return stats_impl.generate_statistics_in_memory(batch, tfdv.StatsOptions(schema=schema))


def _records(examples: Location, shards: Sequence[Shard]) -> Any:
    with ExitStack() as copies:
        files = [str(copies.enter_context(local_copy(examples / each.name))) for each in shards if each.records]
        stored = tf.data.TFRecordDataset(files, "GZIP" if files[0].endswith(".gz") else "")
        return next(stored.batch(MOST).as_numpy_iterator())
