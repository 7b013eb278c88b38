"""One modality a file. Each is a frozen dataclass with the same methods.

of(settings, data)      the feature as the settings and the shape of the data want it
spec()                  how it stands in a record
decode(value)           deterministic; the one function that training, evaluation and serving share, so no skew
augment(value, seed)    random, training only, stateless: the seed is passed in
keras_input(name)       what the model receives
"""

from typing import Protocol


class DataShape(Protocol):
    """What a feature may take from the data; ingest's account has it."""

    @property
    def median_side(self) -> int:
        """Shorter side of a picture in pixels."""
