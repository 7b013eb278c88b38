"""The first records of a dataset as a table, and its images for the contact sheet."""

from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from components.ingest.sources.conversion import is_list
from components.ingest.survey.columns import label_column
from pipelines.inspection.arrays import as_png, is_image, shape_of
from pipelines.inspection.cells import cell, cell_of_list, image_format
from pipelines.inspection.contact_sheet import ContactSheet
from pipelines.inspection.statistics import class_name, is_binary

MAX_COLUMNS = 40
_LIST_VALUES = 8  # read of a list, more than are shown


@dataclass
class Preview:
    """The first records as text; batches add to it, and offer their images to the contact sheet."""

    wanted: int
    sheet: ContactSheet | None = None
    names: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    left: int = 0  # columns that are left out
    image: str = ""  # the column that holds images

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch; the first batch with records decides the columns."""
        if not batch.num_rows:
            return
        self.image = self.image or image_column(batch)
        if not self.names:
            self.names = tuple(batch.schema.names[:MAX_COLUMNS])
            self.left = len(batch.schema.names) - len(self.names)
        for index in range(min(self.wanted - len(self.rows), batch.num_rows)):
            self.rows.append(tuple(_cell(batch, name, index) for name in self.names))
        if self.sheet is not None and self.image in batch.schema.names:
            _offer(self.sheet, batch, self.image)


def image_column(batch: pa.RecordBatch) -> str:
    """Returns the first column that holds pixels or image files, or an empty text."""
    for name in batch.schema.names:
        values = column_of(batch, name)
        if is_image(batch.schema.field(name)):
            return str(name)
        present = values.drop_null() if is_binary(values.type) else []
        if len(present) and image_format(present[0].as_py()):
            return str(name)
    return ""


def column_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns a column by name; of several with the same name, the first."""
    return batch.column(batch.schema.names.index(name))


def _cell(batch: pa.RecordBatch, name: str, index: int) -> str:
    if name not in batch.schema.names:
        return cell(None)
    value = column_of(batch, name)[index]
    if value.is_valid and is_list(value.type):
        return cell_of_list(value.values[:_LIST_VALUES].to_pylist(), len(value.values))
    return cell(value.as_py())


def _offer(sheet: ContactSheet, batch: pa.RecordBatch, column: str) -> None:
    images, label, shape = (
        column_of(batch, column),
        label_column(batch.schema, ""),
        shape_of(batch.schema.field(column)),
    )
    labels = column_of(batch, label) if label else None
    for index in range(batch.num_rows):
        name = class_name(labels[index].as_py()) if labels is not None and labels[index].is_valid else ""
        image = images[index]
        if image.is_valid:
            sheet.offer(name, partial(as_png, image.values, shape) if shape else image.as_py)
