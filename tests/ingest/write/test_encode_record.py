"""Records are serialized without protobuf, so their bytes are compared with those of protobuf."""

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from components.ingest.write.encode_record import example_parts

VALUES = st.one_of(st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1))


def encoded(columns: dict[str, bytes | int]) -> bytes:
    """Returns one serialized record."""
    return b"".join(example_parts(columns))


def by_protobuf(columns: dict[str, bytes | int]) -> bytes:
    """Returns the bytes of protobuf's deterministic mode."""
    example = tf.train.Example()
    for key, value in columns.items():
        if isinstance(value, bytes):
            example.features.feature[key].bytes_list.value.append(value)
        else:
            example.features.feature[key].int64_list.value.append(value)
    return bytes(example.SerializeToString(deterministic=True))


@given(st.dictionaries(st.text(st.characters(codec="ascii"), min_size=1, max_size=200), VALUES, min_size=1, max_size=6))
def test_bytes_are_those_of_protobuf(columns: dict[str, bytes | int]) -> None:
    """Any record has the bytes of protobuf's deterministic mode."""
    assert encoded(columns) == by_protobuf(columns)


def test_order_of_columns_does_not_matter() -> None:
    """The same record gives the same bytes in any order of its columns."""
    assert encoded({"image": b"x", "id": 7}) == encoded({"id": 7, "image": b"x"})


def test_large_values_are_kept_whole() -> None:
    """A value of several megabytes is read back unchanged."""
    content = bytes(range(256)) * 20_000
    example = tf.train.Example.FromString(encoded({"image": content}))

    assert example.features.feature["image"].bytes_list.value[0] == content
