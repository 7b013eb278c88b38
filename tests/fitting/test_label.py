"""Labels: classes get indices by descending frequency, quantities get moments; both are counted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.fitting import label
from components.fitting.fitted import Fitted, label_counts
from components.settings.transform import Transform

pytestmark = pytest.mark.slow  # starts Beam

CLASSES = ["b", "two\nlines", "b", "\\n", "b", "two\nlines"]
QUANTITIES = [1.0, 2.0, 3.0, 6.0, 3.0, 3.0]


@pytest.fixture(scope="module")
def fitted(fit: Callable[..., dict[str, str]]) -> dict[str, Fitted]:
    """A class, a quantity, and a constant quantity."""
    columns = {"class": CLASSES, "quantity": QUANTITIES, "flat": [5.0] * 6}
    ways = {name: _fit_by(name) for name in columns}
    return {name: Fitted(graph, Transform()) for name, graph in fit(columns, ways).items()}


def _fit_by(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda inputs: label.fit(inputs[name], name, "class" if name == "class" else "quantity")


class TestClasses:
    """Class names become class indices."""

    def test_class_names_are_those_of_the_data(self, fitted: dict[str, Fitted]) -> None:
        """The most frequent first, with line breaks."""
        assert fitted["class"].classes() == ["b", "two\nlines", "\\n"]

    def test_counts_are_in_the_same_order(self, fitted: dict[str, Fitted]) -> None:
        """Class weights are computed from them."""
        assert fitted["class"].class_counts() == [3, 2, 1]

    def test_indices_are_positions_in_the_list(self, fitted: dict[str, Fitted]) -> None:
        """A8: an unknown class is -1, which stops the reader."""
        found = fitted["class"].apply({"class": tf.constant(["\\n", "b", "\n", "", "two", "two\nlines"])})

        assert found["class"].dtype == tf.int64
        assert found["class"].numpy().tolist() == [2, 0, -1, -1, -1, 1]


class TestQuantities:
    """Quantities stay numbers."""

    def test_moments_are_those_of_the_values(self, fitted: dict[str, Fitted]) -> None:
        """The standard deviation is that of the population."""
        np.testing.assert_allclose(fitted["quantity"].quantity("quantity"), (3.0, float(np.std(QUANTITIES))), rtol=1e-6)

    def test_a_constant_quantity_has_a_deviation_of_zero(self, fitted: dict[str, Fitted]) -> None:
        """The Trainer rejects it."""
        assert fitted["flat"].quantity("flat") == (5.0, 0.0)

    def test_values_are_unchanged(self, fitted: dict[str, Fitted]) -> None:
        """They keep the label's unit."""
        found = fitted["quantity"].apply({"quantity": tf.constant([0.5, -7.0])})["quantity"]

        assert (found.dtype, found.numpy().tolist()) == (tf.float32, [0.5, -7.0])

    def test_there_are_no_classes(self, fitted: dict[str, Fitted]) -> None:
        """A label without classes is a quantity."""
        assert fitted["quantity"].classes() == []

    def test_all_records_are_counted(self, fitted: dict[str, Fitted]) -> None:
        """A16: the ledger compares the count with the train split."""
        assert sum(label_counts(fitted["quantity"]._output).values()) == len(QUANTITIES)
