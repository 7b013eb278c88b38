"""Rows without a label: `ingest.unlabelled` decides what happens to them.

label missing, blank, nan or infinite ─┬─ quarantine    ─► bad row with the reason "no label"
                                       ├─ keep_as_class ─► a record of the class UNLABELLED
                                       └─ stop          ─► the same; the end of the ingest names the first such row
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.ingest.sources.conversion import LABEL, Flags, is_text, out_of_range
from components.ingest.sources.csv.csv_cells import MISSING
from components.ingest.sources.rows import RowBatch
from components.ingest.survey.columns import mark, was_number
from components.ingest.survey.label import is_name
from components.ingest.write.report import ShardReport
from components.records.quarantine import NO_LABEL

UNLABELLED = "(none)"  # class of rows without a label, with ingest.unlabelled = keep_as_class
_BLANK = r"^\s*$"
_NOT_NUMBERS = pa.array([*MISSING, "nan", "NaN", "NAN"])  # in a label column of numbers


def warnings(reports: Iterable[ShardReport]) -> list[str]:
    """Returns a warning if rows without a label got the name of a class of the data."""
    count = sum(report.named_unlabelled for report in reports)
    what = f"{count:,} rows have the label {UNLABELLED} in the data, and rows without a label are in the same class"
    advice = "rename that class, or set ingest.unlabelled to quarantine"
    return [f"{what} (ingest.unlabelled = keep_as_class); {advice}"] if count else []


@dataclass(frozen=True)
class LabelPolicy:
    """Applies `ingest.unlabelled` to batches of rows."""

    label: str  # column, or empty
    unlabelled: str

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Returns the schema to read by: with it a source keeps a label that is nan, instead of rejecting its row."""
        return mark(schema, self.label, LABEL) if self.label else schema

    def named_unlabelled(self, batch: RowBatch) -> int:
        """Returns how many rows of the data have the label UNLABELLED, if rows without a label get it too."""
        if not self.label or self.unlabelled != "keep_as_class":
            return 0
        labels = batch.columns.column(batch.columns.schema.get_field_index(self.label))
        return pc.sum(pc.equal(labels, pa.scalar(UNLABELLED).cast(labels.type))).as_py() or 0

    def apply(self, batch: RowBatch) -> RowBatch:
        """Returns the rows that become records, with a label each, and all bad rows."""
        if not self.label:
            return batch
        place = batch.columns.schema.get_field_index(self.label)
        field, labels = batch.columns.schema.field(place), batch.columns.column(place)
        missing = _missing(labels, field)
        if not missing.any():
            return batch
        if self.unlabelled == "keep_as_class":
            named = pc.if_else(pa.array(missing), pa.scalar(UNLABELLED).cast(labels.type), labels)
            columns = [*batch.columns.columns[:place], named, *batch.columns.columns[place + 1 :]]
            return replace(batch, columns=pa.RecordBatch.from_arrays(columns, schema=batch.columns.schema))
        rows = np.flatnonzero(missing).tolist()
        bad = [batch.bad_row(row, _reason(labels[row].as_py())) for row in rows]
        good = np.flatnonzero(~missing)
        return RowBatch(batch.columns.take(pa.array(good)), [*batch.bad, *bad], _of(batch, good.tolist()))


def _of(batch: RowBatch, rows: list[int]) -> Callable[[int], tuple[str, bytes]] | None:
    describe = batch.describe
    return None if describe is None else lambda row: describe(rows[row])


def _missing(labels: pa.Array, field: pa.Field) -> Flags:
    """Returns which labels are missing."""
    missing: Flags = labels.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(labels.type):
        return missing | out_of_range(labels)
    if is_name(field):
        missing = missing | is_blank(labels)
    if was_number(field):
        missing = missing | _flags(pc.is_in(pc.utf8_trim_whitespace(labels), _NOT_NUMBERS))
    return missing


def is_blank(labels: pa.Array) -> Flags:
    """Returns which texts are empty or only white space; null is neither."""
    if is_text(labels.type):
        return _flags(pc.or_(pc.utf8_is_space(labels), pc.equal(pc.binary_length(labels), 0)))
    return _flags(pc.match_substring_regex(labels, _BLANK))


def _flags(values: pa.Array) -> Flags:
    flags: Flags = values.fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _reason(label: object) -> str:
    if not isinstance(label, float):
        return NO_LABEL
    return f"{NO_LABEL}: {label:g}" + (", beyond the range of float32" if math.isfinite(label) else "")
