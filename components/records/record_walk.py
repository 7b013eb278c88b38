"""TFRecord files walked from record to record, in plain Python: to count them, and to tell intact ones from others.

    length (8) │ checksum of the length (4) │ data │ checksum of the data (4)

After a damaged length the next record is searched for: one flipped bit costs one record, wherever it is.
"""

import contextlib
import gzip
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import numpy as np

from components.errors import BadInput

_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_FRAME = _HEADER.size + _FOOTER.size  # bytes of a record that are not data
_WINDOW = 1 << 22  # bytes searched at once for the next record
_GZIP, _STEP = 16 + zlib.MAX_WBITS, 1 << 10


@dataclass(frozen=True)
class Fault:
    """One place in a file, and what is wrong there."""

    offset: int  # in bytes; of a gzip file, in what is packed into it
    reason: str


def count_records(path: Path) -> int:
    """Returns how many records a TFRecord file of anybody's holds, by their lengths alone."""
    records = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while header := file.read(_HEADER.size):
            length = _length(header, 0)
            if length is None:
                raise BadInput(f"{path}: the header of record {records + 1:,} is damaged, or it is no TFRecord")
            file.seek(length + _FOOTER.size, os.SEEK_CUR)
            records += 1
    return records


def walk(data: bytes) -> tuple[list[bytes], list[Fault]]:
    """Returns the intact records, and where the others are."""
    intact: list[bytes] = []
    faults: list[Fault] = []
    at = 0
    while at < len(data):
        length = _length(data, at)
        end = at + _FRAME + (length or 0)
        if length is None or end > len(data):
            faults.append(Fault(at, _broken(data, at, length)))
            at = _next_record(data, at + 1)
        else:
            if _is_intact(data, at, end):
                intact.append(data[at:end])
            else:
                faults.append(Fault(at, "the checksum of a record does not match its data"))
            at = end
    return intact, faults


def unpack(content: bytes) -> tuple[bytes, list[Fault]]:
    """Returns as much of a gzip stream as can be had."""
    unpacker, data = zlib.decompressobj(_GZIP), b""
    try:
        data = unpacker.decompress(content)
    except zlib.error as error:
        # By small steps: what precedes the damage is still good.
        unpacker, pieces = zlib.decompressobj(_GZIP), []
        with contextlib.suppress(zlib.error):
            for at in range(0, len(content), _STEP):
                pieces.append(unpacker.decompress(content[at : at + _STEP]))  # noqa: PERF401 - it may end half way
        data = b"".join(pieces)
        return data, [Fault(len(data), f"its gzip stream is damaged ({error})")]
    return data, [] if unpacker.eof else [Fault(len(data), "its gzip stream ends before its trailer")]


def _broken(data: bytes, at: int, length: int | None) -> str:
    if len(data) - at < _HEADER.size:
        return "is cut off within the header of a record"
    return "a record's header is damaged" if length is None else "is cut off within a record"


def _length(data: bytes, at: int) -> int | None:
    """Returns the length of the record that begins there; None if none does."""
    if len(data) - at < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack_from(data, at)
    return int(length) if _masked(data[at : at + 8]) == checksum else None


def _is_intact(data: bytes, at: int, end: int) -> bool:
    return bool(
        _masked(data[at + _HEADER.size : end - _FOOTER.size]) == _FOOTER.unpack_from(data, end - _FOOTER.size)[0]
    )


def _next_record(data: bytes, at: int) -> int:
    """Returns where the next whole record begins, at `at` or after it; the end if there is none."""
    every = np.frombuffer(data, np.uint8)
    for start in range(at, len(data) - _FRAME + 1, _WINDOW):
        window = every[start : start + _WINDOW + _HEADER.size]
        # A length is below 4 GB: its upper half is nought. So little data looks so that the rest is tried one by one.
        high = np.lib.stride_tricks.sliding_window_view(window[4:-4], 4)
        low = np.lib.stride_tricks.sliding_window_view(window[:-8], 4)
        for place in np.flatnonzero(~high.any(axis=1) & low.any(axis=1)).tolist():
            length = _length(data, start + place)
            end = start + place + _FRAME + (length or 0)
            if length is not None and end <= len(data) and _is_intact(data, start + place, end):
                return int(start + place)
    return len(data)


def _masked(data: bytes) -> int:
    """Returns a checksum as TFRecord stores it: rotated and shifted, lest a checksum be taken of itself."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
