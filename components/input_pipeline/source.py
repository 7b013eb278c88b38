"""Where records come from. Each source gives them in pools: as stored, or in the order of an epoch.

Shards   serialized records in TFRecord files (`shards.py`)
Listed   rows of arrays in memory, or files of a list: their numbers are shuffled, all of them
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from components.errors import BadInput
from components.input_pipeline.budget import Data, Plan
from components.input_pipeline.sharding import Worker

Spec = Mapping[str, Any]  # tf.io's features by column
Columns = dict[str, Any]
_NUMBER_BYTES = 8


class Source(Protocol):
    """Records, and how they are had."""

    @property
    def data(self) -> Data:
        """How many, and how large."""

    def share(self, worker: Worker) -> "Source":
        """Returns what one worker reads; over all workers it is every record once."""

    def in_order(self, size: int) -> tf.data.Dataset:
        """Returns every record once, as stored, in pools of `size`."""

    def epoch(self, seed: tf.Tensor, plan: Plan, *, exact: bool, drop: bool) -> tf.data.Dataset:
        """Returns every record once, in the order that the seed tells; `drop` leaves out a pool that is not full."""

    def parse(self, pool: Any, spec: Spec, record_id: str) -> tuple[Columns, tf.Tensor]:
        """Returns the columns of a pool, and int64 [n] that names its records."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Records that are had by their numbers."""

    rows: Callable[[tf.Tensor], Columns]  # numbers to columns
    numbers: Any  # int64 [n]
    record_bytes: int  # in the mean

    @property
    def data(self) -> Data:
        """How many, and how large."""
        return Data(len(self.numbers), self.record_bytes * len(self.numbers))

    def share(self, worker: Worker) -> "Listed":
        """Returns every n-th record."""
        return Listed(self.rows, self.numbers[worker.index :: worker.count], self.record_bytes)

    def in_order(self, size: int) -> tf.data.Dataset:
        """Returns their numbers."""
        return tf.data.Dataset.from_tensor_slices(self.numbers).batch(size)

    def epoch(self, seed: tf.Tensor, plan: Plan, *, exact: bool, drop: bool) -> tf.data.Dataset:
        """Returns their numbers, shuffled all at once: they take no room."""
        del exact
        data = tf.data.Dataset.from_tensor_slices(self.numbers)
        return shuffled(data, len(self.numbers), seed).batch(plan.pool, drop)

    def parse(self, pool: tf.Tensor, spec: Spec, record_id: str) -> tuple[Columns, tf.Tensor]:
        """Fetches the rows; a record is named by its number."""
        del spec, record_id
        return self.rows(pool), pool


def arrays(columns: Mapping[str, Any]) -> Listed:
    """Returns the rows of arrays of one length."""
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) != 1 or not next(iter(lengths.values())):
        raise BadInput(f"arrays of {lengths} rows; expected one length for all, of 1 or more")
    held = {key: tf.convert_to_tensor(column) for key, column in columns.items()}
    return Listed(lambda numbers: _picked(held, numbers), np.arange(next(iter(lengths.values()))), _NUMBER_BYTES)


def files(key: str, paths: Sequence[Path], columns: Mapping[str, Any]) -> Listed:
    """Returns the contents of files under `key`, beside columns of as many rows."""
    names = tf.constant([str(path) for path in paths])
    held = {name: tf.convert_to_tensor(column) for name, column in columns.items()}
    mean = sum(path.stat().st_size for path in paths) // max(1, len(paths))

    def rows(numbers: tf.Tensor) -> Columns:
        return {key: tf.map_fn(tf.io.read_file, tf.gather(names, numbers)), **_picked(held, numbers)}

    return Listed(rows, np.arange(len(paths)), mean)


def shuffled(data: tf.data.Dataset, buffer: int, seed: tf.Tensor) -> tf.data.Dataset:
    """Shuffles by the seed that is given and by nothing else. To be called where a function of tf.data is traced."""
    # A program's global seed would have a say otherwise; inside a function this sets the seed of its graph alone.
    tf.compat.v1.set_random_seed(1)
    return data.shuffle(buffer, seed=seed, reshuffle_each_iteration=False)


def _picked(columns: Mapping[str, tf.Tensor], numbers: tf.Tensor) -> Columns:
    return {key: tf.gather(column, numbers) for key, column in columns.items()}
