"""Image task: images in one folder per class, or listed in a table."""

from components.tasks import Task, parts

TASK = Task(
    name="image",
    summary="classify images in one folder per class, or listed in a table",
    sources=("components.ingest.sources.image_folder:SOURCE", *parts.TABLES),
    schema="schemas/image.pbtxt",
    # With extract.where = "beam", a pretrained model replaces images by embeddings, which are tensors.
    parts=(parts.IMAGE, parts.TENSOR),
    required_roles=("image",),
    sample_data="data/samples/image",
)
