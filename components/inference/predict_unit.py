"""Predicts one work unit: reads its records in fixed batches, calls the model, and writes one file of predictions.

    range ─► columns ─► images that rows refer to ─┐                ┌─► predictions-…
    files ─► read, checked ────────────────────────┴─► model ───────┼─► sums for metrics
                                                                    └─► quarantined, with the reason

Every batch is decided by the data, so the same data gives the same bytes, whoever predicts it.
"""

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.errors import BadInput, Cancelled, LedgerMismatch, PenstockError
from components.inference import model, units, write
from components.inference.metrics import MetricSums
from components.inference.model import LoadedModel, RejectedByModel
from components.inference.read_files import RawFileReader, Rejection
from components.inference.units import PredictFiles, PredictJob, RangeUnit, Unit, UnitReport
from components.inference.write import PredictionWriter
from components.ingest.write.image_column import ImageColumn
from components.records import ledger
from components.records.ledger import Entry
from components.records.quarantine import Quarantined, printable
from components.storage import durable

if TYPE_CHECKING:
    from components.ingest.sources.rows import RowBatch

_ROWS = 4096  # rows per call of the model, of a table
_WIDE_ROWS = 256  # the same, if rows hold texts, tensors or images
_NUMBER = "\0number"  # column with the row's number in its file: no user's column has such a name
_NONE, _UNKNOWN = -2, -1  # class numbers of labels
_ENOUGH = 32  # records of a first batch: if the model rejects all, it is not suited to the data; a few may be bad
_DECIMAL = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"  # a label that is read as text
_MAX_RAW = 10_000  # quarantined rows per unit whose text is kept


@dataclass(frozen=True)
class Records:
    """Some records: the arguments of the model, and what identifies each."""

    arguments: Mapping[str, Any]
    files: pa.Array
    rows: pa.Array  # numbers in the files, or null
    labels: pa.Array
    raw: Any  # returns what is kept of a record that the model rejects: its Quarantined, by index and reason

    def take(self, which: npt.NDArray[np.int64]) -> "Records":
        """Returns some of the records."""
        places = pa.array(which)
        return Records(
            {name: values[which] for name, values in self.arguments.items()},
            self.files.take(places),
            self.rows.take(places),
            self.labels.take(places),
            lambda at, reason: self.raw(int(which[at]), reason),
        )


@dataclass
class _Outcome:
    """What a unit has done so far."""

    job: PredictJob
    model: LoadedModel
    writer: PredictionWriter
    stop: threading.Event
    read: int = 0  # records, as counted where the data is read
    bad: list[Quarantined] = field(default_factory=list)
    sums: MetricSums = field(default_factory=MetricSums)

    def add_bad(self, found: Sequence[Quarantined]) -> None:
        self.bad += found

    def check(self, unit: str) -> None:
        """Compares what was read with what was written and quarantined, which are counted apart."""
        ledger.check(Entry(f"predict, work unit {unit}", self.read, self.writer.records, len(self.bad)))

    def predict(self, records: Records) -> None:
        if self.stop.is_set():
            raise Cancelled(signal.SIGINT)  # another thread has failed, or was interrupted, and raises the reason
        if not len(records.files):
            return
        try:
            outputs = self.model.predict(records.arguments)
        except RejectedByModel as error:
            records = self._without_rejected(records, error)
            if not len(records.files):
                return
            try:
                outputs = self.model.predict(records.arguments)
            except RejectedByModel as again:
                raise PenstockError(
                    f"{records.files[0]}: the model predicts each of {len(records.files)} records, but not all of them "
                    f"together: {again}; its predictions depend on their batch: export another model"
                ) from again
        reading = self.job.reading
        records, outputs = self._finite(records, outputs)
        if not len(records.files):
            return
        self.writer.write(write.batch(records.files, records.rows, records.labels, outputs, reading))
        if reading.kind == "quantity":
            self.sums.add_quantities(records.labels.to_numpy(zero_copy_only=False).astype(np.float64), outputs)
        else:
            self.sums.add_classes(_class_numbers(records.labels, reading.classes), outputs)

    def _finite(self, records: Records, outputs: npt.NDArray[np.float32]) -> tuple[Records, npt.NDArray[np.float32]]:
        """Quarantines records whose prediction is not finite: NaN would be read as the first class."""
        finite = np.isfinite(outputs.reshape(len(outputs), -1)).all(axis=1)
        if finite.all():
            return records, outputs
        reason = "its prediction is not a finite number"
        self.bad += [records.raw(int(at), reason) for at in np.flatnonzero(~finite)]
        return records.take(np.flatnonzero(finite)), outputs[finite]

    def _without_rejected(self, records: Records, error: RejectedByModel) -> Records:
        """Finds the records that the model cannot predict, by halves; returns the others."""
        count = len(records.files)
        reasons = dict(self._rejected(records, 0, count, error))
        if len(reasons) == count >= _ENOUGH and not self.writer.records:
            raise BadInput(
                f"{records.files[0]}: the model cannot predict any of the first {count} records: {error}; expected "
                "data like that of its training"
            )
        self.bad += [records.raw(at, reason) for at, reason in reasons.items()]
        return records.take(np.array([at for at in range(count) if at not in reasons], np.int64))

    def _rejected(self, records: Records, start: int, stop: int, error: RejectedByModel) -> Iterator[tuple[int, str]]:
        """Yields the records that cannot be predicted, and why, among some with this error."""
        if stop - start == 1:
            yield start, str(error)
            return
        middle = (start + stop) // 2
        for first, last in ((start, middle), (middle, stop)):
            if found := self._error({name: each[first:last] for name, each in records.arguments.items()}):
                yield from self._rejected(records, first, last, found)

    def _error(self, arguments: Mapping[str, Any]) -> RejectedByModel | None:
        try:
            self.model.predict(arguments)
        except RejectedByModel as error:
            return error
        return None


