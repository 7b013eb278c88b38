"""Identifies each row by its content: 64 bits, from which its split and its id follow.

    columns ─┬─ all but label and ids ─► content ─┬─► split: equal contents are always in one split
             │                                    └─► id: seeds the augmentation of the record
             └─ label ─► equal contents with different labels are found

If rows refer to images, the image decides the split instead, so that all rows of an image are in one split. If
the user names a column (`ingest.split_by`), that column does, so that all rows of one patient are in one split; a row
without a value in that column is split by its content.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from components.ingest.write import shards
from components.ingest.write.encode_columns import EncodedColumns, EncodedRows, encode_columns
from components.ingest.write.strata import Strata
from components.settings.splits import Splits

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ColumnRoles:
    """Names of the columns that have a role; empty if there is none."""

    label: str
    split_by: str
    id: str  # our own column of record ids
    path: str = ""  # of the image that a row refers to, which does not go into the record
    image: str = ""  # name of the image in the record
    left_out: tuple[str, ...] = ()  # columns that do not identify a record, such as ids; see survey/identity.py


@dataclass(frozen=True)
class KeyedRows:
    """Encoded rows, with what identifies each of them."""

    columns: EncodedColumns  # with the id, still without the image
    contents: Hashes  # of all columns that identify a record
    labels: Hashes
    places: Hashes  # in the hash space, from which the splits follow
    splits: Numbers  # index of each row's split in SPLITS


def key(
    batch: pa.RecordBatch,
    roles: ColumnRoles,
    splits: Splits,
    images: Sequence[str] = (),
    strata: Strata | None = None,
) -> KeyedRows:
    """Encodes a batch, each column once, and identifies its rows.

    Args:
        batch: the columns, without images.
        roles: which column is what.
        splits: fractions and salt.
        images: sha256 of the image that each row refers to; it represents the image.
        strata: of stratified splits.
    """
    separate = [roles.label, roles.split_by, roles.id, roles.image, *roles.left_out]
    columns = encode_columns(batch, separate, roles.path or None)
    whole = columns.with_column(roles.image, pa.array(images, pa.string())) if images else columns
    only_label = batch.schema.names == [roles.label] and not images
    leave_out = [*roles.left_out, *([roles.label] if roles.label and not only_label else ())]
    contents = fingerprints(whole.without(leave_out) if leave_out else whole.records())
    if images and not roles.split_by:
        places = np.array([shards.place_of(sha256, splits.salt) for sha256 in images], np.uint64)
    else:
        places = _places(_split_keys(batch, columns, roles, contents), splits.salt)
    labels = _labels(columns, roles)
    chosen = strata.split_numbers(places, labels) if strata else split_numbers(places, splits)
    ids = pa.array((contents >> np.uint64(1)).view(np.int64))
    return KeyedRows(columns.with_column(roles.id, ids), contents, labels, places, chosen)


def fingerprints(rows: EncodedRows) -> Hashes:
    """Returns 64 bits of each row's content, the same on any machine."""
    if not len(rows):
        return np.empty(0, np.uint64)
    hashed = tf.fingerprint(rows.array.to_numpy(zero_copy_only=False).reshape(-1, 1)).numpy()
    return np.ascontiguousarray(hashed).view("<u8").reshape(-1)


def _labels(columns: EncodedColumns, roles: ColumnRoles) -> Hashes:
    """Returns 64 bits of each row's label."""
    if not roles.label:
        return np.zeros(columns.rows, np.uint64)
    distinct, which = _distinct(columns.only(roles.label))
    return fingerprints(distinct)[which]


def _distinct(rows: EncodedRows) -> tuple[EncodedRows, Numbers]:
    found = rows.array.dictionary_encode()
    return EncodedRows(found.dictionary), found.indices.to_numpy()


def split_numbers(places: Hashes, splits: Splits) -> Numbers:
    """Returns the index of each row's split in SPLITS, by its place in the hash space."""
    edges = np.cumsum([fraction for _, fraction in splits.fractions()])[:-1]
    return np.searchsorted(edges, (places >> np.uint64(11)) / float(1 << 53), side="right")


def _places(hashes: Hashes, salt: str) -> Hashes:
    mask = np.uint64(int.from_bytes(hashlib.sha256(salt.encode()).digest()[:8], "little"))
    places: Hashes = (hashes ^ mask) * np.uint64(0x9E3779B97F4A7C15)
    return places


def _split_keys(batch: pa.RecordBatch, columns: EncodedColumns, roles: ColumnRoles, contents: Hashes) -> Hashes:
    if not roles.split_by:
        return contents
    present = batch.column(batch.schema.get_field_index(roles.split_by)).is_valid().to_numpy(zero_copy_only=False)
    distinct, which = _distinct(columns.only(roles.split_by))
    return np.where(present, fingerprints(distinct)[which], contents)
