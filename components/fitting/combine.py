"""A Beam CombineFn over batches of rows, for any accumulator with the methods add, merge and result."""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam


class CombineRows(beam.CombineFn):
    """Combines matrices, each in a tuple of one, with the accumulators that `create` returns."""

    def __init__(self, create: Callable[[], Any]) -> None:
        """Takes a function that can be pickled."""
        super().__init__()
        self._create = create

    def create_accumulator(self) -> Any:
        """Returns an empty accumulator."""
        return self._create()

    def add_input(self, accumulator: Any, batch: tuple[Any]) -> Any:
        """Adds a matrix of float32."""
        accumulator.add(batch[0])
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """Merges the accumulators of several workers."""
        first, *others = accumulators
        for other in others:
            first.merge(other)
        return first

    def extract_output(self, accumulator: Any) -> Any:
        """Returns the result for all rows."""
        return accumulator.result()
