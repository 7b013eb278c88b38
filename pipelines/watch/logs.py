"""Reads the log of a run, also while it grows."""

import codecs
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PAUSE = 0.5  # seconds between two reads of a growing file
_CHUNK = 1 << 20


def read(file: Path) -> Iterator[str]:
    """Returns the text of a file as it is now, in parts."""
    return follow(file, lambda: False)


def follow(file: Path, is_running: Callable[[], bool], pause: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Yields the text of a file, and what is appended while a run goes on; the file need not exist yet."""
    read_until, decoder = 0, codecs.getincrementaldecoder("utf-8")("replace")  # a character may be cut
    while True:
        goes_on = is_running()  # before the last look: nothing is written after the run has ended
        if file.exists():
            with file.open("rb") as opened:
                opened.seek(read_until)
                while chunk := opened.read(_CHUNK):
                    read_until += len(chunk)
                    yield decoder.decode(chunk)
        if not goes_on:
            if cut := decoder.decode(b"", final=True):
                yield cut
            return
        pause(_PAUSE)
