"""Raw data of any kind in one pass: batches in, facts out."""

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
from pipelines.inspection.reasons import Reasons
from pipelines.inspection.records import FirstRecords, Taker, column_of
from pipelines.inspection.sheet import Gallery
from pipelines.inspection.statistics import Column, ColumnFacts
from pipelines.inspection.tensors import unpack, unpacked_schema

MOST_COLUMNS = 200  # that are studied; the label always is
_RANGE = 64 << 20  # bytes
_LARGEST_IMAGE = 64 << 20  # bytes of a file that is drawn

Told = Callable[[int], None]  # hears how many records were read


@dataclass(frozen=True)
class RawFacts:
    """What is in a set of raw data."""

    path: str
    kind: str
    files: int
    bytes: int
    records: int
    bad: Reasons
    folders: dict[str, int]  # records by folder
    columns: tuple[ColumnFacts, ...]
    left_columns: int
    label: str
    classes: dict[str, int] | None
    first: FirstRecords
    warnings: tuple[str, ...]
    failures: tuple[str, ...]  # files that could not be read to their end
    has_images: bool


def study(path: str, rows: int, gallery: Gallery | None, told: Told) -> RawFacts:
    """Reads all of the data once."""
    located = _locate(path)
    tally = _Tally(Taker(rows, gallery), told)
    if located.is_folder:
        files, size = _add_folders(located, tally, gallery)
    else:
        files, size = _add_rows(located, tally)
    if tally.failures and not tally.records:
        raise BadInput(tally.failures[0])
    first = tally.taker.taken()
    return RawFacts(
        path=printable(path),
        kind=detect.name_of(located.source),
        files=files,
        bytes=size,
        records=tally.records,
        bad=tally.bad,
        folders=dict(sorted(tally.folders.items())),
        columns=tuple(column.facts() for column in tally.columns.values()),
        left_columns=tally.left_columns,
        label=tally.label,
        classes=tally.classes(),
        first=first,
        warnings=tuple(tally.warnings),
        failures=tuple(tally.failures),
        has_images=bool(first.image) or located.source == detect.IMAGE_FOLDER,
    )


@dataclass
class _Tally:
    """Adds batches up."""

    taker: Taker
    told: Told
    records: int = 0
    bad: Reasons = field(default_factory=Reasons)
    folders: Counter[str] = field(default_factory=Counter)
    columns: dict[tuple[str, str], Column] = field(default_factory=dict)
    left_columns: int = 0
    label: str = ""
    warnings: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _started: pa.Schema | None = None

    def start(self, schema: pa.Schema) -> None:
        """Makes room for columns that are new."""
        if schema == self._started:
            return
        self._started = schema
        self.label = self.label or columns.label_column(schema, "")
        new = [each for each in schema if _key(each) not in self.columns]
        room = max(0, MOST_COLUMNS - len(self.columns))
        kept = [each for index, each in enumerate(new) if index < room or each.name == self.label]
        self.columns.update({_key(each): Column(each, is_label=each.name == self.label) for each in kept})
        self.left_columns = max(self.left_columns, len(new) - len(kept))

    def add(self, batch: RowBatch, place: str = "") -> None:
        """Takes a batch in."""
        self.start(batch.columns.schema)
        self.records += batch.columns.num_rows
        for each in batch.columns.schema:
            if column := self.columns.get(_key(each)):
                column.add(column_of(batch.columns, each.name))
        for bad in batch.bad:
            self.bad.add(bad.reason, f"{place}: {bad.position}" if place else bad.position)
        self.taker.add(batch.columns)
        self.told(self.records)

    def classes(self) -> dict[str, int] | None:
        """Returns records by class, if there is a label."""
        return next((column.classes for (name, _), column in self.columns.items() if name == self.label), None)


def _locate(path: str) -> detect.Located:
    with _reading(path):
        return detect.locate(spans.as_pattern(path))


def _add_folders(located: detect.Located, tally: _Tally, gallery: Gallery | None) -> tuple[int, int]:
    from pipelines.inspection import images, texts

    home, pictures = located.home, located.source == detect.IMAGE_FOLDER
    found: Found = refs.load(located.source).find(home)
    for batch in (images if pictures else texts).read(home, found):
        tally.add(batch)
    if gallery is not None and pictures:
        for file in found.files:
            gallery.offer(file.label, partial(_content, home / file.path))
    with _reading(str(home)):
        size = sum((home / file.path).stat().st_size for file in found.files)
    return len(found.files) + len(found.quarantined), size


def _add_rows(located: detect.Located, tally: _Tally) -> tuple[int, int]:
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
                _add_file(source, path, name, _agreed(first, name, schema, tally), tally)
        except BadInput as error:
            tally.failures.append(str(error))
    return len(located.files), size


def _agreed(first: tuple[str, pa.Schema], name: str, schema: pa.Schema, tally: _Tally) -> pa.Schema:
    """Returns the schema to read a file by: the first file's, as ingest does, unless the columns are others."""
    missing = [each for each in first[1].names if each not in schema.names]
    extra = [each for each in schema.names if each not in first[1].names]
    if not missing and not extra:
        return first[1]
    parts = [("missing", missing), ("extra", extra)]
    told = "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names)
    tally.warnings.append(f"{printable(name)}: its columns are not those of {printable(first[0])}: {told}")
    return schema


def _add_file(source: RowSource, path: detect.Place, name: str, schema: pa.Schema, tally: _Tally) -> None:
    tally.start(unpacked_schema(schema))
    before, shown = tally.records, printable(name)
    for part in source.divide(path, name, _RANGE):
        for batch in source.read(path, part, schema):
            tally.add(RowBatch(unpack(batch.columns, schema), batch.bad), shown)
    tally.folders[printable(str(PurePosixPath(name).parent))] += tally.records - before


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turns what libraries raise for files that cannot be read into an error that names the file."""
    try:
        yield
    except OSError as error:
        shown = printable(path)
        raise BadInput(f"{shown}: cannot be read: {error.strerror or error}; check it and its permissions") from error
    except (EOFError, zlib.error, pa.ArrowException) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"{printable(path)}: damaged, or not what its name says: {said}; mend or remove it") from error


def _content(path: detect.Place) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= _LARGEST_IMAGE else b""
    except OSError:
        return b""  # counted as one that cannot be read, by its header


def _key(column: pa.Field) -> tuple[str, str]:
    return column.name, str(column.type)
