"""The ledger: records in = records out + quarantined, for every node that reads records."""

from dataclasses import asdict, dataclass
from typing import Any

from components.errors import LedgerMismatch


@dataclass(frozen=True)
class Entry:
    """Records that one node received, wrote and quarantined."""

    node: str
    records_in: int
    records_out: int
    quarantined: int = 0

    @property
    def balanced(self) -> bool:
        """Whether no record was lost or added."""
        return self.records_in == self.records_out + self.quarantined

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


def check(entry: Entry) -> Entry:
    """Returns the entry; raises LedgerMismatch if records were lost or added."""
    if not entry.balanced:
        difference = entry.records_in - entry.records_out - entry.quarantined
        raise LedgerMismatch(
            f"{entry.node}: {abs(difference)} records {'lost' if difference > 0 else 'too many'}\n"
            f"  in          {entry.records_in:>12,}\n"
            f"  out         {entry.records_out:>12,}\n"
            f"  quarantined {entry.quarantined:>12,}\n"
            "expected in = out + quarantined; nothing after this node was run"
        )
    return entry
