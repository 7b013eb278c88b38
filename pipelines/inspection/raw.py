"""Reads raw data of any format in one pass: batches in, facts out."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

import pyarrow as pa

from components import refs
from components.errors import BadInput
from components.ingest.sources import Found
from components.ingest.sources.rows import RowBatch, RowSource
from components.ingest.survey import columns, detect, spans
from components.records.quarantine import printable
from pipelines.inspection.arrays import unpack, unpacked_schema
from pipelines.inspection.contact_sheet import ContactSheet
from pipelines.inspection.preview import Preview, PreviewBuilder, column_of
from pipelines.inspection.reasons import Reasons
from pipelines.inspection.statistics import ColumnFacts, ColumnStatistics

MAX_COLUMNS = 200  # with statistics; the label always has them
_RANGE = 64 << 20  # bytes
_MAX_IMAGE = 64 << 20  # bytes of a file that is drawn

ProgressCallback = Callable[[int], None]  # takes the number of records read so far


@dataclass(frozen=True)
class RawFacts:
    """What is in raw data."""

    path: str
    kind: str
    files: int
    bytes: int
    records: int
    bad: Reasons  # of rows and files that ingest would reject
    folders: dict[str, int]  # records by folder
    columns: tuple[ColumnFacts, ...]
    left_columns: int  # without statistics
    label: str
    classes: dict[str, int] | None
    preview: Preview
    warnings: tuple[str, ...]
    failures: tuple[str, ...]  # files that could not be read completely
    has_images: bool


def study(path: str, rows: int, sheet: ContactSheet | None, progress: ProgressCallback) -> RawFacts:
    """Reads all data once."""
    located = _locate(path)
    totals = _Totals(PreviewBuilder(rows, sheet), progress)
    if located.is_folder:
        files, size = _add_folders(located, totals, sheet)
    else:
        files, size = _add_rows(located, totals)
    if totals.failures and not totals.records:
        raise BadInput(totals.failures[0])
    preview = totals.builder.preview()
    return RawFacts(
        path=printable(path),
        kind=detect.name_of(located.source),
        files=files,
        bytes=size,
        records=totals.records,
        bad=totals.bad,
        folders=dict(sorted(totals.folders.items())),
        columns=tuple(column.facts() for column in totals.columns.values()),
        left_columns=totals.left_columns,
        label=totals.label,
        classes=totals.classes(),
        preview=preview,
        warnings=tuple(totals.warnings),
        failures=tuple(totals.failures),
        has_images=bool(preview.image) or located.source == detect.IMAGE_FOLDER,
    )


@dataclass
class _Totals:
    """Running totals over batches."""

    builder: PreviewBuilder
    progress: ProgressCallback
    records: int = 0
    bad: Reasons = field(default_factory=Reasons)
    folders: Counter[str] = field(default_factory=Counter)
    columns: dict[tuple[str, str], ColumnStatistics] = field(default_factory=dict)
    left_columns: int = 0
    label: str = ""
    warnings: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _schema: pa.Schema | None = None

    def start(self, schema: pa.Schema) -> None:
        """Starts the statistics of new columns."""
        if schema == self._schema:
            return
        self._schema = schema
        self.label = self.label or columns.label_column(schema, "")
        new = [each for each in schema if _key(each) not in self.columns]
        room = max(0, MAX_COLUMNS - len(self.columns))
        kept = [each for index, each in enumerate(new) if index < room or each.name == self.label]
        self.columns.update({_key(each): ColumnStatistics(each, is_label=each.name == self.label) for each in kept})
        self.left_columns = max(self.left_columns, len(new) - len(kept))

    def add(self, batch: RowBatch, place: str = "") -> None:
        """Adds a batch."""
        self.start(batch.columns.schema)
        self.records += batch.columns.num_rows
        for each in batch.columns.schema:
            if column := self.columns.get(_key(each)):
                column.add(column_of(batch.columns, each.name))
        for bad in batch.bad:
            self.bad.add(bad.reason, f"{place}: {bad.position}" if place else bad.position)
        self.builder.add(batch.columns)
        self.progress(self.records)

    def classes(self) -> dict[str, int] | None:
        """Returns records by class, if there is a label column."""
        return next((column.classes for (name, _), column in self.columns.items() if name == self.label), None)


def _locate(path: str) -> detect.Located:
    with _reading(path):
        return detect.locate(spans.as_pattern(path))


def _add_folders(located: detect.Located, totals: _Totals, sheet: ContactSheet | None) -> tuple[int, int]:
    from pipelines.inspection import class_folders

    home, has_images = located.home, located.source == detect.IMAGE_FOLDER
    found: Found = refs.load(located.source).find(home)
    read = class_folders.images if has_images else class_folders.texts
    for batch in read(home, found):
        totals.add(batch)
    if sheet is not None and has_images:
        for file in found.files:
            sheet.offer(file.label, partial(_content, home / file.path))
    with _reading(str(home)):
        size = sum((home / file.path).stat().st_size for file in found.files)
    return len(found.files) + len(found.quarantined), size


def _add_rows(located: detect.Located, totals: _Totals) -> tuple[int, int]:
    source: RowSource = refs.load(located.source)
    first: tuple[str, pa.Schema] | None = None
    size = 0
    for name in located.files:
        path = located.home / name
        try:
            with _reading(str(path)):
                size += path.stat().st_size
                schema = source.schema(path)
                first = first or (name, schema)
                _add_file(source, path, name, _agreed(first, name, schema, totals), totals)
        except BadInput as error:
            totals.failures.append(str(error))
    return len(located.files), size


def _agreed(first: tuple[str, pa.Schema], name: str, schema: pa.Schema, totals: _Totals) -> pa.Schema:
    """Returns the schema to read a file with: the first file's, as in ingest, unless the columns differ."""
    missing = [each for each in first[1].names if each not in schema.names]
    extra = [each for each in schema.names if each not in first[1].names]
    if not missing and not extra:
        return first[1]
    parts = [("missing", missing), ("extra", extra)]
    difference = "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names)
    totals.warnings.append(f"{printable(name)}: its columns differ from {printable(first[0])}: {difference}")
    return schema


def _add_file(source: RowSource, path: detect.Place, name: str, schema: pa.Schema, totals: _Totals) -> None:
    totals.start(unpacked_schema(schema))
    before, shown = totals.records, printable(name)
    for part in source.divide(path, name, _RANGE):
        for batch in source.read(path, part, schema):
            totals.add(RowBatch(unpack(batch.columns, schema), batch.bad), shown)
    totals.folders[printable(str(PurePosixPath(name).parent))] += totals.records - before


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turns errors of libraries into an error that names the file."""
    try:
        yield
    except OSError as error:
        shown = printable(path)
        raise BadInput(f"{shown}: cannot be read: {error.strerror or error}; check it and its permissions") from error
    except (EOFError, zlib.error, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"damaged, or not in the format of its name: {reason}; repair or remove it"
        raise BadInput(f"{printable(path)}: {message}") from error


def _content(path: detect.Place) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= _MAX_IMAGE else b""
    except OSError:
        return b""  # counted as unreadable already, when its header was read


def _key(column: pa.Field) -> tuple[str, str]:
    return column.name, str(column.type)
