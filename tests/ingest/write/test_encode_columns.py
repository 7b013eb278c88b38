"""Columns are serialized without protobuf, so the bytes of each record are compared with those of protobuf."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.example import example_pb2, feature_pb2

from components.ingest.write import encode_columns

INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32)  # nan and infinities too: sources reject them, not the encoder
# (Arrow type, values, the list of a Feature that they go to)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any], str]] = [
    (pa.int64(), INTEGERS, "int64_list"),
    (pa.int8(), st.integers(-128, 127), "int64_list"),
    (pa.uint32(), st.integers(0, 2**32 - 1), "int64_list"),
    (pa.bool_(), st.booleans(), "int64_list"),
    (pa.float32(), FLOATS, "float_list"),
    (pa.float64(), FLOATS, "float_list"),
    (pa.string(), st.text(max_size=20), "bytes_list"),
    (pa.large_string(), st.text(max_size=20), "bytes_list"),
    (pa.binary(), st.binary(max_size=300), "bytes_list"),
    (pa.large_binary(), st.binary(max_size=20), "bytes_list"),
]
LISTS = {kind: which for kind, _, which in KINDS}


def encode(batch: pa.RecordBatch) -> list[bytes]:
    """Returns each record of a batch."""
    return encode_columns.encode_columns(batch).records().rows()


def inner(kind: pa.DataType) -> pa.DataType:
    """Returns the type of single values."""
    return kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind


def expected(batch: pa.RecordBatch) -> list[bytes]:
    """Returns each record as protobuf writes it; a missing value has no key, an empty list has one."""
    records = []
    for row in batch.to_pylist() if batch.num_columns else [{}] * batch.num_rows:
        features = feature_pb2.Features()
        for name, value in row.items():
            if value is not None:
                fill(features.feature[name], LISTS[inner(batch.schema.field(name).type)], value)
        records.append(example_pb2.Example(features=features).SerializeToString(deterministic=True))
    return records


def fill(feature: Any, which: str, value: Any) -> None:
    """Puts one value, or all values of a list, into a feature."""
    values = value if isinstance(value, list) else [value]
    found = getattr(feature, which)
    found.SetInParent()
    found.value.extend(each.encode() if isinstance(each, str) else each for each in values)


@st.composite
def arrays(draw: st.DrawFn, rows: int) -> pa.Array:
    """Draws a column, single values or lists, with missing ones, and perhaps a slice of a longer one."""
    kind, values, _ = draw(st.sampled_from(KINDS))
    if make := draw(st.sampled_from([None, pa.list_, pa.large_list])):
        kind, values = make(kind), st.lists(values, max_size=4)
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    count = before + rows + after
    drawn = draw(st.lists(st.none() | values, min_size=count, max_size=count))
    return pa.array(drawn, kind).slice(before, rows)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Draws up to five columns of up to eight rows."""
    rows = draw(st.integers(0, 8))
    names = draw(st.lists(st.text(max_size=12), max_size=5, unique=True))
    return pa.RecordBatch.from_arrays([draw(arrays(rows)) for _ in names], names=names)


@settings(deadline=None)  # a shared machine may pause for longer
@given(batch=batches())
def test_bytes_are_those_of_protobuf(batch: pa.RecordBatch) -> None:
    """Whatever the types, the missing values and the slice."""
    assert encode(batch) == expected(batch)


@settings(deadline=None, max_examples=50)
@given(batch=batches(), start=st.integers(0, 8))
def test_a_sliced_batch_is_its_own_rows(batch: pa.RecordBatch, start: int) -> None:
    """An offset in the buffers does not shift the records."""
    assert encode(batch.slice(start)) == expected(batch)[start:]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 1_000, 70_000])
def test_values_of_any_length_have_the_bytes_of_protobuf(size: int) -> None:
    """Above 65,536 bytes distinct lengths are found by sorting; long and short values are mixed."""
    long = [bytes([number]) * size for number in range(5)]
    batch = pa.RecordBatch.from_pydict({"a": [*long, None, b""], "b": pa.array(range(7)), "c": [b"x", *long, None]})

    assert encode(batch) == expected(batch)


@settings(deadline=None, max_examples=50)
@given(numbers=st.lists(st.sampled_from([0, 1, -1, 127, 128, 2**14 - 1, 2**14, 2**63 - 1, -(2**63)]), min_size=1))
def test_numbers_at_the_edges_of_their_lengths(numbers: list[int]) -> None:
    """Varints are one to ten bytes long; negative numbers take ten."""
    batch = pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64()), "all": [numbers] * len(numbers)})

    assert encode(batch) == expected(batch)


