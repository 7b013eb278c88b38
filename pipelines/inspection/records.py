"""The first records of a set as a table, and its images: all that is taken out of records one by one."""

from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from components.ingest.survey.columns import label_column
from pipelines.inspection.sheet import Gallery
from pipelines.inspection.statistics import class_name, is_binary, is_list
from pipelines.inspection.tensors import as_png, is_image, shape_of
from pipelines.inspection.text import cell, cell_of_list, image_format

MOST_COLUMNS = 40  # in the table
_TAKEN = 8  # values of a list, more than are shown


@dataclass(frozen=True)
class FirstRecords:
    """The first records, as they are shown."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: int = 0  # columns that are not shown
    image: str = ""  # a column that holds images


@dataclass
class Taker:
    """Takes the first records out of batches, and images to show if there is a gallery for them."""

    wanted: int
    gallery: Gallery | None = None
    _names: tuple[str, ...] = ()
    _left: int = 0
    _rows: list[tuple[str, ...]] = field(default_factory=list)
    _image: str = ""

    def add(self, batch: pa.RecordBatch) -> None:
        """Looks at a batch; columns are those of the first one with records."""
        if not batch.num_rows:
            return
        self._image = self._image or image_column(batch)
        if not self._names:
            self._names = tuple(batch.schema.names[:MOST_COLUMNS])
            self._left = len(batch.schema.names) - len(self._names)
        for index in range(min(self.wanted - len(self._rows), batch.num_rows)):
            self._rows.append(tuple(_cell(batch, name, index) for name in self._names))
        if self.gallery is not None and self._image in batch.schema.names:
            _offer(self.gallery, batch, self._image)

    def taken(self) -> FirstRecords:
        """Returns what was taken."""
        return FirstRecords(self._names, tuple(self._rows), self._left, self._image)


def image_column(batch: pa.RecordBatch) -> str:
    """Returns the first column of pixels, or whose first value is an image file, or nothing."""
    for name in batch.schema.names:
        values = column_of(batch, name)
        if is_image(batch.schema.field(name)):
            return str(name)
        present = values.drop_null() if is_binary(values.type) else []
        if len(present) and image_format(present[0].as_py()):
            return str(name)
    return ""


def column_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns a column by name; of several with one name, the first."""
    return batch.column(batch.schema.names.index(name))


def _cell(batch: pa.RecordBatch, name: str, index: int) -> str:
    if name not in batch.schema.names:
        return cell(None)
    value = column_of(batch, name)[index]
    if value.is_valid and is_list(value.type):
        return cell_of_list(value.values[:_TAKEN].to_pylist(), len(value.values))
    return cell(value.as_py())


def _offer(gallery: Gallery, batch: pa.RecordBatch, image: str) -> None:
    images, label, shape = column_of(batch, image), label_column(batch.schema, ""), shape_of(batch.schema.field(image))
    labels = column_of(batch, label) if label else None
    for index in range(batch.num_rows):
        named = class_name(labels[index].as_py()) if labels is not None and labels[index].is_valid else ""
        if images[index].is_valid:
            pixels = partial(_pixels, images[index], shape)
            gallery.offer(named, pixels if shape else images[index].as_py)


def _pixels(value: pa.Scalar, shape: tuple[int, ...]) -> bytes:
    return as_png(value.values, shape)
