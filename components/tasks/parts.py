"""Parts and sources that the shipped tasks share."""

from components.tasks import Part

IMAGE = Part(
    roles=("image",),
    feature="components.features.image:from_columns",
    encoder="components.models.image:encodings",
)
TEXT = Part(
    roles=("text",),
    fit="components.fitting.text:fit",
    feature="components.features.text:from_columns",
    encoder="components.models.text:encodings",
    names="components.models.text:names",
)
TENSOR = Part(
    roles=("tensor",),
    fit="components.fitting.tensor:fit",
    feature="components.features.tensor:from_columns",
    encoder="components.models.tensor:encodings",
)
TABLE = Part(
    roles=("number", "category", "date"),
    fit="components.fitting.table:fit",
    feature="components.features.table:from_columns",
    encoder="components.models.table:encodings",
    names="components.models.table:names",
)

TABLES = (
    "components.ingest.sources.csv.csv_rows:SOURCE",
    "components.ingest.sources.jsonl.jsonl_rows:SOURCE",
    "components.ingest.sources.parquet.parquet_rows:SOURCE",
)
RECORDS = "components.ingest.sources.tfrecord_rows:SOURCE"
