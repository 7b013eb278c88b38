"""Image classification: a folder of class folders in, class names and probabilities out."""

from components.tasks import Task, parts

TASK = Task(
    name="image",
    summary="classify images kept in one folder a class, or listed in a table",
    sources=("components.ingest.sources.image_folder:SOURCE", *parts.TABLES),
    schema="schemas/image.pbtxt",
    # A pretrained network on Beam makes tensors of images.
    parts=(parts.IMAGE, parts.TENSOR),
    needs=("image",),
    sample_data="data/samples/image",
)
