"""Every work unit and every division of a file must have been reported before a manifest is written."""

from pathlib import Path

import pytest

from components.errors import LedgerMismatch
from components.ingest.close import reports
from components.ingest.sources.rows import Range
from components.ingest.write.report import ShardReport

RANGES = [Range("a.csv", 3, 90, 2, 87), Range("a.csv", 90, 120, 9, 30)]
FILES = {"f00000": "data/a.csv", "f00001": "data/b.csv"}


def test_a_division_is_read_back(tmp_path: Path) -> None:
    """So the pass that writes has the ranges of the pass that counted; a file without rows of its own has none."""
    reports.store_division(tmp_path, "f00000", RANGES)
    reports.store_division(tmp_path, "f00001", [])

    assert reports.divisions(tmp_path, FILES) == [RANGES, []]


def test_a_file_that_no_worker_divided_is_missed(tmp_path: Path) -> None:
    """B16: it would be lost without an error otherwise."""
    reports.store_division(tmp_path, "f00000", RANGES)

    with pytest.raises(LedgerMismatch, match=r"1 of 2 files were not read, such as data/b\.csv"):
        reports.divisions(tmp_path, FILES)


def test_a_range_that_no_worker_wrote_is_missed(tmp_path: Path) -> None:
    """B16: its file was divided, but its shards were not written."""
    reports.store(tmp_path, "range-00000-of-00002", [ShardReport("train", "Split-train/a", 1)])

    with pytest.raises(LedgerMismatch, match="1 of 2 work units were not written, such as range-00001-of-00002"):
        reports.collect(tmp_path, ["range-00000-of-00002", "range-00001-of-00002"])
