"""A Beam CombineFn over batches of rows, for accumulators with the methods add, merge and result."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import apache_beam as beam


class Accumulator(Protocol):
    """Collects rows, in any order and on any number of workers."""

    def add(self, rows: Any) -> None:
        """Adds a matrix of float32."""

    def merge(self, other: Any) -> None:
        """Adds the accumulator of another worker."""

    def result(self) -> Any:
        """Returns the result for all rows."""


class CombineRows(beam.CombineFn):
    """Combines batches, each in a tuple of one, with the accumulators that `create` returns."""

    def __init__(self, create: Callable[[], Accumulator]) -> None:
        """Takes a function that can be pickled."""
        super().__init__()
        self._create = create

    def create_accumulator(self) -> Accumulator:
        """Returns an empty accumulator."""
        return self._create()

    def add_input(self, accumulator: Accumulator, batch: tuple[Any]) -> Accumulator:
        """Adds a batch."""
        accumulator.add(batch[0])
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        """Merges the accumulators of several workers."""
        first, *others = accumulators
        for other in others:
            first.merge(other)
        return first

    def extract_output(self, accumulator: Accumulator) -> Any:
        """Returns the result."""
        return accumulator.result()
