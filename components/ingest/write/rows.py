"""Writes one range of rows: one shard for each split that it has records of.

range ─► batches of columns ─► images ─► keys and records, all rows of a batch at once ─► TFRecord ─► renamed
                                             └─► fingerprints beside it, to find duplicates
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from components.errors import SettingsError
from components.ingest.sources.rows import Range, RowSource
from components.ingest.survey import columns, identity
from components.ingest.survey.label import has_classes
from components.ingest.write import keys
from components.ingest.write.fingerprints import FingerprintWriter, fingerprint_writer
from components.ingest.write.image_column import ImageColumn, RowsWithImages
from components.ingest.write.keys import ColumnRoles, KeyedRows, Numbers
from components.ingest.write.labels import LabelPolicy, is_blank
from components.ingest.write.report import ShardCounts, ShardReport
from components.ingest.write.shards import SplitShards
from components.ingest.write.strata import ROW, Rows, Strata
from components.records.quarantine import Quarantined, printable
from components.records.schema import TEXT
from components.records.tfrecord.framing import TFRecordWriter, frame_batch
from components.settings.ingest import Ingest
from components.settings.splits import SPLITS
from components.storage.paths import DataPath

if TYPE_CHECKING:
    from components.storage.location import Location

_MAX_CLASSES = 10_000  # counted one by one per range: a label may be different in every row
_OTHER_CLASSES = "…"  # the name under which all further ones are counted
_MAX_RAW = 10_000  # quarantined rows per range whose text is kept


@dataclass(frozen=True)
class RangeReader:
    """Reads one range of rows, with their images.

    Attributes:
        part: the range.
        source: reads it.
        schema: its columns.
        data: the folder that the range's path is relative to.
        settings: of the ingest.
        label: column of the label, or empty.
        images: column with paths of images, or empty.
        checks: cache of image checks.
    """

    part: Range
    source: RowSource
    schema: pa.Schema
    data: DataPath
    settings: Ingest
    label: str
    images: str = ""
    checks: Path | None = None

    @property
    def class_column(self) -> str:
        """Column whose values are classes, or empty."""
        return self.label if self.label and has_classes(self.schema.field(self.label)) else ""

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns that are read as text."""
        return tuple(field.name for field in self.schema if columns.meaning_of(field) == TEXT)

    def keyed(self, strata: Strata | None = None) -> Iterator[tuple[RowsWithImages, KeyedRows]]:
        """Yields all rows in bounded batches, identified."""
        roles = self.roles()
        for rows in self._rows():
            sha256 = [image.sha256 for image in rows.images]
            yield rows, keys.key(rows.columns, roles, self.settings.splits, sha256, strata)

    def roles(self) -> ColumnRoles:
        """Returns which column is what."""
        schema, label, images = self.schema, self.label, self.images
        if label and label == images:
            raise SettingsError(f"column {label!r} cannot be both the label and the path of an image; set ingest.label")
        split_by = self.settings.split_by and columns.check_column(schema, self.settings.split_by, "split_by")
        if split_by == images:
            split_by = ""  # the image decides the split
        own = columns.record_schema(schema, images).names[-1]
        image = columns.image_name(schema, images) if images else ""
        return ColumnRoles(label, split_by, own, images, image, tuple(identity.left_out(schema, label)))

    def _rows(self) -> Iterator[RowsWithImages]:
        path = self.data / self.part.path
        policy = LabelPolicy(self.label, self.settings.unlabelled)
        found = self.source.read(path, self.part, policy.schema(self.schema))
        batches = ((policy.apply(batch), policy.named_unlabelled(batch)) for batch in found)
        if not self.images:
            yield from (RowsWithImages(batch.columns, batch.bad, (), named) for batch, named in batches)
            return
        with ImageColumn(self.part, self.images, self.schema, self.data, self.settings, self.checks) as column:
            for batch, named in batches:
                yield RowsWithImages(batch.columns.slice(0, 0), batch.bad, (), named)
                yield from column.read(batch)


def write_range(reader: RangeReader, shard: str, artifact: "Location") -> list[ShardReport]:
    """Writes the shards of one range and reports what happened to each of its rows.

    Args:
        reader: of the range.
        shard: end of the names of its shards, such as "00003-of-00024".
        artifact: the folder that the shards go to.
    """
    settings, counts = reader.settings, _RangeCounts(reader.part, reader.class_column, reader.text_columns)
    strata = Strata.load(artifact) if settings.splits.stratify else None
    gzip = settings.compression == "gzip" and not reader.images
    with contextlib.ExitStack() as stack:
        writers = _SplitWriters(stack, artifact, shard, reader.roles().image, gzip=gzip)
        for rows, keyed in reader.keyed(strata):
            writers.write(keyed, [image.checked.content for image in rows.images])
            counts.add(rows, keyed)
    return writers.reports(counts)


def place_range(reader: RangeReader) -> Rows:
    """Returns place and class of every row of a range that will become a record, for stratified splits."""
    found = [np.empty(0, ROW)]
    for _, keyed in reader.keyed():
        rows = np.empty(len(keyed.places), ROW)
        rows["place"], rows["class"] = keyed.places, keyed.labels
        found.append(rows)
    return np.concatenate(found)