def predict(unit: Unit, job: PredictJob, stop: threading.Event | None = None) -> int:
    """Predicts a unit and writes its file and its report.

    Args:
        unit: what to predict.
        job: by which model, and where to.
        stop: ends it before its next batch.

    Returns:
        its number of records, the bad ones included.
    """
    loaded = model.load(job.model, job.digest, job.reading)
    with durable.publish_file(job.work / "files" / unit.name, sync=False) as path:
        with PredictionWriter(path, job.reading, job.form) as writer:
            outcome = _Outcome(job, loaded, writer, stop or threading.Event())
            if isinstance(unit, RangeUnit):
                _predict_range(unit, job, outcome)
            else:
                _predict_files(unit, job, outcome)
        outcome.check(unit.name)
        size = path.stat().st_size
    bad = tuple(outcome.bad)
    report = UnitReport(unit.name, outcome.read, writer.records, size, writer.checksum, bad, outcome.sums)
    units.store(job.work, report)
    return outcome.read


def _class_numbers(labels: pa.Array, classes: Sequence[str]) -> npt.NDArray[np.int64]:
    found = pc.index_in(labels, pa.array(classes, pa.string()))
    numbers = found.fill_null(_UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(labels.is_null().to_numpy(zero_copy_only=False), _NONE, numbers)


# Rows


def _predict_range(unit: RangeUnit, job: PredictJob, outcome: _Outcome) -> None:
    columns = job.columns
    assert columns is not None  # noqa: S101 - a range has columns
    step = _ROWS if all(each.role in ("number", "category", "date") for each in job.reading.arguments) else _WIDE_ROWS
    path = unit.prefix + unit.part.path
    name = printable(path)

    def quarantined(position: str, reason: str, raw: bytes) -> Quarantined:
        return Quarantined.of(name, reason, position, raw if len(outcome.bad) < _MAX_RAW else b"")

    found = _counted(columns.source.read(unit.home / unit.part.path, unit.part, columns.schema), outcome)
    for batch, images in _with_images(unit, job, found, lambda bad: outcome.add_bad([quarantined(*bad)])):
        good, bad = _complete(batch, job)
        outcome.add_bad([quarantined(*each) for each in bad])
        for start in range(0, len(good), step):
            which = good[start : start + step]
            outcome.predict(_records(batch, images, which, job, name, quarantined))


def _counted(found: "Iterator[RowBatch]", outcome: _Outcome) -> "Iterator[RowBatch]":
    """Yields batches as the source reads them, and counts their rows, the bad ones included."""
    for rows in found:
        outcome.read += rows.columns.num_rows + len(rows.bad)
        yield rows


def _with_images(
    unit: RangeUnit, job: PredictJob, found: "Iterator[RowBatch]", bad: Any
) -> Iterator[tuple[pa.RecordBatch, Sequence[bytes]]]:
    """Yields batches with the numbers of their rows, and the images that they refer to; reports bad rows."""
    columns = job.columns
    assert columns is not None  # noqa: S101 - a range has columns
    if not columns.images:
        for rows in found:
            for each in rows.bad:
                bad((each.position, each.reason, each.raw))
            yield _numbered(rows), ()
        return
    with ImageColumn(unit.part, columns.images, columns.schema, unit.home, job.settings, None, hashed=False) as reader:
        for rows in found:
            for each in rows.bad:
                bad((each.position, each.reason, each.raw))
            numbered = type(rows)(_numbered(rows), (), rows.describe)
            for part in reader.read(numbered):
                for each in part.bad:
                    bad((each.position, each.reason, each.raw))
                yield part.columns, [image.checked.content for image in part.images]


def _numbered(rows: "RowBatch") -> pa.RecordBatch:
    """Returns the columns of a batch, and one more with the number of each row in its file."""
    numbers = rows.numbers() if rows.numbers else None
    column = pa.nulls(rows.columns.num_rows, pa.int64()) if numbers is None else pa.array(numbers, pa.int64())
    arrays, names = rows.columns.columns, rows.columns.schema.names
    return pa.RecordBatch.from_arrays([*arrays, column], [*names, _NUMBER])


def _complete(batch: pa.RecordBatch, job: PredictJob) -> tuple[npt.NDArray[np.int64], list[tuple[str, str, bytes]]]:
    """Returns the rows that the model can take, and those without a tensor or image of their own, with the reason."""
    assert job.columns is not None  # noqa: S101 - rows have columns
    good, reasons = np.ones(batch.num_rows, np.bool_), dict[int, str]()
    for argument in job.reading.arguments:
        column = job.columns.arguments[argument.name]
        if argument.role not in ("tensor", "image") or column == job.columns.images:
            continue
        values = batch.column(batch.schema.get_field_index(column))
        wrong = values.is_null().to_numpy(zero_copy_only=False)
        expected = f"column {column!r} is missing"
        if argument.role == "tensor":
            size = int(np.prod(argument.shape, dtype=np.int64)) * np.dtype(argument.dtype).itemsize
            lengths = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
            wrong = wrong | (lengths != size)
            expected = f"column {column!r} is missing, or has another size than {size} bytes"
        reasons |= dict.fromkeys(np.flatnonzero(wrong & good).tolist(), expected)
        good &= ~wrong
    numbers = batch.column(batch.schema.get_field_index(_NUMBER))
    bad = [(f"row {numbers[row].as_py()}", reason, b"") for row, reason in sorted(reasons.items())]
    return np.flatnonzero(good), bad


def _records(
    batch: pa.RecordBatch,
    images: Sequence[bytes],
    which: npt.NDArray[np.int64],
    job: PredictJob,
    file: str,
    quarantined: Any,
) -> Records:
    columns = job.columns
    assert columns is not None  # noqa: S101 - rows have columns
    rows = batch.take(pa.array(which))

    def column(name: str) -> pa.Array:
        return rows.column(rows.schema.get_field_index(name))

    arguments = {}
    for argument in job.reading.arguments:
        if columns.images and argument.role == "image":
            arguments[argument.name] = np.array([*(images[at] for at in which), b""], object)[:-1]
        else:
            arguments[argument.name] = model.values_of(column(columns.arguments[argument.name]), argument)
    numbers = column(_NUMBER)
    none = pa.nulls(rows.num_rows, pa.string() if job.reading.kind == "class" else pa.float64())
    labels = _labels(column(columns.label), job.reading.kind) if columns.label else none

    def rejected(at: int, reason: str) -> Quarantined:
        return quarantined(f"row {numbers[at].as_py()}", f"the model cannot predict it: {reason}", b"")

    files = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows.num_rows, np.int32)), [file]).dictionary_decode()
    return Records(arguments, files, numbers, labels, rejected)


