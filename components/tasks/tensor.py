"""Tensor task: arrays of any dtype and shape; the label is a class or a quantity."""

from components.tasks import Task, parts

TASK = Task(
    name="tensor",
    summary="classify arrays, or predict a quantity",
    sources=(
        "components.ingest.sources.arrays.array_rows:SOURCE",
        "components.ingest.sources.parquet.parquet_rows:SOURCE",
        parts.RECORDS,
    ),
    schema="schemas/tensor.pbtxt",
    parts=(parts.TENSOR,),
    required_roles=("tensor",),
    sample_data="data/samples/tensor",
)
