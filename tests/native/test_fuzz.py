"""Mutated images under AddressSanitizer, LeakSanitizer and UBSan: no crash, no leak, no difference."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).with_name("fuzz.py")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="the fuzzer is built with g++")
@pytest.mark.parametrize(
    "count", [pytest.param(200, id="short"), pytest.param(20_000, marks=pytest.mark.all, id="long")]
)
def test_mutated_images_are_decoded_or_rejected(count: int) -> None:
    """AVX2 and plain code agree on every record, and so do both Huffman readers and the checker."""
    done = subprocess.run(
        [sys.executable, FUZZ, "--count", str(count)], capture_output=True, text=True, check=False, timeout=600
    )

    assert done.returncode == 0, done.stderr[-3000:]
    kinds = {kind: int(records) for records, kind in (line.split("\t") for line in done.stdout.splitlines())}
    assert sum(kinds.values()) == count
    # Enough records are decoded, enough are rejected because of their coded data, and enough pass the checker.
    assert kinds[""] > count / 10
    assert sum(records for kind, records in kinds.items() if kind.startswith("Corrupt JPEG data")) > count / 25
    assert int(done.stderr.split(" regular")[0].split()[-1]) > count / 25
