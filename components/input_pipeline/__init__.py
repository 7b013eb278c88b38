"""The data loader: records on disk or in memory to batches on the device.

    shards in epoch order ─► interleave ─► shuffle ─► pools ─► parse, decode, augment ─► batches ─► prefetch
            └────────── serialized records ────────────┘      └── whole pools at once ──┘

The order comes from (seed, epoch), augmentation from (seed, epoch, record): runs with one seed read the same batches on
any number of cores, and a Position is enough to resume with the next batch. Shuffling holds serialized records, which
are small. All buffers are sized in megabytes (`budget.py`).

A pool is one batch, or several if records are small or differ in length. Everything specific to a modality is in its
feature (`components/features`), which works on whole pools.

The result is a plain tf.data.Dataset of (values by name, labels) for any training loop:

    from components import input_pipeline
    data = input_pipeline.read("runs/image/Ingest/examples/3", "train", batch_size=64)
    for values, labels in data: …

A loop with short steps gets its batches in half the time by `for values, labels in input_pipeline.each(data): …`.
"""

from components.features import Feature
from components.input_pipeline.api import classes, each, from_arrays, from_folders, from_records, read
from components.input_pipeline.sharding import Position, RecordFile, Worker
from components.input_pipeline.stages import Reader

__all__ = [
    "Feature",
    "Position",
    "Reader",
    "RecordFile",
    "Worker",
    "classes",
    "each",
    "from_arrays",
    "from_folders",
    "from_records",
    "read",
]
