"""Names that identify a weight, and the rows or columns in it, from one training to the next.

Keras counts automatic names up per process, and vocabularies are ordered by frequency: neither an index nor an
automatic name means the same after the next training. A warm start compares these names instead.
"""

import re
from dataclasses import dataclass

from components.storage.hashing import digest_of

Name = str | tuple[str | int, ...]  # a token or class, or a tuple for anything else


@dataclass(frozen=True)
class AxisNames:
    """The meaning of each index along one axis of a weight."""

    axis: int
    names: tuple[Name, ...]


def layer_name(kind: str, column: str) -> str:
    """Returns the prefix of the names of a column's layers; TensorFlow allows only some characters."""
    plain = re.sub(r"\W", "_", column, flags=re.ASCII)
    return f"{kind}_{plain}" if plain == column else f"{kind}_{plain}_{digest_of([column])[:8]}"
