"""Text task: a text column of a table, or text files in one folder per class; the label is a class or a quantity."""

from components.tasks import Task, parts

TASK = Task(
    name="text",
    summary="classify texts in a table, or in one folder per class",
    sources=("components.ingest.sources.text_folder:SOURCE", *parts.TABLES, parts.RECORDS),
    schema="schemas/text.pbtxt",
    parts=(parts.TEXT,),
    required_roles=("text",),
    sample_data="data/samples/text",
    defaults={"train": {"epochs": 5}},
)
