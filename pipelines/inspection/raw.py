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
from components.ingest.sources.rows import RowBatch, RowFormat, RowSource
from components.ingest.survey import columns, detect, spans
from components.records.quarantine import printable
from components.settings.ingest import Ingest
from pipelines.inspection import class_folders
from pipelines.inspection.arrays import unpack, unpacked_schema
from pipelines.inspection.contact_sheet import ContactSheet
from pipelines.inspection.preview import Preview, column_of
from pipelines.inspection.reasons import Reasons
from pipelines.inspection.statistics import ColumnStatistics

MAX_COLUMNS = 200  # with statistics; the label always has them
_RANGE = 64 << 20  # bytes
_MAX_IMAGE = 64 << 20  # bytes of a file that is drawn

ProgressCallback = Callable[[int], None]  # takes the number of records read so far


@dataclass
class RawFacts:
    """What is in raw data; batches add to it."""

    path: str
    kind: str
    preview: Preview
    progress: ProgressCallback
    has_images: bool
    files: int = 0
    bytes: int = 0
    records: int = 0
    bad: Reasons = field(default_factory=Reasons)  # of rows and files that ingest would reject
    folders: Counter[str] = field(default_factory=Counter)  # records by folder
    columns: dict[tuple[str, str], ColumnStatistics] = field(default_factory=dict)  # by name and type
    left_columns: int = 0  # without statistics
    label: str = ""
    notes: list[str] = field(default_factory=list)  # what ingest would decide
    warnings: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # files that could not be read completely
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
        self.preview.add(batch.columns)
        self.has_images = self.has_images or bool(self.preview.image)
        self.progress(self.records)

    @property
    def classes(self) -> dict[str, int] | None:
        """Records by class, if there is a label column."""
        return next((column.classes for (name, _), column in self.columns.items() if name == self.label), None)

    @property
    def error(self) -> str:
        """The first file that could not be read completely, and how many there are."""
        count = f"({len(self.failures):,} of {self.files:,} files could not be read completely)"
        return f"{self.failures[0]} {count}" if self.failures else ""


def study(path: str, rows: int, sheet: ContactSheet | None, progress: ProgressCallback) -> RawFacts:
    """Reads all data once."""
    with _reading(path):
        located = detect.locate(spans.as_pattern(path))
    has_images = located.source == detect.IMAGE_FOLDER
    facts = RawFacts(printable(path), detect.name_of(located.source), Preview(rows, sheet), progress, has_images)
    if located.is_folder:
        _add_folders(located, facts, sheet)
    else:
        _add_rows(located, facts)
    if facts.failures and not facts.records:
        raise BadInput(facts.failures[0])
    return facts


def _add_folders(located: detect.Located, facts: RawFacts, sheet: ContactSheet | None) -> None:
    home = located.home
    found: Found = refs.load(located.source).find(home)
    for batch in class_folders.batches(home, found, has_images=facts.has_images):
        facts.add(batch)
    if sheet is not None and facts.has_images:
        for file in found.files:
            sheet.offer(file.label, partial(_content, home / file.path))
    with _reading(str(home)):
        facts.bytes = sum((home / file.path).stat().st_size for file in found.files)
    facts.files = len(found.files) + len(found.quarantined)


def _add_rows(located: detect.Located, facts: RawFacts) -> None:
    source = _configured(located, facts)
    first: tuple[str, pa.Schema] | None = None
    facts.files = len(located.files)
    for name in located.files:
        path = located.home / name
        try:
            with _reading(str(path)):
                facts.bytes += path.stat().st_size
                schema = source.schema(path)
                first = first or (name, schema)
                _add_file(source, path, name, _agreed(first, name, schema, facts), facts)
        except BadInput as error:
            facts.failures.append(str(error))


def _configured(located: detect.Located, facts: RawFacts) -> RowSource:
    """Returns the source as ingest would use it by default, with its decisions as notes."""
    known: RowFormat = refs.load(located.source)
    try:
        source, decision = known.configure([located.home / name for name in located.files], Ingest())
    except BadInput as error:  # a file that cannot be read, or files that differ: the others are shown
        facts.warnings.append(str(error))
        return known
    if decision.text:
        (facts.notes if decision.is_clear else facts.warnings).append(decision.text)
    return source


def _agreed(first: tuple[str, pa.Schema], name: str, schema: pa.Schema, facts: RawFacts) -> pa.Schema:
    """Returns the schema to read a file with: the first file's, as in ingest, unless the columns differ."""
    missing = [each for each in first[1].names if each not in schema.names]
    extra = [each for each in schema.names if each not in first[1].names]
    if not missing and not extra:
        return first[1]
    parts = [("missing", missing), ("extra", extra)]
    difference = "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names)
    facts.warnings.append(f"{printable(name)}: its columns differ from {printable(first[0])}: {difference}")
    return schema


def _add_file(source: RowSource, path: detect.Place, name: str, schema: pa.Schema, facts: RawFacts) -> None:
    facts.start(unpacked_schema(schema))
    before, shown = facts.records, printable(name)
    for part in source.divide(path, name, _RANGE):
        for batch in source.read(path, part, schema):
            facts.add(RowBatch(unpack(batch.columns, schema), batch.bad), shown)
    facts.folders[printable(str(PurePosixPath(name).parent))] += facts.records - before


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
