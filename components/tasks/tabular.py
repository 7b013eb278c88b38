"""Tables: numbers, categories, truth values, dates and gaps, with classes or a quantity to learn."""

from components.tasks import Task, parts

TASK = Task(
    name="tabular",
    summary="classify rows of a table, or learn a quantity from them",
    sources=(*parts.TABLES, parts.RECORDS),
    schema="schemas/tabular.pbtxt",
    parts=(parts.TABLE,),
    sample_data="data/samples/tabular",
    settings={"input": {"batch_size": 32}},
)