def test_keys_are_in_the_order_of_their_bytes() -> None:
    """As protobuf sorts a map: by UTF-8, which is not how UTF-16 would."""
    names = ["é", "z", "a", "", "\U0001f600", "\uffff", "ab"]
    batch = pa.RecordBatch.from_arrays([pa.array([number]) for number in range(len(names))], names=names)

    assert encode(batch) == expected(batch)


def test_an_empty_list_is_there_and_a_missing_one_is_not() -> None:
    """A parser sees the difference."""
    batch = pa.RecordBatch.from_pydict({name: pa.array([[], None], pa.list_(kind)) for name, kind in LISTED.items()})
    present, missing = (example_pb2.Example.FromString(row) for row in encode(batch))

    assert {name: feature.WhichOneof("kind") for name, feature in present.features.feature.items()} == {
        "floats": "float_list", "numbers": "int64_list", "texts": "bytes_list",
    }  # fmt: skip
    assert not missing.features.feature


LISTED = {"floats": pa.float32(), "numbers": pa.int64(), "texts": pa.string()}


def test_no_rows_are_no_records() -> None:
    """A batch may have nothing but a schema."""
    assert encode(pa.RecordBatch.from_pydict({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})) == []


def test_no_columns_are_no_records() -> None:
    """Arrow counts no rows without a column."""
    assert encode(pa.RecordBatch.from_arrays([], names=[])) == []


def test_floats_are_rounded_as_protobuf_rounds_them() -> None:
    """A record holds 32 bits of a 64-bit float."""
    batch = pa.RecordBatch.from_pydict({"f": [0.1, math.pi, 1e-46, -0.0, 16_777_217.0, float("nan"), float("inf")]})

    assert encode(batch) == expected(batch)


@settings(deadline=None, max_examples=50)
@given(batch=batches(), data=st.data())
def test_a_column_can_be_added_later(batch: pa.RecordBatch, data: st.DataObject) -> None:
    """The record is the same as if the column had been there from the start."""
    name = data.draw(st.text(max_size=12).filter(lambda name: name not in batch.schema.names))
    whole = batch if batch.num_columns else pa.RecordBatch.from_arrays([pa.array([1])], names=["x" + name])
    more = data.draw(arrays(whole.num_rows))
    joined = pa.RecordBatch.from_arrays([*whole.columns, more], names=[*whole.schema.names, name])
    parts = encode_columns.encode_columns(whole, [name]).with_column(name, more)

    assert parts.records().rows() == expected(joined)
    assert parts.without([name]).rows() == [body(record) for record in expected(whole)]
    assert parts.only(name).rows() == [body(record) for record in expected(select(joined, [name]))]


@settings(deadline=None, max_examples=50)
@given(batch=batches(), data=st.data())
def test_large_values_need_not_be_copied(batch: pa.RecordBatch, data: st.DataObject) -> None:
    """The bytes before the value, the value and the bytes after it are the record."""
    name = data.draw(st.text(max_size=12).filter(lambda name: name not in batch.schema.names))
    values = data.draw(st.lists(st.binary(max_size=300), min_size=batch.num_rows, max_size=batch.num_rows))
    column = pa.array(values, pa.binary())
    joined = pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, name])
    lengths = np.array([len(value) for value in values], np.int64)
    before, after = encode_columns.encode_columns(joined, [name], leave_out=name).around(name, lengths)

    assert [b"".join(parts) for parts in zip(before.rows(), values, after.rows(), strict=True)] == expected(joined)


def select(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Returns some columns of a batch."""
    return pa.RecordBatch.from_arrays([batch.column(batch.schema.get_field_index(name)) for name in names], names=names)


def body(record: bytes) -> bytes:
    """Returns an Example without the tag and length of its only field."""
    size = next(at for at, byte in enumerate(record[1:], 2) if byte < 0x80)
    return record[size:]


@settings(deadline=None, max_examples=50)
@given(batch=batches().filter(lambda batch: batch.num_columns > 1), data=st.data())
def test_a_separate_column_can_be_left_out(batch: pa.RecordBatch, data: st.DataObject) -> None:
    """The rest is the same as without it."""
    name = data.draw(st.sampled_from(batch.schema.names))
    others = select(batch, [other for other in batch.schema.names if other != name])
    parts = encode_columns.encode_columns(batch, [name])

    assert parts.without([name]).rows() == [body(record) for record in expected(others)]
    assert parts.records().rows() == expected(batch)


def test_records_beyond_two_gigabytes_in_all_have_wide_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of huge rows can be joined."""
    monkeypatch.setattr(encode_columns, "_WIDE", 100)
    batch = pa.RecordBatch.from_pydict({"a": ["x" * 40, "y" * 60, None], "b": [1, None, 3]})
    encoded = encode_columns.encode_columns(batch).records()

    assert encoded.array.type == pa.large_binary()
    assert encoded.rows() == expected(batch)
