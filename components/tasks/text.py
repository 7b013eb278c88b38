"""Text classification, or a quantity from text: rows with a column of text, or a folder of class folders of texts."""

from components.tasks import Task, parts

TASK = Task(
    name="text",
    summary="classify texts of a table, or kept in one folder a class",
    sources=("components.ingest.sources.text_folder:SOURCE", *parts.TABLES, parts.RECORDS),
    schema="schemas/text.pbtxt",
    parts=(parts.TEXT,),
    needs=("text",),
    sample_data="data/samples/text",
    settings={"train": {"epochs": 5}},
)
