"""What was counted in each span, kept for the next Transform: one file per span.

    <root>/.penstock/spans/s00003.bin     {"key": …, "sha256": …}, line break, arrays of integers (npz)

The key is a digest of all that the counts depend on: the content of the span, and code, settings, schema and library
versions of Transform. A file with another key, or another digest than its content, is not used.
"""

import contextlib
import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from components.fitting.analysis.trace import Accumulator
from components.records.spans import SpanShards
from components.storage import durable
from components.storage.hashing import digest_of

_SUFFIX = ".bin"


@dataclass(frozen=True)
class Kept:
    """The folder of what was counted in each span."""

    folder: Path
    fingerprint: str  # of Transform, without its data

    def load(self, span: SpanShards, accumulators: Sequence[Accumulator]) -> str:
        """Fills accumulators with what was counted in a span; returns why not, or nothing.

        A span that is new, or that has changed, needs no reason: its file is absent or has another key.
        """
        try:
            header, _, content = self._file(span).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return "new"
        except OSError as error:
            return f"cannot be read ({error.strerror})"
        try:
            stored = orjson.loads(header)
            key, digest = stored["key"], stored["sha256"]
        except (ValueError, KeyError, TypeError):
            return "is damaged"
        if digest != hashlib.sha256(content).hexdigest():
            return "is damaged"
        if key != self._key(span):
            return "changed"
        load(content, accumulators)
        return ""

    def store(self, span: SpanShards, accumulators: Sequence[Accumulator]) -> None:
        """Stores what was counted in a span."""
        content = dump(accumulators)
        header = {"key": self._key(span), "sha256": hashlib.sha256(content).hexdigest()}
        durable.write_bytes(self._file(span), orjson.dumps(header) + b"\n" + content, private=True)

    def collect(self, spans: Iterable[SpanShards]) -> None:
        """Deletes what belongs to no span of the data, where the disk allows it."""
        present = {self._file(span) for span in spans if span.key}
        for file in self.folder.glob("*") if self.folder.is_dir() else ():
            if file not in present:
                with contextlib.suppress(OSError):
                    durable.remove(file)

    def _file(self, span: SpanShards) -> Path:
        return self.folder / f"{span.name}{_SUFFIX}"

    def _key(self, span: SpanShards) -> str:
        shards = [f"{each.name}\0{each.records}\0{each.bytes}\0{each.checksum}" for each in span.shards]
        return digest_of([self.fingerprint, span.name, span.key, *shards])


def dump(accumulators: Sequence[Accumulator]) -> bytes:
    """Returns the bytes of accumulators."""
    buffer = io.BytesIO()
    arrays = {f"{at}.{name}": each for at, found in enumerate(accumulators) for name, each in found.arrays().items()}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def load(content: bytes, accumulators: Sequence[Accumulator]) -> None:
    """Fills accumulators of the same analyses from the bytes that `dump` returned."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = dict(stored)
    for place, accumulator in enumerate(accumulators):
        prefix = f"{place}."
        accumulator.load({name.removeprefix(prefix): each for name, each in arrays.items() if name.startswith(prefix)})
