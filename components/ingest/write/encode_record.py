"""Serializes one record of single values as tf.train.Example, with the same bytes every time.

A tf.train.Example is a map, and protobuf writes maps in random order: tfx_bsl's C++ encoder gives other bytes in every
process. Here keys are written in sorted order, as protobuf's deterministic mode does.

    Example{1: Features{1: entry{1: key, 2: Feature{1: BytesList{1: …} | 3: Int64List{1: packed …}}} …}}

Every length is known before anything is joined, so an image is not copied: it is a separate part.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

BYTES, FLOATS, INTS = b"\x0a", b"\x12", b"\x1a"  # tags of Feature's three lists
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"  # tags of length-delimited fields
_WORD = 1 << 64
SMALL = 0x80  # smaller numbers take one byte


def example_parts(columns: Mapping[str, bytes | int]) -> list[bytes]:
    """Returns one serialized record in parts; each value of bytes is a separate part."""
    parts: list[bytes] = [b""]
    size = 0
    for key in sorted(columns):
        value = columns[key]
        tag, content = (BYTES, value) if isinstance(value, bytes) else (INTS, varint(value % _WORD))
        head = _cached_head(key.encode(), tag, len(content))
        parts += (head, content)
        size += len(head) + len(content)
    parts[0] = field_head(size)
    return parts


def varint(number: int) -> bytes:
    """Returns a number in protobuf's variable-length encoding."""
    encoded = bytearray()
    while number >= SMALL:
        encoded.append(number & 0x7F | SMALL)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def field_head(size: int) -> bytes:
    """Returns the bytes before a field of `size` bytes."""
    return _FIELD_1 + varint(size)


def entry_head(key: bytes, tag: bytes, size: int, value_head: Callable[[int], bytes] = field_head) -> bytes:
    """Returns the bytes of a map entry before its values of `size` bytes: entry{1: key, 2: Feature{tag: List{…}}}."""
    inner = value_head(size)
    values = tag + varint(len(inner) + size) + inner
    feature = _FIELD_2 + varint(len(values) + size) + values
    entry = field_head(len(key)) + key + feature
    return field_head(len(entry) + size) + entry


_cached_head = lru_cache(maxsize=1024)(entry_head)
