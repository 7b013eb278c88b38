"""How well records were shuffled: how far they moved, and whether equal labels still stand together.

    distance   mean way of a record, as a part of all: 0 in stored order, 1/3 after a perfect shuffle
    runs       stretches of equal labels, as a part of what chance gives: 1 when they are mixed, near 0 when sorted

Both are taken of one epoch. Distance suffers when the buffer is small beside the data; runs suffer only if the data is
sorted by label as well, and that is what spoils training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Quality:
    """What a shuffle did to the order of records."""

    distance: float
    runs: float


def measure(order: Sequence[int] | npt.NDArray[Any], labels: Sequence[Any] | npt.NDArray[Any]) -> Quality:
    """Measures one epoch.

    Args:
        order: The stored places of the records, 0 to n - 1, as they came.
        labels: The label of each record, by its stored place.

    Returns:
        Distance and runs.
    """
    places, held = np.asarray(order), np.asarray(labels)
    distance = np.abs(places - np.arange(len(places))).mean() / len(places)
    came = held[places]
    runs = 1 + np.count_nonzero(came[1:] != came[:-1])
    shares = np.unique(held, return_counts=True)[1] / len(held)
    # Of n - 1 neighbours each pair differs with the chance that two records drawn without return do.
    expected = 1 + (len(held) - 1) * (1 - (shares**2).sum()) * len(held) / max(1, len(held) - 1)
    return Quality(float(distance), float(runs / expected))
