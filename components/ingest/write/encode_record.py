"""Serializes one record of single values as tf.train.Example, with the same bytes every time.

A tf.train.Example is a map, and protobuf writes maps in random order: tfx_bsl's C++ encoder gives other bytes in every
process. Here keys are written in sorted order, as protobuf's deterministic mode does.

    Example{1: Features{1: entry{1: key, 2: Feature{1: BytesList{1: …} | 3: Int64List{1: packed …}}} …}}

Every length is known before anything is joined, so an image is not copied: it is a part of its own.
"""

from collections.abc import Mapping
from functools import lru_cache

_BYTES_LIST, _INT64_LIST = b"\x0a", b"\x1a"  # tags of Feature's fields 1 and 3
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"  # tags of length-delimited fields
_WORD = 1 << 64
_SMALL = 0x80  # smaller numbers take one byte


def example_parts(columns: Mapping[str, bytes | int]) -> list[bytes]:
    """Returns one serialized record in parts; each value of bytes is a part of its own."""
    parts: list[bytes] = [b""]
    size = 0
    for key in sorted(columns):
        value = columns[key]
        tag, content = (_BYTES_LIST, value) if isinstance(value, bytes) else (_INT64_LIST, varint(value % _WORD))
        head = _head(key.encode(), tag, len(content))
        parts += (head, content)
        size += len(head) + len(content)
    parts[0] = _FIELD_1 + varint(size)
    return parts


def varint(number: int) -> bytes:
    """Returns a number in protobuf's variable-length encoding."""
    encoded = bytearray()
    while number >= _SMALL:
        encoded.append(number & 0x7F | _SMALL)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


@lru_cache(maxsize=1024)
def _head(key: bytes, tag: bytes, size: int) -> bytes:
    """Returns the bytes of a map entry that come before its content of `size` bytes."""
    inner = _FIELD_1 + varint(size)  # the one value
    values = tag + varint(len(inner) + size) + inner  # the list
    feature = _FIELD_2 + varint(len(values) + size) + values
    entry = _FIELD_1 + varint(len(key)) + key + feature
    return _FIELD_1 + varint(len(entry) + size) + entry
