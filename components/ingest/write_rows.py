"""One range of rows: read, fill in pictures, split by content, encode, write a shard for every split it has records of.

range ─► batches of columns ─► pictures ─► keys and records (all rows at once) ─► TFRecord ─► rename
                                             └─► fingerprints beside it, for duplicates
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from components import durable
from components.errors import SettingsError
from components.hashing import sha256_of
from components.ingest import infer, keys
from components.ingest.duplicates import Notes
from components.ingest.keys import Keyed, Roles
from components.ingest.pictures import Filled, Pictures
from components.ingest.rows import BadRow, Range, RowBatch, RowSource
from components.ingest.sources import Refused, printable
from components.ingest.write import ShardReport
from components.places import DataPath
from components.settings import SPLITS, Ingest

# Measured on a table: half the time of level 6, for a tenth more bytes. The header has no time in it.
_PACKED = tf.io.TFRecordOptions(compression_type="GZIP", compression_level=4)
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
    del checks
    roles = _roles(schema, settings, label, images)
    tally = _Tally(part, label if label and _has_classes(schema.field(label)) else "")
    with contextlib.ExitStack() as stack:
        fill = stack.enter_context(Pictures(part, images, schema, data, settings)).fill if images else _as_it_is
        writers = _Writers(stack, artifact, shard, gzip=settings.compression == "gzip" and not images)
        for batch in source.read(data / part.path, part, schema):
            tally.note_bad(batch.bad)
            for rows in fill(batch):
                keyed = keys.key(rows.columns, roles, settings.splits, [shot.sha256 for shot in rows.shots])
                writers.write(keyed)
                tally.note(rows, keyed)
    return writers.reports(tally)


def _roles(schema: pa.Schema, settings: Ingest, label: str, images: str) -> Roles:
    if label and label == images:
        raise SettingsError(f"column {label!r} cannot be both the label and the path of an image; set ingest.label")
    split_by = settings.split_by and infer.known(schema, settings.split_by, "split_by")
    # The path has become a picture, which decides about the split anyway.
    return Roles(label, "" if split_by == images else split_by, infer.record_schema(schema, images).names[-1])


def _as_it_is(batch: RowBatch) -> Iterator[Filled]:
    yield Filled(batch.columns)


def _has_classes(label: pa.Field) -> bool:
    """Whether a label names a class: a number with a fraction is a quantity."""
    return not (infer.is_list(label.type) or infer.is_tensor(label) or pa.types.is_floating(label.type))


@dataclass
class _Tally:
    """Counts what became of the rows of one range."""

    part: Range
    label: str  # column whose values are counted, or empty
    bad: list[Refused] = field(default_factory=list)
    read: int = 0
    classes: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})
    sides: dict[str, Counter[int]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})
    changed: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})
    known: set[str] = field(default_factory=set)

    def note_bad(self, bad: Sequence[BadRow]) -> None:
        """Counts rows that cannot become records."""
        self.read += len(bad)
        self.bad += [_refused(self.part, row, len(self.bad) + place < _RAWS) for place, row in enumerate(bad)]

    def note(self, rows: Filled, keyed: Keyed) -> None:
        """Counts rows that were written, and those whose picture is bad."""
        self.note_bad(rows.bad)
        self.read += rows.columns.num_rows
        if self.label:
            self._count_classes(rows.columns.column(rows.columns.schema.get_field_index(self.label)), keyed.splits)
        for shot, number in zip(rows.shots, keyed.splits.tolist() if rows.shots else (), strict=True):
            self.sides[SPLITS[number]][shot.record.side] += 1
            if shot.record.changed:
                self.changed[SPLITS[number]][shot.record.changed] += 1

    def _count_classes(self, labels: pa.Array, splits: npt.NDArray[np.int64]) -> None:
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
    """A TFRecord writer a split, opened when its first record comes; each is published whole."""

    def __init__(self, stack: contextlib.ExitStack, artifact: Path, shard: str, *, gzip: bool) -> None:
        self._stack, self._artifact = stack, artifact
        self._end, self._options = f"{shard}.gz" if gzip else shard, _PACKED if gzip else None
        self._open: dict[str, tuple[tf.io.TFRecordWriter, Notes]] = {}
        self._counts: Counter[str] = Counter()

    def write(self, keyed: Keyed) -> None:
        rows = keyed.records.rows()
        for number, split in enumerate(SPLITS):
            mine = np.flatnonzero(keyed.splits == number)
            if not len(mine):
                continue
            writer, notes = self._open.get(split) or self._start(split)
            for index in mine.tolist():
                writer.write(rows[index])
            notes.add(keyed.contents[mine], keyed.labels[mine])
            self._counts[split] += len(mine)

    def reports(self, tally: _Tally) -> list[ShardReport]:
        """Returns what was published, when the stack is closed; bad rows are told of with the first shard."""
        made = [self._report(split, tally) for split in self._open]
        first = made[0] if made else _NO_SHARD
        return [replace(first, quarantined=tuple(tally.bad), read=tally.read), *made[1:]]

    def _start(self, split: str) -> tuple[tf.io.TFRecordWriter, Notes]:
        target = self._artifact / self._name(split)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = self._stack.enter_context(durable.publish_file(target))
        notes = self._stack.enter_context(Notes(self._artifact, self._name(split)))
        writer = self._stack.enter_context(tf.io.TFRecordWriter(str(aside), self._options))
        self._open[split] = writer, notes
        return self._open[split]

    def _name(self, split: str) -> str:
        return f"Split-{split}/data_tfrecord-{self._end}"

    def _report(self, split: str, tally: _Tally) -> ShardReport:
        path = self._artifact / self._name(split)
        return replace(
            _NO_SHARD,
            split=split,
            name=self._name(split),
            records=self._counts[split],
            bytes=path.stat().st_size,
            sha256=sha256_of(path),
            classes=dict(tally.classes[split]),
            sides=dict(tally.sides[split]),
            changed=dict(tally.changed[split]),
        )


_NO_SHARD = ShardReport("", "", 0, 0, "", {}, {}, {}, ())


def _refused(part: Range, bad: BadRow, with_raw: bool) -> Refused:
    raw = bad.raw.decode("utf-8", "backslashreplace") if with_raw else ""
    return Refused(printable(part.path), bad.reason, bad.position, raw)


def _name(label: object) -> str:
    """Returns a class as text; truth as other programs write it."""
    if isinstance(label, bytes):
        return label.decode("utf-8", "backslashreplace")
    return str(label).lower() if isinstance(label, bool) else str(label)
