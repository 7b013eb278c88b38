"""Image classification: a folder of class folders in, class names and probabilities out."""

from components.tasks import Task

TASK = Task(
    name="image",
    summary="classify images kept in one folder a class, or listed in a table",
    sources=(
        "components.ingest.sources.image_folder:SOURCE",
        "components.ingest.sources.csv_rows:SOURCE",
        "components.ingest.sources.jsonl_rows:SOURCE",
        "components.ingest.sources.parquet_rows:SOURCE",
    ),
    schema="schemas/image.pbtxt",
    features=(("image", "components.features.image:ImageFeature"),),
    label="label",
    preprocess="components.transform:label_vocabulary",
    model="components.models.convnet:build",
    sample_data="data/samples/image",
)
