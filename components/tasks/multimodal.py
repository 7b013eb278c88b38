"""Multimodal task: table rows with an image, text and numbers; one encoder per modality, joined."""

from components.tasks import Task, parts

TASK = Task(
    name="multimodal",
    summary="classify rows with an image, text and numbers",
    sources=parts.TABLES,
    schema="schemas/multimodal.pbtxt",
    parts=(parts.IMAGE, parts.TEXT, parts.TABLE, parts.TENSOR),
    required_roles=("image", "text"),
    sample_data="data/samples/multimodal",
    defaults={"train": {"epochs": 6}, "input": {"augment": False}, "evaluate": {"slices": ["question"]}},
)
