"""What there is to ingest, before any of it is: spans, sources, columns, and the content of every file.

    data ─► spans ─► source of each ─► files, and images that rows refer to ─► manifest ─► digest

The digest is the data's part of the cache key, so it is taken before TensorFlow or Beam are imported.
"""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from components import refs
from components.errors import BadInput
from components.ingest.config import Needs
from components.ingest.sources import Found, SourceFile
from components.ingest.survey import detect, spans
from components.ingest.survey import listing as manifest
from components.ingest.survey.detect import Located, Place
from components.ingest.survey.listing import Listing
from components.ingest.survey.spans import Span
from components.records.quarantine import Quarantined
from components.settings.ingest import Ingest
from components.storage import paths
from components.storage.hashing import HashCache, digest_of

if TYPE_CHECKING:  # Arrow takes a quarter of a second to import, which data that is no rows need not pay
    import pyarrow as pa

    from components.ingest.sources.rows import RowSource

NOTHING = Needs()
_LINK = "symbolic link that leads outside the data folder"


@dataclass(frozen=True)
class Table:
    """What the columns of rows are."""

    schema: "pa.Schema"
    label: str  # column, or empty
    images: str  # column with paths of images, or empty
    names: Mapping[str, str] = field(default_factory=dict)  # of columns that are called otherwise in the files


@dataclass(frozen=True)
class Part:
    """One span of the data, or all of it."""

    span: Span
    located: Located
    prefix: str  # of its paths, in what is told of several parts
    manifest: Listing  # paths relative to the part's own home


@dataclass(frozen=True)
class Survey:
    """All that will be read."""

    data: str
    parts: tuple[Part, ...]
    table: Table | None  # of rows

    @cached_property
    def manifest(self) -> Listing:
        """All files of all parts."""
        if not any(part.prefix for part in self.parts) and len(self.parts) == 1:
            return self.parts[0].manifest
        return Listing(
            tuple(
                replace(item, file=replace(item.file, path=part.prefix + item.file.path))
                for part in self.parts
                for item in part.manifest.files
            ),
            tuple(replace(bad, path=part.prefix + bad.path) for part in self.parts for bad in part.manifest.refused),
            tuple(part.prefix + name for part in self.parts for name in part.manifest.ignored),
        )

    @cached_property
    def digest(self) -> str:
        """Changes with any path, label or content, and with the number of a span."""
        rows = [f"{part.span.name}\0{part.prefix}\0{part.manifest.digest}" for part in self.parts]
        return digest_of([self.source, *rows])

    @property
    def source(self) -> str:
        """Reference of the source that reads all parts."""
        return self.parts[0].located.source


def take(data: str, settings: Ingest, cache: HashCache, needs: Needs = NOTHING) -> Survey:
    """Looks at the data; reads every file that the cache does not know.

    Args:
        data: what the user calls data.
        settings: of the ingest.
        cache: knows files that have not changed.
        needs: what must be in it.
    """
    found = spans.find(data, settings.spans, paths.matches)
    located = [detect.locate(span.data, needs.sources) for span in found]
    _check_one_kind(data, located)
    table = None if located[0].is_folder else _table(located, settings, needs)
    base = paths.common_folder([each.home for each in located])
    parts = [
        Part(span, each, _prefix(each.home, base), _manifest(each, table, cache))
        for span, each in zip(found, located, strict=True)
    ]
    return Survey(data, tuple(parts), table)


def _check_one_kind(data: str, located: Sequence[Located]) -> None:
    for each in located[1:]:
        if each.source != located[0].source:
            raise BadInput(f"{data}: {each.home} is of another kind than {located[0].home}; spans must be of one kind")


def _prefix(home: Place, base: Place) -> str:
    return f"{detect.relative(home, base)}/".lstrip("/")


def _manifest(located: Located, table: Table | None, cache: HashCache) -> Listing:
    if table is None:
        return manifest.take(refs.load(located.source), located.home, cache)
    names = [*located.files, *_referenced(located, table)]
    refused = tuple(Quarantined(name, _LINK) for name in located.refused)
    return manifest.hash_found(Found(tuple(SourceFile(name, "") for name in names), refused), located.home, cache)


def _referenced(located: Located, table: Table) -> list[str]:
    """Returns the images that rows refer to and that can be read; the others become bad rows, with their reason."""
    from components.ingest.survey import references
    from components.ingest.survey.renames import Renamed

    if not table.images:
        return []
    source = Renamed(refs.load(located.source), table.names)
    return references.paths(source, located.home, located.files, table.schema, table.images)


def _table(located: Sequence[Located], settings: Ingest, needs: Needs) -> Table:
    from components.ingest.survey import column_kinds, columns, references, renames

    source: RowSource = refs.load(located[0].source)
    schema = columns.with_types(common_schema(source, _files(located)), settings.columns)
    first = located[0].home / located[0].files[0]
    folder = posixpath.dirname(located[0].files[0])
    images = references.image_column(source, first, schema, settings.images, located[0].home, folder)
    label = columns.label_of(schema, settings.label)
    _check_needs(first, schema, label, images, needs)
    unused = column_kinds.unused_columns(schema, settings.unused, {label, images, settings.text} - {""})
    others = {label, images, *unused}
    text = column_kinds.text_column(first, schema, settings.text, others) if "text" in needs.roles else settings.text
    dates = column_kinds.date_columns(source, first, schema, {*others, text})
    schema = column_kinds.marked(schema, text, dates, unused)
    if not needs.label:
        return Table(schema, label, images)
    names = {label: needs.label}
    return Table(renames.rename(columns.with_classes(schema, label), names), needs.label, images, names)


def _check_needs(first: Place, schema: "pa.Schema", label: str, images: str, needs: Needs) -> None:
    from components.ingest.survey import columns

    has = ", ".join(schema.names)
    if needs.label and not label:
        raise BadInput(f"{first}: no column for the label among {has}; name it with --set ingest.label=COLUMN")
    if "image" in needs.roles and not images:
        raise BadInput(f"{first}: no column for the image among {has}; name it with --set ingest.images=COLUMN")
    if "tensor" in needs.roles and not any(map(columns.is_tensor, schema)):
        raise BadInput(f"{first}: no column of tensors among {has}; expected arrays, or lists of numbers")


def _files(located: Sequence[Located]) -> list[Place]:
    return [each.home / name for each in located for name in each.files]


def common_schema(source: "RowSource", files: Sequence[Place]) -> "pa.Schema":
    """Returns the columns of the first file; every other file must have the same names."""
    first = source.schema(files[0])
    for file in files[1:]:
        other = source.schema(file)
        if set(other.names) != set(first.names):
            raise BadInput(
                f"{file}: its columns are not those of {files[0].name}: {_differences(first.names, other.names)}"
            )
    return first


def _differences(wanted: Sequence[str], found: Sequence[str]) -> str:
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    told = {"missing": missing, "extra": extra}
    return "; ".join(f"{what} {', '.join(names)}" for what, names in told.items() if names)
