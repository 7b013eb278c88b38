"""Stock TFX: the dataset of its trainers, `DataAccessor.tf_dataset_factory`, with its defaults."""

from collections.abc import Iterable
from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio

from benchmarks.contenders import BenchData


def table(stored: BenchData, batch: int) -> Iterable[Any]:
    """Rows through TFXIO's dataset."""
    schema = schema_pb2.Schema()
    kinds = {schema_pb2.FLOAT: [f"f{index:02d}" for index in range(12)]}
    kinds[schema_pb2.INT] = [*(f"i{index:02d}" for index in range(6)), "label"]
    kinds[schema_pb2.BYTES] = ["kind", "place"]
    for kind, names in kinds.items():
        for name in names:
            feature = schema.feature.add(name=name, type=kind)
            feature.presence.min_fraction = 1.0
            feature.shape.dim.add(size=1)
    io = tfxio.TFExampleRecord(stored.shards, schema=schema, raw_record_column_name=None, telemetry_descriptors=[])
    return io.TensorFlowDataset(tfxio.TensorFlowDatasetOptions(batch_size=batch, label_key="label"))
