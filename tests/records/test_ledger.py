"""Promise A16: records in = records out + quarantined, or the run stops and shows the ledger."""

import contextlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import LedgerMismatch
from components.records.ledger import Entry, check

COUNTS = st.integers(min_value=0, max_value=10**9)


@given(out=COUNTS, quarantined=COUNTS)
def test_an_entry_that_adds_up_passes(out: int, quarantined: int) -> None:
    """The entry is returned."""
    entry = Entry("Ingest", out + quarantined, out, quarantined)

    assert check(entry) is entry


@given(entry=st.builds(Entry, st.just("Ingest"), COUNTS, COUNTS, COUNTS))
def test_an_entry_passes_only_when_it_adds_up(entry: Entry) -> None:
    """There is no tolerance."""
    adds_up = entry.records_in == entry.records_out + entry.quarantined
    with contextlib.nullcontext() if adds_up else pytest.raises(LedgerMismatch):
        check(entry)


def test_lost_records_stop_the_run_and_show_the_ledger() -> None:
    """The message has the node, the difference and all three counts."""
    with pytest.raises(LedgerMismatch) as stopped:
        check(Entry("Ingest", 1_000, 990, 7))

    assert str(stopped.value).splitlines() == [
        "Ingest: 3 records lost",
        "  in                 1,000",
        "  out                  990",
        "  quarantined            7",
        "expected in = out + quarantined; nothing after this node was run",
    ]


def test_added_records_stop_the_run() -> None:
    """More records out than in are an error, too."""
    with pytest.raises(LedgerMismatch, match=r"^Trainer: 2 records too many\n"):
        check(Entry("Trainer", 10, 12))


def test_an_entry_is_stored_as_plain_values() -> None:
    """Metadata can be read without our code."""
    assert orjson.loads(orjson.dumps(Entry("Trainer", 10, 10))) == {
        "node": "Trainer",
        "records_in": 10,
        "records_out": 10,
        "quarantined": 0,
    }
