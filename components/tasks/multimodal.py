"""Rows that refer to an image and hold text and numbers besides: one encoder a modality, joined."""

from components.tasks import Task, parts

TASK = Task(
    name="multimodal",
    summary="classify rows with an image, a text and numbers",
    sources=parts.TABLES,
    schema="schemas/multimodal.pbtxt",
    parts=(parts.IMAGE, parts.TEXT, parts.TABLE, parts.TENSOR),
    needs=("image", "text"),
    sample_data="data/samples/multimodal",
    settings={"train": {"epochs": 6}, "input": {"augment": False}, "evaluate": {"slices": ["question"]}},
)
