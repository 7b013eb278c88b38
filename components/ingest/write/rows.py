"""One range of rows: read, fill in images, split by content, encode, write a shard for every split it has records of.

range ─► batches of columns ─► images ─► keys and records (all rows at once) ─► TFRecord ─► rename
                                             └─► fingerprints beside it, for duplicates
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.errors import SettingsError
from components.ingest.close import near_duplicates
from components.ingest.close.duplicates import Notes
from components.ingest.sources.rows import BadRow, Range, RowBatch, RowSource
from components.ingest.survey import columns
from components.ingest.write import keys
from components.ingest.write.files import ShardReport
from components.ingest.write.image_column import Filled, Images, Shot
from components.ingest.write.keys import Keyed, Numbers, Roles
from components.records.quarantine import Quarantined, printable
from components.records.tfrecord import TFRecordWriter, frame_batch
from components.settings.ingest import Ingest
from components.settings.splits import SPLITS
from components.storage import durable
from components.storage.paths import DataPath

_CLASSES = 10_000  # that are counted one by one in a range: labels may be as many as rows
_OTHERS = "…"  # the name under which all further ones are counted
_RAWS = 10_000  # bad rows of a range of which the text is kept


def write_range(
    part: Range, shard: str, *, source: RowSource, schema: pa.Schema, data: DataPath, artifact: Path, settings: Ingest,
    label: str, images: str = "", checks: Path | None = None,
) -> list[ShardReport]:  # fmt: skip
    """Writes the shards of one range and accounts for every row of it.

    Args:
        part: what to read.
        shard: end of the names of its shards, such as "00003-of-00024".
        source: who reads it.
        schema: its columns.
        data: the folder that the range's path is relative to.
        artifact: where the shards go.
        settings: of the ingest.
        label: column of the label, or empty.
        images: column with paths of images, or empty.
        checks: verdicts on images that are known already.
    """
    roles = _roles(schema, settings, label, images)
    tally = _Tally(part, label if label and _has_classes(schema.field(label)) else "")
    with contextlib.ExitStack() as stack:
        fill = _as_it_is
        if images:
            fill = stack.enter_context(Images(part, images, schema, data, settings, checks)).fill
        writers = _Writers(stack, artifact, shard, roles.image, gzip=settings.compression == "gzip" and not images)
        for batch in source.read(data / part.path, part, schema):
            tally.note_bad(batch.bad)
            for rows in fill(batch):
                keyed = keys.key(rows.columns, roles, settings.splits, [shot.sha256 for shot in rows.shots])
                writers.write(keyed, [shot.image.content for shot in rows.shots])
                tally.note(rows, keyed)
    return writers.reports(tally)


def _roles(schema: pa.Schema, settings: Ingest, label: str, images: str) -> Roles:
    if label and label == images:
        raise SettingsError(f"column {label!r} cannot be both the label and the path of an image; set ingest.label")
    split_by = settings.split_by and columns.check_column(schema, settings.split_by, "split_by")
    if split_by == images:
        split_by = ""  # the path has become a image, which decides about the split anyway
    own = columns.record_schema(schema, images).names[-1]
    return Roles(label, split_by, own, images, columns.image_name(schema, images) if images else "")


def _as_it_is(batch: RowBatch) -> Iterator[Filled]:
    yield Filled(batch.columns)


def _has_classes(label: pa.Field) -> bool:
    """Whether a label names a class: a number with a fraction is a quantity."""
    return not (columns.is_list(label.type) or columns.is_tensor(label) or pa.types.is_floating(label.type))


@dataclass
class _Tally:
    """Counts what became of the rows of one range."""

    part: Range
    label: str  # column whose values are counted, or empty
    bad: list[Quarantined] = field(default_factory=list)
    read: int = 0
    classes: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})
    sides: dict[str, Counter[int]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})
    changed: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})
    hashes: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: {split: [] for split in SPLITS})
    known: set[str] = field(default_factory=set)

    def note_bad(self, bad: Sequence[BadRow]) -> None:
        """Counts rows that cannot become records."""
        self.read += len(bad)
        self.bad += [_refused(self.part, row, len(self.bad) + place < _RAWS) for place, row in enumerate(bad)]

    def note(self, rows: Filled, keyed: Keyed) -> None:
        """Counts rows that were written, and those whose image is bad."""
        self.note_bad(rows.bad)
        self.read += rows.columns.num_rows
        if self.label:
            self._count_classes(rows.columns.column(rows.columns.schema.get_field_index(self.label)), keyed.splits)
        for shot, number in zip(rows.shots, keyed.splits.tolist() if rows.shots else (), strict=True):
            self._note_image(shot, SPLITS[number])

    def _note_image(self, shot: Shot, split: str) -> None:
        image = shot.image
        self.sides[split][min(image.width, image.height)] += 1
        if image.changed:
            self.changed[split][image.changed] += 1
        if image.perceptual_hash is not None:
            self.hashes[split].append((shot.sha256, image.perceptual_hash))

    def _count_classes(self, labels: pa.Array, splits: Numbers) -> None:
        found = labels.dictionary_encode()
        names = [*map(_name, found.dictionary.to_pylist()), ""]  # the last one: no label at all
        which = found.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
        counts = np.bincount(splits * len(names) + which, minlength=len(SPLITS) * len(names))
        for place in np.flatnonzero(counts).tolist():
            split, name = divmod(place, len(names))
            self.classes[SPLITS[split]][self._known(names[name])] += int(counts[place])

    def _known(self, name: str) -> str:
        if name not in self.known and len(self.known) >= _CLASSES:
            return _OTHERS
        self.known.add(name)
        return name


class _Writers:
    """A file a split, opened when its first record comes; each is published whole."""

    def __init__(self, stack: contextlib.ExitStack, artifact: Path, shard: str, image: str, *, gzip: bool) -> None:
        self._stack, self._artifact, self._image = stack, artifact, image
        self._end, self._gzip = f"{shard}.gz" if gzip else shard, gzip
        self._open: dict[str, tuple[TFRecordWriter, Notes]] = {}

    def write(self, keyed: Keyed, pictures: Sequence[bytes]) -> None:
        """Appends records to the files of their splits."""
        put = _with_images(keyed, self._image, pictures) if self._image else _all_at_once(keyed)
        for number, split in enumerate(SPLITS):
            mine = np.flatnonzero(keyed.splits == number)
            if len(mine):
                file, notes = self._open.get(split) or self._start(split)
                put(file, mine)
                notes.add(keyed.contents[mine], keyed.labels[mine])

    def reports(self, tally: _Tally) -> list[ShardReport]:
        """Returns what was published, when the stack is closed; bad rows are told of with the first shard."""
        made = [self._report(split, file, tally) for split, (file, _) in self._open.items()]
        first = made[0] if made else _NO_SHARD
        return [replace(first, quarantined=tuple(tally.bad), read=tally.read), *made[1:]]

    def _start(self, split: str) -> tuple[TFRecordWriter, Notes]:
        target = self._artifact / self._name(split)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = self._stack.enter_context(durable.publish_file(target, sync=False))
        notes = self._stack.enter_context(Notes(self._artifact, self._name(split)))
        self._open[split] = self._stack.enter_context(TFRecordWriter(aside, gzip=self._gzip)), notes
        return self._open[split]

    def _name(self, split: str) -> str:
        return f"Split-{split}/data_tfrecord-{self._end}"

    def _report(self, split: str, file: TFRecordWriter, tally: _Tally) -> ShardReport:
        return replace(
            _NO_SHARD,
            split=split,
            name=self._name(split),
            records=file.records,
            bytes=file.size,
            checksum=file.checksum,
            classes=dict(tally.classes[split]),
            sides=dict(tally.sides[split]),
            changed=dict(tally.changed[split]),
            perceptual_hashes=near_duplicates.pack(tally.hashes[split]),
        )


def _all_at_once(keyed: Keyed) -> Callable[[TFRecordWriter, Numbers], None]:
    """Returns what writes some of the records."""
    framed = frame_batch(keyed.entries.records().array)
    return lambda file, mine: file.write_framed(framed.take(pa.array(mine)))


def _with_images(keyed: Keyed, image: str, pictures: Sequence[bytes]) -> Callable[[TFRecordWriter, Numbers], None]:
    """Returns what writes some of the records, their images from where they are."""
    around = keyed.entries.around(image, np.fromiter(map(len, pictures), np.int64, len(pictures)))
    records = list(zip(around[0].rows(), pictures, around[1].rows(), strict=True))
    return lambda file, mine: file.write(records[index] for index in mine.tolist())


_NO_SHARD = ShardReport("", "", 0, 0, "", {}, {}, {}, ())


def _refused(part: Range, bad: BadRow, with_raw: bool) -> Quarantined:
    return Quarantined.of(printable(part.path), bad.reason, bad.position, bad.raw if with_raw else b"")


def _name(label: object) -> str:
    """Returns a class as text; truth as other programs write it."""
    if isinstance(label, bytes):
        return label.decode("utf-8", "backslashreplace")
    return str(label).lower() if isinstance(label, bool) else str(label)
