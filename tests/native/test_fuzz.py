"""Twenty thousand images that were tampered with: no crash, no leak, no byte out of place."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).with_name("fuzz.py")
COUNT = 20_000


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="the fuzzer is built with g++")
def test_tampered_images_are_decoded_or_refused() -> None:
    """Under AddressSanitizer, LeakSanitizer and UBSan; vectors and plain code agree, and both Huffman readers."""
    done = subprocess.run(
        [sys.executable, FUZZ, "--count", str(COUNT)], capture_output=True, text=True, check=False, timeout=600
    )

    assert done.returncode == 0, done.stderr[-3000:]
    kinds = {kind: int(count) for count, kind in (line.split("\t") for line in done.stdout.splitlines())}
    assert sum(kinds.values()) == COUNT
    # Enough get through to the pixels, and enough are stopped amid their data.
    assert kinds[""] > COUNT / 10
    assert sum(count for kind, count in kinds.items() if kind.startswith("Corrupt JPEG data")) > COUNT / 20
    assert int(done.stderr.split(" regular")[0].split()[-1]) > COUNT / 20  # to the checker of ingest
