"""The two passes over a `preprocessing_fn`: one finds what must be analyzed, the other puts the results in.

    with collecting() as found:   every `result(…)` notes its values, and returns the result of no records
    with applying(folder):        every `result(…)` returns what was fitted, in the same order

Fit functions call `moments.fit`, `quantiles.fit` and `vocabulary.fit`, which call `result`.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from components.errors import SettingsError
from components.storage import durable
from components.storage.location import Location

RESULTS = "results.npz"
Arrays = Mapping[str, NDArray[Any]]


class Accumulator(Protocol):
    """What one analysis has counted."""

    def add(self, *values: Any) -> None:
        """Adds the values of one batch."""

    def merge(self, other: Any) -> None:
        """Adds what another accumulator of the same analysis has counted."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns all that it has counted."""

    def load(self, arrays: Arrays) -> None:
        """Replaces what it has counted by what `arrays` returned."""


class Analysis(Protocol):
    """What is fitted from some values; its `repr` distinguishes it from other analyses."""

    def start(self) -> Any:
        """Returns an accumulator without values."""

    def constant(self, counted: Any) -> NDArray[Any]:
        """Returns the fitted values that the graph holds as a constant."""

    def files(self, counted: Any) -> Mapping[str, bytes]:
        """Returns the fitted files by name."""


@dataclass
class Collected:
    """The analyses of a `preprocessing_fn`, in order, each with the tensors that it reads."""

    analyses: list[Analysis] = field(default_factory=list)
    values: list[tuple[Any, ...]] = field(default_factory=list)
    _results: list[Any] = field(default_factory=list)

    def result(self, analysis: Analysis, values: tuple[Any, ...]) -> Any:
        """Notes an analysis; returns a constant of the right shape."""
        self.analyses.append(analysis)
        self.values.append(values)
        return self.stand_in(tf.constant(analysis.constant(analysis.start())))

    def stand_in(self, value: Any) -> Any:
        """Returns a value in place of one that is not known yet; no analysis may read it."""
        value = tf.identity(value)
        self._results.append(getattr(value, "flat_values", value))
        return value

    def require_independent(self, others: Iterable[Any] = ()) -> None:
        """Raises SettingsError if an analysis reads a result of another one: all are done in one pass.

        Args:
            others: operations in place of the results of analyzers of TensorFlow Transform.
        """
        results = {*(each.op for each in self._results), *others}
        for analysis, values in zip(self.analyses, self.values, strict=True):
            if results & reached(values):
                raise SettingsError(
                    f"{analysis!r} depends on the result of another analysis; expected values of columns alone. "
                    "Only the outer one, which reads the result, can be an analyzer of TensorFlow Transform "
                    "(tft.mean, tft.quantiles …), or both"
                )


@dataclass
class Applied:
    """The fitted results of a `preprocessing_fn`, in order."""

    folder: Location
    results: Sequence[NDArray[Any]]
    place: int = 0

    def result(self, analysis: Analysis, values: tuple[Any, ...]) -> Any:
        """Returns the next result."""
        del analysis, values
        self.place += 1
        with tf.init_scope():
            # Captured, as TensorFlow Transform's results are: a constant in the graph would be folded into reciprocals.
            return tf.constant(self.results[self.place - 1])


_pass: ContextVar[Any] = ContextVar("pass", default=None)


def result(analysis: Analysis, *values: Any) -> Any:
    """Returns the fitted result of an analysis, in the pass of the present context."""
    present = _pass.get()
    if present is None:
        raise RuntimeError(f"{analysis!r} outside of Transform; expected a call from a fit function of a Task")
    return present.result(analysis, values)


def stand_in(value: Any) -> Any:
    """Returns a value in place of one of `folder` while values are collected; no analysis may read it."""
    return _pass.get().stand_in(value)


def folder() -> Location | None:
    """Returns the folder of the fitted files; None while values are collected."""
    present = _pass.get()
    return present.folder if isinstance(present, Applied) else None


@contextmanager
def collecting() -> Iterator[Collected]:
    """Collects the analyses of the fit functions that are called in the block."""
    with using(Collected()) as found:
        yield found


@contextmanager
def applying(results: Location) -> Iterator[None]:
    """Gives the fit functions that are called in the block the results that `write` wrote."""
    with np.load(io.BytesIO((results / RESULTS).read_bytes()), allow_pickle=False) as stored:
        found = [stored[str(place)] for place in range(len(stored.files))]
    with using(Applied(results, found)):
        yield


@contextmanager
def using(present: Any) -> Iterator[Any]:
    """Calls `present.result` for each analysis in the block."""
    token = _pass.set(present)
    try:
        yield present
    finally:
        _pass.reset(token)


def write(target: Location, analyses: Sequence[Analysis], fitted: Sequence[Accumulator]) -> None:
    """Writes the results of all analyses, for `applying`."""
    buffer = io.BytesIO()
    results = {}
    for place, (analysis, counted) in enumerate(zip(analyses, fitted, strict=True)):
        results[str(place)] = analysis.constant(counted)
        for name, content in analysis.files(counted).items():
            durable.write_bytes(target / name, content)
    np.savez(buffer, **results)
    durable.write_bytes(target / RESULTS, buffer.getvalue())


def reached(values: Sequence[Any]) -> set[Any]:
    """Returns the operations that the values depend on."""
    found: set[Any] = set()
    waiting = [value.op for value in values]
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting += [*operation.control_inputs, *(each.op for each in operation.inputs)]
    return found
