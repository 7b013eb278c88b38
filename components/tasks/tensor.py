"""Raw arrays of any dtype and shape, with classes or a quantity to learn."""

from components.tasks import Task, parts

TASK = Task(
    name="tensor",
    summary="classify arrays, or learn a quantity from them",
    sources=(
        "components.ingest.sources.array_rows:SOURCE",
        "components.ingest.sources.parquet_rows:SOURCE",
        parts.RECORDS,
    ),
    schema="schemas/tensor.pbtxt",
    parts=(parts.TENSOR,),
    needs=("tensor",),
    sample_data="data/samples/tensor",
)
