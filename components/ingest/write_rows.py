"""One range of rows: read, encode, split by content, write a shard for every split it has records of.

range ─► batches of columns ─► encode (all rows at once) ─► fingerprint ─► split ─► TFRecord ─► rename
"""

import contextlib
import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from components import durable
from components.hashing import sha256_of
from components.ingest import columns
from components.ingest.rows import BadRow, Range, RowSource
from components.ingest.sources import Refused, printable
from components.ingest.write import ShardReport
from components.settings import Ingest, Splits

Hashes = npt.NDArray[np.uint64]


def write_range(
    part: Range, shard: str, *, source: RowSource, schema: pa.Schema, data: Path, artifact: Path, settings: Ingest,
    label: str, images: str = "", checks: Path | None = None,
) -> list[ShardReport]:  # fmt: skip
    """Writes the shards of one range and accounts for every row of it."""
    del images, checks
    tally, splits = _Tally(), settings.splits
    with contextlib.ExitStack() as stack:
        writers = _Writers(stack, artifact, shard)
        for batch in source.read(data / part.path, part, schema):
            tally.bad += [_refused(part, bad) for bad in batch.bad]
            tally.read += batch.columns.num_rows + len(batch.bad)
            rows = columns.encode(batch.columns).rows()
            chosen = split_numbers(fingerprints(rows), splits)
            writers.write(rows, chosen, splits)
            tally.count_labels(batch.columns, label, chosen, splits)
    return writers.reports(tally)


def fingerprints(rows: list[bytes]) -> Hashes:
    """Returns 64 bits of each record's content, the same on any machine."""
    if not rows:
        return np.empty(0, np.uint64)
    hashed = tf.fingerprint(tf.constant(rows)[:, tf.newaxis]).numpy()
    return np.ascontiguousarray(hashed).view("<u8").reshape(-1)


def split_numbers(hashes: Hashes, splits: Splits) -> npt.NDArray[np.int64]:
    """Returns the number of each record's split: the same content is always on the same side."""
    salt = np.uint64(int.from_bytes(hashlib.sha256(splits.salt.encode()).digest()[:8], "little"))
    mixed = (hashes ^ salt) * np.uint64(0x9E3779B97F4A7C15)
    places = (mixed >> np.uint64(11)) / float(1 << 53)
    edges = np.cumsum([fraction for _, fraction in splits.fractions()])[:-1]
    return np.searchsorted(edges, places, side="right")


@dataclass
class _Tally:
    """Counts what became of the rows of one range."""

    bad: list[Refused] = field(default_factory=list)
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    read: int = 0

    def count_labels(self, batch: pa.RecordBatch, label: str, chosen: npt.NDArray[np.int64], splits: Splits) -> None:
        if not label:
            return
        labels = batch.column(batch.schema.get_field_index(label)).cast(pa.string())
        for number, (split, _) in enumerate(splits.fractions()):
            counts = pc.value_counts(labels.filter(pa.array(chosen == number)))
            names, sizes = counts.field("values").to_pylist(), counts.field("counts").to_pylist()
            self.labels.setdefault(split, Counter()).update(dict(zip(map(_name, names), sizes, strict=True)))


class _Writers:
    """A TFRecord writer a split, opened when its first record comes; each is published whole."""

    def __init__(self, stack: contextlib.ExitStack, artifact: Path, shard: str) -> None:
        self._stack, self._artifact, self._shard = stack, artifact, shard
        self._open: dict[str, tf.io.TFRecordWriter] = {}
        self._counts: Counter[str] = Counter()

    def write(self, rows: list[bytes], chosen: npt.NDArray[np.int64], splits: Splits) -> None:
        for number, (split, _) in enumerate(splits.fractions()):
            mine = np.flatnonzero(chosen == number).tolist()
            if not mine:
                continue
            writer = self._open.get(split) or self._start(split)
            for index in mine:
                writer.write(rows[index])
            self._counts[split] += len(mine)

    def reports(self, tally: _Tally) -> list[ShardReport]:
        """Returns what was published, when the stack is closed; bad rows are told of with the first shard."""
        made = [self._report(split, tally) for split in self._open]
        first = made[0] if made else _NO_SHARD
        return [replace(first, quarantined=tuple(tally.bad), read=tally.read), *made[1:]]

    def _start(self, split: str) -> tf.io.TFRecordWriter:
        target = self._artifact / self._name(split)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = self._stack.enter_context(durable.publish_file(target))
        self._open[split] = self._stack.enter_context(tf.io.TFRecordWriter(str(aside)))
        return self._open[split]

    def _name(self, split: str) -> str:
        return f"Split-{split}/data_tfrecord-{self._shard}"

    def _report(self, split: str, tally: _Tally) -> ShardReport:
        path = self._artifact / self._name(split)
        return replace(
            _NO_SHARD,
            split=split,
            name=self._name(split),
            records=self._counts[split],
            bytes=path.stat().st_size,
            sha256=sha256_of(path),
            classes=dict(tally.labels.get(split, {})),
        )


_NO_SHARD = ShardReport("", "", 0, 0, "", {}, {}, {}, ())


def _refused(part: Range, bad: BadRow) -> Refused:
    return Refused(printable(part.path), bad.reason, bad.position, bad.raw.decode("utf-8", "backslashreplace"))


def _name(label: str | None) -> str:
    return "" if label is None else label
