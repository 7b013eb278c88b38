"""Keras 3 models: one encoder a modality, one way to join them, one head a kind of label.

image  uint8 [s, s, 3]              ─► image.encode  ─┐
ids      int [length], 0 is padding   ─► text.encode   ─┤                    ┌─► Classification ─► probabilities
values   any number, any shape        ─► tensor.encode ─┼─► build ─► features ┤
numbers  float [k], categories int [m] ─► table.encode ─┘      (joined.py)    └─► Regression     ─► a value
"""

from collections.abc import Sequence
from typing import Any, Protocol

from components.records.roles import Column


class Fitted(Protocol):
    """What Transform has fitted, as far as a model is built by it (`components.fitting.fitted`)."""

    def tokens(self, place: int) -> int:
        """Returns how many numbers the tokens of a text can have."""

    def categories(self, columns: Sequence[Column]) -> list[int]:
        """Returns how many numbers each column of categories can have."""

    def network(self) -> tuple[Any, bool] | None:
        """Returns a pretrained network for images and whether it learns, if there is one."""

    def moments(self, column: Column) -> tuple[Any, Any] | None:
        """Returns mean and variance of a tensor, if they were asked for."""
