"""Statistics of a column in one pass over its batches, in memory that does not grow with the records."""

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.ingest.sources.conversion import is_list, is_text
from components.ingest.survey.columns import SAMPLE, are_dates
from pipelines.inspection.arrays import shape_of

MAX_DISTINCT = 1000
_LONG = 200  # characters or bytes; a longer value is kept as a digest
_LABEL = 100  # characters of a long label that are kept


class ColumnStatistics:
    """Running statistics of one column."""

    def __init__(self, field: pa.Field, *, is_label: bool = False) -> None:
        self.name = field.name
        self.kind = _type_name(field)
        self.missing = self.nan = 0
        self.lengths: tuple[int, int] | None = None  # shortest and longest: characters, bytes, or values of a list
        self.over = False  # more distinct values than are counted
        self._count, self._mean = 0, 0.0
        self._extremes: tuple[Any, Any] | None = None
        is_countable = not is_list(field.type) and not pa.types.is_null(field.type)
        self._seen: set[Any] | None = set() if is_countable else None
        # A float label is a regression target, not a class.
        has_classes = is_label and is_countable and not pa.types.is_floating(field.type)
        self._classes: Counter[str] | None = Counter() if has_classes else None

    @property
    def distinct(self) -> int | None:
        """The number of distinct values; None if they are not counted."""
        return None if self._seen is None else len(self._seen)

    @property
    def numbers(self) -> tuple[float, float, float] | None:
        """Least, mean and most of the numbers without NaN, if there are any."""
        return (self._extremes[0], self._mean, self._extremes[1]) if self._extremes else None

    @property
    def classes(self) -> dict[str, int] | None:
        """Records by class, if this is a label with few enough values."""
        return dict(sorted(self._classes.items())) if self._classes else None

    def add(self, values: pa.Array) -> None:
        """Adds the values of a batch."""
        total = len(values)
        values = values.drop_null() if values.null_count else values
        if is_text(values.type):  # an empty cell of a text file is no null
            values = values.filter(pc.not_equal(pc.binary_length(values), 0))
        self.missing += total - len(values)
        if not len(values):
            return
        if self.distinct == 0 and not self.over and is_text(values.type) and are_dates(values[:SAMPLE]):
            self.kind += ", date"
        if is_list(values.type):
            self._add_lengths(values.value_lengths())
            self._add_numbers(values.flatten().drop_null())
        else:
            self._add_lengths(_text_lengths(values))
            self._add_distinct(self._add_numbers(values))
        if self._classes is not None:
            self._add_classes(values)

    def _add_numbers(self, values: pa.Array) -> pa.Array:
        """Adds numbers, and returns the values without NaN."""
        if not _is_number(values.type):
            return values
        values = _plain_numbers(values)
        if pa.types.is_floating(values.type):
            known = values.filter(pc.invert(pc.is_nan(values)))
            self.nan += len(values) - len(known)
            values = known
        if not len(values):
            return values
        self._extremes = _wider(self._extremes, values)
        self._count += len(values)
        # Incrementally, because a sum over all records might overflow; unsafe cast, because a mean may be inexact.
        mean = pc.mean(values.cast(pa.float64(), safe=False)).as_py()
        self._mean += (mean - self._mean) * (len(values) / self._count)
        return values

    def _add_lengths(self, lengths: pa.Array | None) -> None:
        if lengths is not None:
            self.lengths = _wider(self.lengths, lengths)

    def _add_distinct(self, values: pa.Array) -> None:
        if self._seen is None or self.over:
            return
        unique = values.unique()
        if len(unique) <= MAX_DISTINCT:
            self._seen.update(map(_short, unique.to_pylist()))
        if max(len(unique), len(self._seen)) > MAX_DISTINCT:
            self._seen, self.over = set(), True

    def _add_classes(self, values: pa.Array) -> None:
        if self.over or self._classes is None:
            self._classes = None
            return
        counts = pc.value_counts(values)
        for value, count in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
            self._classes[class_name(value)] += count


def is_binary(kind: pa.DataType) -> bool:
    """Whether a type is bytes, not text."""
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _type_name(field: pa.Field) -> str:
    if not is_list(field.type):
        return str(field.type)
    shape = " × ".join(f"{side:,}" for side in shape_of(field))
    return f"{field.type.value_type}, {shape}" if shape else f"list of {field.type.value_type}"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _plain_numbers(values: pa.Array) -> pa.Array:
    """Returns numbers in a type that Arrow can compute with."""
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int8())
    if pa.types.is_float16(values.type):
        return pa.array(values.to_numpy(zero_copy_only=False).astype(np.float32))
    return values


def _text_lengths(values: pa.Array) -> pa.Array | None:
    if is_text(values.type):
        return pc.utf8_length(values)
    return pc.binary_length(values) if is_binary(values.type) else None


def _wider(known: tuple[Any, Any] | None, values: pa.Array) -> tuple[Any, Any]:
    """Returns the range of the values and of those known."""
    low, high = pc.min_max(values).as_py().values()
    return (low, high) if known is None else (min(known[0], low), max(known[1], high))


def _short(value: Any) -> Any:
    """Returns a value, or its digest if it is long: a thousand strings of 10 MB must not be kept."""
    if isinstance(value, str) and len(value) > _LONG:
        value = value.encode("utf-8", "surrogatepass")
    return hashlib.sha256(value).digest() if isinstance(value, bytes) and len(value) > _LONG else value


def class_name(value: Any) -> str:
    """Returns a label as text that is short enough to keep."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    if len(text) <= _LONG:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:_LABEL]}…{digest[:8]}"