def _labels(labels: pa.Array, kind: str) -> pa.Array:
    """Returns labels, null where they are blank, not finite, or no number although the model predicts a quantity."""
    if kind == "quantity" and not pa.types.is_floating(labels.type):
        text = pc.utf8_trim_whitespace(labels.cast(pa.string()))
        is_number = pc.match_substring_regex(text, _DECIMAL).fill_null(False)
        labels = pc.if_else(is_number, text, pa.scalar(None, pa.string())).cast(pa.float64())
    if pa.types.is_floating(labels.type):
        values = labels.to_numpy(zero_copy_only=False).astype(np.float64)
        return pa.array(values, pa.float64(), mask=~np.isfinite(values))
    text = labels.cast(pa.string())
    return pc.if_else(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(text)), 0), pa.scalar(None, pa.string()), text)


# Files


def _predict_files(unit: PredictFiles, job: PredictJob, outcome: _Outcome) -> None:
    names, classes = units.files_of(unit, job.work), set(job.reading.classes)
    (argument,) = job.reading.arguments
    for read in RawFileReader(job, unit).batches(names):
        outcome.read += len(read.names)
        outcome.add_bad([each for each in read.contents if isinstance(each, Quarantined)])
        kept = [(n, c) for n, c in zip(read.names, read.contents, strict=True) if isinstance(c, bytes)]
        if not kept:
            continue
        labels = [folder if (folder := name.partition("/")[0]) in classes else None for name, _ in kept]
        contents = np.array([*(content for _, content in kept), b""], object)[:-1]
        outcome.predict(
            Records(
                {argument.name: contents},
                pa.array([printable(unit.prefix + name) for name, _ in kept], pa.string()),
                pa.nulls(len(kept), pa.int64()),
                pa.array(labels, pa.string() if job.reading.kind == "class" else pa.float64()),
                Rejection(unit.prefix, [name for name, _ in kept], contents, job.settings, argument.role == "image"),
            )
        )
    if outcome.read != len(names):
        raise LedgerMismatch(f"work unit {unit.name}: {outcome.read:,} of {len(names):,} files were read")
