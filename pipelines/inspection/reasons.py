"""Counts why records were rejected, in bounded memory."""

from collections import Counter
from dataclasses import dataclass, field

OTHER = "other reasons"
_LIMIT = 1000  # distinct reasons; some contain a value, so each of them is new


@dataclass
class Reasons:
    """The number of records for each reason, and the first place of each."""

    total: int = 0
    _counts: Counter[str] = field(default_factory=Counter)
    _places: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, place: str) -> None:
        """Counts one rejected record."""
        self.total += 1
        if reason not in self._counts and len(self._counts) >= _LIMIT:
            reason = OTHER
        self._counts[reason] += 1
        self._places.setdefault(reason, place)

    def most_common(self, count: int) -> list[tuple[str, int, str]]:
        """Returns the most frequent reasons: reason, records, first place."""
        return [(reason, records, self._places[reason]) for reason, records in self._counts.most_common(count)]
