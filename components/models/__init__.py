"""Keras 3 models: one encoder per modality, one way to join encodings, one head per kind of label.

image       uint8 [side, side, 3]          ─► image.encode  ─┐
token ids   int [length], 0 is padding     ─► text.encode   ─┤                     ┌─► Classification ─► probabilities
tensor      any dtype, any shape           ─► tensor.encode ─┼─► build ─► features ┤
table row   float [k] and category int [m] ─► table.encode  ─┘      (joined.py)    └─► Regression     ─► value
"""

from collections.abc import Sequence
from typing import Any, Protocol

from components.records.roles import Column


class Fitted(Protocol):
    """What an encoder needs to know about the fitted Transform graph (`components.fitting.fitted.Fitted`)."""

    def tokens(self, place: int) -> int:
        """Returns the number of token ids of a text column, out-of-vocabulary buckets included."""

    def categories(self, columns: Sequence[Column]) -> list[int]:
        """Returns the number of ids of each category column."""

    def pretrained_model(self) -> tuple[Any, bool] | None:
        """Returns the pretrained image model and whether it is fine-tuned; None if there is none."""

    def moments(self, column: Column) -> tuple[Any, Any] | None:
        """Returns mean and variance of a tensor column; None if they were not fitted."""
