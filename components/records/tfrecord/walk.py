"""Reads TFRecord files record by record in plain Python: counts them, and finds damaged ones.

record_ends, count_records   from header to header, without reading the data
records_at                   some of a stream, from header to header
read_records                 a stream; a damaged header ends it, as nothing after it can be located
intact_records               a whole content; after a damaged header the next intact record is searched for
"""

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, NamedTuple

import numpy as np

from components.errors import BadInput
from components.records.quarantine import printable
from components.records.tfrecord.framing import FOOTER, HEADER, OVERHEAD, is_intact, length_of
from components.storage.paths import DataPath

_MAX_RECORD = (1 << 31) - 1  # bytes that protobuf can parse
_WINDOW = 1 << 22  # bytes searched at once for the next record
_GZIP, _STEP = 16 + zlib.MAX_WBITS, 1 << 10


class StoredRecord(NamedTuple):  # one per record; three times as fast as a frozen dataclass
    """A record as a stream holds it."""

    offset: int  # of its header
    data: bytes
    intact: bool


@dataclass(frozen=True)
class Fault:
    """What is wrong at one offset of a file."""

    offset: int  # in bytes; in a gzip file, of the decompressed content
    reason: str


class Unreadable(Exception):
    """A file cannot be read beyond some offset; the message names it."""


@contextlib.contextmanager
def explained(path: DataPath) -> Iterator[None]:
    """Turns errors of reading a file into BadInput with its path."""
    try:
        yield
    except Unreadable as error:
        raise BadInput(f"{printable(str(path))}: {error}") from error
    except (EOFError, OSError, zlib.error) as error:
        raise BadInput(f"{printable(str(path))}: cannot be read: {error}; it may be damaged: write it again") from error


def count_records(path: DataPath) -> int:
    """Returns the number of records in a TFRecord file, plain or `.gz`, by their headers alone."""
    with explained(path):
        if path.suffix == ".gz":
            with path.open("rb") as file, gzip.open(file) as stream:
                return sum(1 for _ in record_ends(stream, None))
        with path.open("rb") as file:
            return sum(1 for _ in record_ends(file, path.stat().st_size))


def record_ends(stream: "IO[bytes] | gzip.GzipFile", size: int | None) -> Iterator[int]:
    """Yields the offset at which each record ends, without reading its data; `size` is that of the stream, if known."""
    offset = 0
    while offset != size:
        head = stream.read(HEADER.size)
        if not head and size is None:
            return
        end = offset + OVERHEAD + _length(head, offset)
        if size is not None and end > size:
            raise _cut_off(offset)
        stream.seek(end - offset - HEADER.size, os.SEEK_CUR)
        offset = end
        yield end


def records_at(stream: "IO[bytes] | gzip.GzipFile", wanted: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Yields index and data of the records with these indices, which ascend; compares the checksums of their data."""
    at = offset = 0
    for index in wanted:
        while at <= index:
            length = _length(stream.read(HEADER.size), offset)
            if at < index:
                stream.seek(length + FOOTER.size, os.SEEK_CUR)
            at, offset = at + 1, offset + OVERHEAD + length
        data, footer = stream.read(length), stream.read(FOOTER.size)
        if not is_intact(data, footer):
            raise Unreadable(f"record {index} is damaged, expected the data of its checksum")
        yield index, data


def read_records(
    stream: "IO[bytes] | gzip.GzipFile", start: int, stop: int | None, most: int = _MAX_RECORD
) -> Iterator[StoredRecord]:
    """Yields the records between two offsets, or up to the end, and compares all checksums; each has `most` bytes."""
    offset = start
    while offset != stop:
        head = stream.read(HEADER.size)
        if not head and stop is None:
            return
        length = _length(head, offset, most)
        data, footer = stream.read(length), stream.read(FOOTER.size)
        if len(footer) < FOOTER.size:
            raise _cut_off(offset)
        yield StoredRecord(offset, data, is_intact(data, footer))
        offset += OVERHEAD + length


def intact_records(data: bytes) -> tuple[list[bytes], list[Fault]]:
    """Returns the intact records of a content, each in its frame, and what is wrong with the others."""
    intact: list[bytes] = []
    faults: list[Fault] = []
    at = 0
    while at < len(data):
        length = length_of(data, at)
        end = at + OVERHEAD + (length or 0)
        if length is None or end > len(data):
            faults.append(Fault(at, _damage(data, at, length)))
            at = _next_record(data, at + 1)
        else:
            if _is_intact(data, at, end):
                intact.append(data[at:end])
            else:
                faults.append(Fault(at, "the checksum of a record does not match its data"))
            at = end
    return intact, faults


def decompress(content: bytes) -> tuple[bytes, list[Fault]]:
    """Returns a gzip stream decompressed as far as possible, and the fault that ended it."""
    stream, data, fault = zlib.decompressobj(_GZIP), bytearray(), "its gzip stream ends before its trailer"
    try:
        for at in range(0, len(content), _STEP):  # in small steps, because zlib drops the step that fails
            data += stream.decompress(content[at : at + _STEP])
    except zlib.error as error:
        fault = f"its gzip stream is damaged ({error})"
    return bytes(data), [] if stream.eof else [Fault(len(data), fault)]


def _length(head: bytes, offset: int, most: int = _MAX_RECORD) -> int:
    if len(head) < HEADER.size:
        raise _cut_off(offset)
    length = length_of(head)
    if length is None:
        reason = "damaged" if offset else "damaged, or this is not a TFRecord file"
        raise Unreadable(f"the record header at byte offset {offset:,} is {reason}; nothing after it can be trusted")
    if length > most:
        limit = (
            "a tf.Example has at most 2 GB" if most == _MAX_RECORD else f"more than ingest.max_row_mb = {most >> 20}"
        )
        raise Unreadable(f"the record at byte offset {offset:,} has {length:,} bytes; {limit}")
    return length


def _cut_off(offset: int) -> Unreadable:
    return Unreadable(f"is cut off within the record at byte offset {offset:,}; write it again")


def _damage(data: bytes, at: int, length: int | None) -> str:
    if len(data) - at < HEADER.size:
        return "is cut off within the header of a record"
    return "a record's header is damaged" if length is None else "is cut off within a record"


def _is_intact(data: bytes, at: int, end: int) -> bool:
    return is_intact(data[at + HEADER.size : end - FOOTER.size], data[end - FOOTER.size : end])


def _next_record(data: bytes, at: int) -> int:
    """Returns where the next intact record starts, at `at` or after it; the end of the data if there is none."""
    every = np.frombuffer(data, np.uint8)
    for start in range(at, len(data) - OVERHEAD + 1, _WINDOW):
        window = every[start : start + _WINDOW + HEADER.size]
        # A length is below 4 GB, so its upper half is zero. That rules out most offsets; the others are tried.
        high = np.lib.stride_tricks.sliding_window_view(window[4:-4], 4)
        low = np.lib.stride_tricks.sliding_window_view(window[:-8], 4)
        for place in np.flatnonzero(~high.any(axis=1) & low.any(axis=1)).tolist():
            length = length_of(data, start + place)
            end = start + place + OVERHEAD + (length or 0)
            if length is not None and end <= len(data) and _is_intact(data, start + place, end):
                return int(start + place)
    return len(data)
