"""Examples are written by hand, so protobuf itself is asked what it thinks of them."""

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from components.ingest.write.encode_record import encode_example

VALUES = st.one_of(st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1))


def by_protobuf(columns: dict[str, bytes | int]) -> bytes:
    """Returns what protobuf's deterministic mode writes."""
    example = tf.train.Example()
    for key, value in columns.items():
        if isinstance(value, bytes):
            example.features.feature[key].bytes_list.value.append(value)
        else:
            example.features.feature[key].int64_list.value.append(value)
    return bytes(example.SerializeToString(deterministic=True))


@given(st.dictionaries(st.text(st.characters(codec="ascii"), min_size=1, max_size=200), VALUES, min_size=1, max_size=6))
def test_bytes_are_those_of_protobuf(columns: dict[str, bytes | int]) -> None:
    """Any record has the very bytes that protobuf writes when it is told to be deterministic."""
    assert encode_example(columns) == by_protobuf(columns)


def test_order_of_columns_does_not_matter() -> None:
    """The same record gives the same bytes however its columns are ordered."""
    assert encode_example({"image": b"x", "id": 7}) == encode_example({"id": 7, "image": b"x"})


def test_large_values_are_kept_whole() -> None:
    """A value of several megabytes comes back as it was."""
    content = bytes(range(256)) * 20_000
    example = tf.train.Example.FromString(encode_example({"image": content}))

    assert example.features.feature["image"].bytes_list.value[0] == content
