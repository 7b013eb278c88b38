"""Stratified splits: every class gets its share of each split, by the rank of its records' hashes.

    (place, class) of all records ─► sorted within each class ─► the last place of train and of eval, per class
    record ─► place, class ─► compared with the two places of its class ─► split

A place is the salted 64-bit hash that decides the split without stratification too, so equal contents have one place
and one split. The result depends on the set of contents and labels alone: neither on the number of workers nor on the
order of files. About 60 bytes per record are in memory while the ranks are computed.
"""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from components.settings.splits import SPLITS, Splits
from components.storage import durable

if TYPE_CHECKING:
    from components.storage.location import Location

ROW = np.dtype([("place", "<u8"), ("class", "<u8")])
FOLDER, _TABLE = "strata", "table.npz"

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]


@dataclass(frozen=True)
class Strata:
    """Where each class is divided into splits."""

    classes: Hashes  # sorted
    edges: Hashes  # of each class: last place of train, last place of eval
    shared: Hashes  # places of contents with several labels, sorted …
    shared_class: Hashes  # … and the class that each of them counts for

    def split_numbers(self, places: Hashes, classes: Hashes) -> Numbers:
        """Returns the index of each record's split in SPLITS."""
        if len(self.shared):
            at = np.minimum(np.searchsorted(self.shared, places), len(self.shared) - 1)
            classes = np.where(self.shared[at] == places, self.shared_class[at], classes)
        which = np.minimum(np.searchsorted(self.classes, classes), len(self.classes) - 1)
        numbers: Numbers = (places[:, None] > self.edges[which]).sum(axis=1)
        return numbers

    def split_of(self, place: int, number: int) -> str:
        """Returns the split of one record, by its place and the number of its class."""
        found = self.split_numbers(np.array([place], np.uint64), np.array([number], np.uint64))
        return SPLITS[int(found[0])]

    @cached_property
    def digest(self) -> str:
        """Digest of all decisions."""
        parts = (self.classes, self.edges, self.shared, self.shared_class)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

    def save(self, artifact: "Location") -> None:
        """Writes it where all work units find it."""
        with (
            durable.publish_file(artifact / FOLDER / _TABLE, sync=False) as temporary,
            temporary.open("wb") as file,
        ):
            np.savez(file, **asdict(self))

    @staticmethod
    def load(artifact: "Location") -> "Strata":
        """Reads what `save` wrote."""
        with (artifact / FOLDER / _TABLE).open("rb") as file, np.load(file) as stored:
            return Strata(**stored)


def decide(rows: Rows, splits: Splits) -> Strata:
    """Divides each class: its distinct contents are ranked by place, the first ones go to train.

    A content with several labels counts for one of them, so that all its records are in one split.
    """
    rows = np.unique(rows)  # sorted by place, then class
    repeated = np.append(False, rows["place"][1:] == rows["place"][:-1])
    shared = np.unique(rows["place"][repeated])
    rows = rows[~repeated]
    shared_class = rows["class"][np.searchsorted(rows["place"], shared)]
    rows = rows[np.argsort(rows["class"], kind="stable")]
    classes, starts, counts = np.unique(rows["class"], return_index=True, return_counts=True)
    sizes, which = np.unique(counts, return_inverse=True)
    taken = np.cumsum([share(int(size), splits) for size in sizes], axis=1)[which]
    edges = rows["place"][starts[:, None] + taken[:, :-1] - 1] if len(rows) else np.empty((0, len(SPLITS) - 1))
    return Strata(classes, edges.astype(np.uint64), shared, shared_class)


def share(count: int, splits: Splits) -> list[int]:
    """Returns how many of a class's records go to each split.

    By largest remainder; a split that would get none then takes one from the largest, in the order train, eval, test,
    as long as there are records: 1 is (1, 0, 0), 2 is (1, 1, 0), 3 is (1, 1, 1), 10 is (8, 1, 1) with 0.8, 0.1, 0.1.
    """
    wanted = [round(count * fraction, 9) for _, fraction in splits.fractions()]
    shares = [int(each) for each in wanted]
    by_remainder = sorted(range(len(shares)), key=lambda at: (shares[at] - wanted[at], at))
    for at in by_remainder[: count - sum(shares)]:
        shares[at] += 1
    for at in range(min(count, len(shares))):
        if not shares[at]:
            shares[shares.index(max(shares))] -= 1
            shares[at] = 1
    return shares


def class_of(label: str) -> int:
    """Returns the number of a class of files, 64 bits."""
    return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "little")


def as_rows(found: Sequence[tuple[int, int]]) -> Rows:
    """Returns places and classes as rows."""
    return np.array(found, ROW)


def store(artifact: "Location", unit: str, rows: Rows) -> None:
    """Stores place and class of the records of one work unit; a retried bundle stores the same again."""
    with durable.publish_file(_file_of(artifact, unit), sync=False) as temporary, temporary.open("wb") as file:
        np.save(file, rows)


def collect(artifact: "Location", units: Sequence[str]) -> Rows:
    """Returns what all work units stored."""
    return np.concatenate([np.empty(0, ROW), *(_read(_file_of(artifact, unit)) for unit in units)])


def _file_of(artifact: "Location", unit: str) -> "Location":
    return artifact / FOLDER / f"{unit}.npy"


def _read(path: "Location") -> Rows:
    rows: Rows = np.load(io.BytesIO(path.read_bytes()))
    return rows