@dataclass
class _RangeCounts:
    """Counts the rows of one range while they are written."""

    part: Range
    label: str  # column whose values are counted, or empty
    texts: tuple[str, ...] = ()  # columns whose empty values are counted
    empty_texts: int = 0
    bad: list[Quarantined] = field(default_factory=list)
    read: int = 0
    named_unlabelled: int = 0
    splits: dict[str, ShardCounts] = field(default_factory=lambda: {split: ShardCounts() for split in SPLITS})
    classes: set[str] = field(default_factory=set)

    def add(self, rows: RowsWithImages, keyed: KeyedRows) -> None:
        """Counts rows that were written, and bad rows."""
        for bad in rows.bad:
            raw = bad.raw if len(self.bad) < _MAX_RAW else b""
            self.bad.append(Quarantined.of(printable(self.part.path), bad.reason, bad.position, raw))
        self.read += len(rows.bad) + rows.columns.num_rows
        self.named_unlabelled += rows.named_unlabelled
        for name in self.texts:
            texts = rows.columns.column(rows.columns.schema.get_field_index(name))
            self.empty_texts += texts.null_count + int(is_blank(texts).sum())
        if self.label:
            self._count_classes(rows.columns.column(rows.columns.schema.get_field_index(self.label)), keyed.splits)
        for image, split in zip(rows.images, keyed.splits.tolist() if rows.images else (), strict=True):
            checked = image.checked
            side = min(checked.width, checked.height)
            self.splits[SPLITS[split]].add(image.sha256, side, checked.changed, checked.perceptual_hash)

    def _count_classes(self, labels: pa.Array, splits: Numbers) -> None:
        found = labels.dictionary_encode()
        names = [*map(_class_name, found.dictionary.to_pylist())]
        which = found.indices.to_numpy()
        counts = np.bincount(splits * len(names) + which, minlength=len(SPLITS) * len(names))
        for place in np.flatnonzero(counts).tolist():
            split, name = divmod(place, len(names))
            self.splits[SPLITS[split]].classes[self._bounded(names[name])] += int(counts[place])

    def _bounded(self, name: str) -> str:
        if name not in self.classes and len(self.classes) >= _MAX_CLASSES:
            return _OTHER_CLASSES
        self.classes.add(name)
        return name


class _SplitWriters:
    """The shards of one range, with the fingerprints of their records."""

    def __init__(
        self, stack: contextlib.ExitStack, artifact: "Location", shard: str, image: str, *, gzip: bool
    ) -> None:
        self._stack, self._artifact, self._image = stack, artifact, image
        self._shards = SplitShards(stack, artifact, shard, gzip=gzip)
        self._fingerprints: dict[str, FingerprintWriter] = {}

    def write(self, keyed: KeyedRows, images: Sequence[bytes]) -> None:
        """Appends records to the shards of their splits."""
        write_some = _with_images(keyed, self._image, images) if self._image else _whole_batch(keyed)
        for number, split in enumerate(SPLITS):
            mine = np.flatnonzero(keyed.splits == number)
            if len(mine):
                write_some(self._shards.of(split), mine)
                self._fingerprints_of(split).add(keyed.contents[mine], keyed.labels[mine])

    def reports(self, counts: _RangeCounts) -> list[ShardReport]:
        """Returns the reports when the shards are closed; the first one has all rows that were quarantined."""
        shards = self._shards
        made = [
            counts.splits[split].report(split, shards.name(split), shard, self._fingerprints[split].checksum)
            for split, shard in shards.writers.items()
        ]
        first = made[0] if made else ShardReport()
        return [
            replace(
                first,
                quarantined=tuple(counts.bad),
                read=counts.read,
                empty_texts=counts.empty_texts,
                named_unlabelled=counts.named_unlabelled,
            ),
            *made[1:],
        ]

    def _fingerprints_of(self, split: str) -> FingerprintWriter:
        if split not in self._fingerprints:
            writer = fingerprint_writer(self._artifact, self._shards.name(split))
            self._fingerprints[split] = self._stack.enter_context(writer)
        return self._fingerprints[split]


def _whole_batch(keyed: KeyedRows) -> Callable[[TFRecordWriter, Numbers], None]:
    """Returns a function that writes some of the records, framed together."""
    framed = frame_batch(keyed.columns.records().array)
    return lambda writer, mine: writer.write_framed(framed.take(pa.array(mine)))


def _with_images(keyed: KeyedRows, image: str, contents: Sequence[bytes]) -> Callable[[TFRecordWriter, Numbers], None]:
    """Returns a function that writes some of the records one by one, without a copy of their images."""
    before, after = keyed.columns.around(image, np.fromiter(map(len, contents), np.int64, len(contents)))
    records = list(zip(before.rows(), contents, after.rows(), strict=True))
    return lambda writer, mine: writer.write(records[index] for index in mine.tolist())


def _class_name(label: object) -> str:
    """Returns a label as text; booleans in lower case, as in JSON."""
    if isinstance(label, bytes):
        return label.decode("utf-8", "backslashreplace")
    return str(label).lower() if isinstance(label, bool) else str(label)
