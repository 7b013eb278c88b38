"""Tabular task: numbers, categories, booleans and dates, some missing; the label is a class or a quantity."""

from components.tasks import Task, parts

TASK = Task(
    name="tabular",
    summary="classify rows of a table, or predict a quantity",
    sources=(*parts.TABLES, parts.RECORDS),
    schema="schemas/tabular.pbtxt",
    parts=(parts.TABLE,),
    sample_data="data/samples/tabular",
)
