"""The ledger: records in = records out + quarantined, for every node that reads records."""

from dataclasses import dataclass

from components.errors import LedgerMismatch


@dataclass(frozen=True)
class Entry:
    """Records that one node received, wrote and quarantined."""

    node: str
    records_in: int
    records_out: int
    quarantined: int = 0


def check(entry: Entry) -> Entry:
    """Returns the entry; raises LedgerMismatch if records were lost or added."""
    if difference := entry.records_in - entry.records_out - entry.quarantined:
        raise LedgerMismatch(
            f"{entry.node}: {abs(difference)} records {'lost' if difference > 0 else 'too many'}\n"
            f"  in          {entry.records_in:>12,}\n"
            f"  out         {entry.records_out:>12,}\n"
            f"  quarantined {entry.quarantined:>12,}\n"
            "expected in = out + quarantined; nothing after this node was run"
        )
    return entry
