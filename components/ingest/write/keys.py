"""What tells records apart: 64 bits of their content, and the split that follows from them.

    columns ─┬─ all but the label ─► content ─┬─► split: the same content is always on the same side
             │                                └─► id: seeds the record's augmentation, wherever it stands
             └─ label ─► the same content under two labels can be told

The split follows from the image instead, if rows refer to one, so that all rows of a image are on one side; or
from the column that the user names, so that all rows of one patient are. A row without a value in that column is
split by its content.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from components.ingest.work import shards
from components.ingest.write.encode_columns import Encoded, Entries, entries
from components.settings.splits import SPLITS, Splits

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Roles:
    """What columns are for; empty where there is none."""

    label: str
    split_by: str
    id: str  # our own column of record ids
    path: str = ""  # of the image that a row refers to, which does not go into the record, …
    image: str = ""  # … and what the image is called there


@dataclass(frozen=True)
class Keyed:
    """Rows, and what tells them apart."""

    entries: Entries  # with the id; the image is still to come
    contents: Hashes  # of all but the label
    labels: npt.NDArray[np.uint32]
    splits: Numbers  # place of each record's split in SPLITS


def key(batch: pa.RecordBatch, roles: Roles, splits: Splits, images: Sequence[str] = ()) -> Keyed:
    """Encodes a batch, each column once.

    Args:
        batch: the columns; images come later.
        roles: what they are for.
        splits: fractions and salt.
        images: sha256 of the file that each row refers to, which stands for the image.
    """
    parts = entries(batch, [roles.label, roles.split_by, roles.id, roles.image], roles.path or None)
    whole = parts.with_column(roles.image, pa.array(images, pa.string())) if images else parts
    alone = not roles.label or (batch.schema.names == [roles.label] and not images)
    contents = fingerprints(whole.records() if alone else whole.without(roles.label))
    if images and not roles.split_by:
        chosen = np.array([SPLITS.index(shards.split_of(sha256, splits)) for sha256 in images], np.int64)
    else:
        chosen = split_numbers(_split_keys(batch, parts, roles, contents), splits)
    ids = pa.array((contents >> np.uint64(1)).view(np.int64))
    return Keyed(parts.with_column(roles.id, ids), contents, _labels(parts, roles), chosen)


def fingerprints(rows: Encoded) -> Hashes:
    """Returns 64 bits of each row's content, the same on any machine."""
    if not len(rows):
        return np.empty(0, np.uint64)
    hashed = tf.fingerprint(rows.array.to_numpy(zero_copy_only=False).reshape(-1, 1)).numpy()
    return np.ascontiguousarray(hashed).view("<u8").reshape(-1)


def _labels(parts: Entries, roles: Roles) -> npt.NDArray[np.uint32]:
    """Returns 32 bits of each row's label: enough to tell two labels of one content apart."""
    if not roles.label:
        return np.zeros(parts.rows, np.uint32)
    distinct, which = _distinct(parts.only(roles.label))
    return np.fromiter(map(google_crc32c.value, distinct.rows()), np.uint32, len(distinct))[which]


def _distinct(rows: Encoded) -> tuple[Encoded, Numbers]:
    found = rows.array.dictionary_encode()
    return Encoded(found.dictionary), found.indices.to_numpy()


def split_numbers(hashes: Hashes, splits: Splits) -> Numbers:
    """Returns the number of each record's split: the same content is always on the same side."""
    salt = np.uint64(int.from_bytes(hashlib.sha256(splits.salt.encode()).digest()[:8], "little"))
    mixed = (hashes ^ salt) * np.uint64(0x9E3779B97F4A7C15)
    places = (mixed >> np.uint64(11)) / float(1 << 53)
    edges = np.cumsum([fraction for _, fraction in splits.fractions()])[:-1]
    return np.searchsorted(edges, places, side="right")


def _split_keys(batch: pa.RecordBatch, parts: Entries, roles: Roles, contents: Hashes) -> Hashes:
    if not roles.split_by:
        return contents
    present = batch.column(batch.schema.get_field_index(roles.split_by)).is_valid().to_numpy(zero_copy_only=False)
    distinct, which = _distinct(parts.only(roles.split_by))
    return np.where(present, fingerprints(distinct)[which], contents)
