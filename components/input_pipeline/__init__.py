"""Records on disk to batches on the device.

    shards (in the epoch's order) ─► read in turns ─► shuffle ─► pools ─► parse, decode, augment ─► batches ─► prefetch
            └───────── serialized records ──────────────────┘   └── whole pools, one function ──┘

Order comes from (seed, epoch), variation from (seed, epoch, record): runs with one seed see the same batches, on any
number of cores, and a position is enough to go on with the very next one. Shuffling holds serialized records, which
are small. All buffers are sized in megabytes (`budget.py`). Batches are made here and nowhere else.

A pool is a batch, or several where records are small or differ in length (`pools.py`). Every modality has the same
shape: what is special to it is in its feature (`components/features`), which takes whole pools.

What comes out is a plain tf.data.Dataset of (values by name, labels), for anybody's loop:

    from components import input_pipeline
    data = input_pipeline.read("runs/image/Ingest/examples/3", "train", batch_size=64)
    for values, labels in data: …

and for one with short steps, in half the time: `for values, labels in input_pipeline.each(data): …`
"""

from components.features import Feature
from components.input_pipeline.api import classes, from_arrays, from_folders, from_records, read
from components.input_pipeline.hand_over import each
from components.input_pipeline.reader import Reader
from components.input_pipeline.sharding import Position, RecordFile, Worker

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
