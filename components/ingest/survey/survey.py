"""The survey: spans, source, columns and content digests of the input, before anything is ingested.

    data ─► spans ─► source of each ─► files, and images that rows refer to ─► listing ─► digest

The digest is the data's part of the cache key, so the survey imports neither TensorFlow nor Beam.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from components import refs
from components.errors import BadInput, SettingsError
from components.ingest.config import Needs
from components.ingest.sources import Found, SourceFile
from components.ingest.survey import detect, listing, spans
from components.ingest.survey.detect import Located, Place
from components.ingest.survey.listed_files import ListedFiles
from components.ingest.survey.listing import Listing
from components.ingest.survey.spans import Span
from components.records.quarantine import Quarantined, printable
from components.settings.ingest import Ingest
from components.storage import paths
from components.storage.hashing import HashCache, digest_of

if TYPE_CHECKING:  # Arrow takes 0.25 s to import, and only tables need it
    import pyarrow as pa

    from components.ingest.sources.rows import Decision, RowFormat, RowSource

NOTHING = Needs()
_LINK = "symbolic link that leads outside the data folder"


@dataclass(frozen=True)
class Table:
    """The columns of rows."""

    schema: "pa.Schema"
    label: str  # column, or empty
    images: str  # column with paths of images, or empty
    source: "RowSource" = field(repr=False)  # reads these columns from the files
    names: Mapping[str, str] = field(default_factory=dict)  # name in the files -> name in the record, where they differ
    notes: tuple[str, ...] = ()  # what was decided about the data, for the user
    warnings: tuple[str, ...] = ()  # what may be wrong with it

    @property
    def label_source(self) -> str:
        """Name of the label in the files."""
        return next((own for own, name in self.names.items() if name == self.label), self.label)


@dataclass(frozen=True)
class SpanFiles:
    """The files of one span, or of all data without spans."""

    span: Span
    located: Located
    prefix: str  # of its paths in listings of several spans
    listing: Listing  # paths relative to its own home


@dataclass(frozen=True)
class Survey:
    """Everything that will be read."""

    data: str
    spans: tuple[SpanFiles, ...]
    table: Table | None  # None for class folders

    @cached_property
    def listing(self) -> Listing:
        """All files of all spans."""
        if len(self.spans) == 1 and not self.spans[0].prefix:
            return self.spans[0].listing
        return Listing(
            ListedFiles(
                replace(item, file=replace(item.file, path=each.prefix + item.file.path)) if each.prefix else item
                for each in self.spans
                for item in each.listing.files
            ),
            tuple(replace(bad, path=each.prefix + bad.path) for each in self.spans for bad in each.listing.quarantined),
            tuple(each.prefix + name for each in self.spans for name in each.listing.ignored),
        )

    @cached_property
    def digest(self) -> str:
        """Digest that changes with any path, label or content, and with the number of a span."""
        rows = [f"{each.span.name}\0{each.prefix}\0{each.listing.digest}" for each in self.spans]
        return digest_of([self.source, *rows])

    def path_of(self, shard: str, number: int) -> str:
        """Returns the path of a record that is a file, by its shard and its number in the listing of its span."""
        end = shard.rpartition("data_tfrecord-")[2]
        span = next(each for each in self.spans if not each.span.name or end.startswith(f"{each.span.name}-"))
        return printable(span.prefix + span.listing.files.sources.paths[number])

    @property
    def source(self) -> str:
        """Reference of the source that reads all spans."""
        return self.spans[0].located.source


def take(data: str, settings: Ingest, cache: HashCache, needs: Needs = NOTHING) -> Survey:
    """Surveys the data; hashes every file that the cache does not have.

    Args:
        data: path or pattern from the user.
        settings: settings of Ingest.
        cache: digests of files that have not changed.
        needs: what the task requires of the data.
    """
    found = spans.find(data, settings.spans, paths.matches)
    located = [detect.locate(span.data, needs.sources) for span in found]
    _check_one_source(data, located)
    table = None if located[0].is_folder else _table(located, settings, needs)
    base = paths.common_folder([each.home for each in located])
    files = [
        SpanFiles(span, each, _prefix(each.home, base), _listing(each, table, cache))
        for span, each in zip(found, located, strict=True)
    ]
    return Survey(data, tuple(files), table)


def common_schema(source: "RowSource", files: Sequence[Place]) -> "pa.Schema":
    """Returns the columns of the first file; every other file must have the same names."""
    first = source.schema(files[0])
    for file in files[1:]:
        other = source.schema(file)
        if set(other.names) != set(first.names):
            differences = _differences(first.names, other.names)
            raise BadInput(f"{file}: its columns differ from those of {files[0].name}: {differences}")
    return first


def _check_one_source(data: str, located: Sequence[Located]) -> None:
    first = located[0]
    for each in located[1:]:
        if each.source != first.source:
            raise BadInput(
                f"{data}: {each.home} holds {detect.name_of(each.source)} but {first.home} holds "
                f"{detect.name_of(first.source)}; all spans must have the same format"
            )


def _prefix(home: Place, base: Place) -> str:
    return f"{detect.relative(home, base)}/".lstrip("/")


def _listing(located: Located, table: Table | None, cache: HashCache) -> Listing:
    if table is None:
        return listing.take(refs.load(located.source), located.home, cache, located.entries)
    names = [*located.files, *_referenced(located, table)]
    quarantined = tuple(Quarantined(name, _LINK) for name in located.links_outside)
    found = Found(tuple(SourceFile(name, "") for name in names), quarantined, entries=located.entries)
    # Near duplicates among images are named by their content.
    identify = listing.hash_found if table.images else listing.identify_found
    return identify(found, located.home, cache)


def _referenced(located: Located, table: Table) -> list[str]:
    """Returns the images that rows refer to and that can be read; rows with other references will be quarantined."""
    from components.ingest.survey import references

    if not table.images:
        return []
    return references.paths(table.source, located.home, located.files, table.schema, table.images)


def _table(located: Sequence[Located], settings: Ingest, needs: Needs) -> Table:
    from components.ingest.sources import renames
    from components.ingest.sources.rows import Sample
    from components.ingest.survey import columns, identity, references, texts
    from components.ingest.survey import label as labels

    known: RowFormat = refs.load(located[0].source)
    files = [each.home / name for each in located for name in each.files]
    source, decision = known.configure(files, settings)
    schema = common_schema(source, files)
    with _explained(decision):
        schema = columns.with_types(schema, settings.columns)
        label = columns.label_column(schema, settings.label)
    sample = Sample(source, files[0], schema)
    folder = posixpath.dirname(located[0].files[0])
    images = references.image_column(sample, settings.images, located[0].home, folder)
    _check_needs(files[0], schema, label, images, needs, decision.text)
    unused = columns.unused_columns(schema, settings.unused, {label, images, *settings.text} - {""})
    others = {label, images, *unused} - {""}
    prose = partial(texts.prose, sample)
    text = columns.text_columns(files[0], schema, settings.text, others, prose, required="text" in needs.roles)
    dates = columns.date_columns(sample, {*others, *text})
    schema = columns.with_meanings(schema, (), dates, unused)
    schema = identity.with_ids(schema, sample, label, {*others, *text, *dates})
    ids = [field.name for field in schema if identity.is_id(field)]
    lines = [decision.text if decision.is_clear else "", texts.note(schema, text, {*others, *dates, *ids}, prose)]
    doubts = ["" if decision.is_clear else decision.text, identity.warning(schema, needs.inputs, settings.unused)]
    notes, warnings = tuple(filter(None, lines)), tuple(filter(None, doubts))
    if len(text) > 1:
        texts.check(schema, text, settings.split_by)
        source = texts.JoinedTexts(source, tuple(map(schema.field, text)), settings.text_separator)
        schema, text = source.joined(schema), (source.name,)
    schema = columns.with_meanings(schema, text)
    if needs.label:
        schema = columns.with_class_names(schema, label)
    labels.check(schema, label, settings)
    if not needs.label:
        return Table(schema, label, images, source, notes=notes, warnings=warnings)
    names = {label: needs.label}
    schema = renames.rename(schema, names)
    return Table(schema, needs.label, images, renames.RenamedRows(source, names), names, notes, warnings)


@contextmanager
def _explained(decision: "Decision") -> Iterator[None]:
    """Adds the decision about the files to an error about a column that they do not have."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"{error} ({decision.text})" if decision.text else str(error)) from None


def _check_needs(first: Place, schema: "pa.Schema", label: str, images: str, needs: Needs, decision: str) -> None:
    from components.ingest.survey import columns

    has = ", ".join(schema.names) + (f" ({decision})" if decision else "")
    if needs.label and not label:
        raise BadInput(f"{first}: no column for the label among {has}; name it with --set ingest.label=COLUMN")
    if "image" in needs.roles and not images:
        raise BadInput(f"{first}: no column for the image among {has}; name it with --set ingest.images=COLUMN")
    if "tensor" in needs.roles and not any(map(columns.is_tensor, schema)):
        raise BadInput(f"{first}: no column of tensors among {has}; expected arrays, or lists of numbers")


def _differences(wanted: Sequence[str], found: Sequence[str]) -> str:
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    differences = {"missing": missing, "extra": extra}
    return "; ".join(f"{what} {', '.join(names)}" for what, names in differences.items() if names)
