"""Columns to serialized tf.Examples, with the same bytes every time.

A tf.Example is a map, and protobuf writes maps in random order: tfx_bsl's C++ encoder gives other bytes in every
process. Here keys are written in their sorted order, as protobuf's own deterministic mode does.

    Example{1: Features{1: entry{1: key, 2: Feature{1: BytesList{1: …} | 3: Int64List{1: packed …}}} …}}
"""

from collections.abc import Mapping

from components.ingest.columns import varint

_BYTES_LIST, _INT64_LIST = b"\x0a", b"\x1a"  # tags of Feature's fields 1 and 3
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"  # tags of length-delimited fields
_WORD = 1 << 64


def encode_example(columns: Mapping[str, bytes | int]) -> bytes:
    """Serializes one record of single-valued columns."""
    entries = []
    for key in sorted(columns):
        value = columns[key]
        feature = _bytes_feature(value) if isinstance(value, bytes) else _int_feature(value)
        entries.append(_field(_FIELD_1, _field(_FIELD_1, key.encode()) + _field(_FIELD_2, feature)))
    return _field(_FIELD_1, b"".join(entries))


def _bytes_feature(value: bytes) -> bytes:
    return _field(_BYTES_LIST, _field(_FIELD_1, value))


def _int_feature(value: int) -> bytes:
    return _field(_INT64_LIST, _field(_FIELD_1, varint(value % _WORD)))


def _field(tag: bytes, content: bytes) -> bytes:
    return b"".join((tag, varint(len(content)), content))
