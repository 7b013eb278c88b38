"""Why records were set aside: how often each reason was given, and where first."""

from collections import Counter
from dataclasses import dataclass, field

_MOST = 1000  # reasons that are told apart; some name a value, and so every one of them is new
OTHER = "other reasons"


@dataclass
class Reasons:
    """Counts reasons in bounded memory."""

    total: int = 0
    _counts: Counter[str] = field(default_factory=Counter)
    _places: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, place: str) -> None:
        """Notes one record that was set aside."""
        self.total += 1
        if reason not in self._counts and len(self._counts) >= _MOST:
            reason = OTHER
        self._counts[reason] += 1
        self._places.setdefault(reason, place)

    def most_common(self, count: int) -> list[tuple[str, int, str]]:
        """Returns the most frequent reasons: reason, records, the first place."""
        return [(reason, records, self._places[reason]) for reason, records in self._counts.most_common(count)]
