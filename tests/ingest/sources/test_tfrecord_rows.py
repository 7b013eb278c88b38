"""TFRecord files written by TensorFlow: every record is read, damage is reported with its offset."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tensorflow as tf

from components.errors import BadInput
from components.ingest.sources import tfrecord_rows
from components.ingest.sources.rows import BadRow, Range
from components.ingest.sources.tfrecord_rows import SOURCE
from components.records.tfrecord import framing

MB = 1 << 20
FRAME = 16  # bytes of length and checksums around a record


NO_FLOATS = tf.train.Feature(float_list=tf.train.FloatList())
NO_BYTES = tf.train.Feature(bytes_list=tf.train.BytesList())


def example(**features: Any) -> bytes:
    """Returns a record from values, or from whole features; None is a feature without a kind."""
    made = tf.train.Example()
    for name, values in features.items():
        feature = made.features.feature[name]
        if values is None:
            feature.SetInParent()
        elif isinstance(values, tf.train.Feature):
            feature.CopyFrom(values)
        elif values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.SetInParent()
            feature.int64_list.value.extend(values)
    return bytes(made.SerializeToString(deterministic=True))


def write(path: Path, records: list[bytes], compression: str = "") -> Path:
    """Writes a file with TensorFlow."""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return path


def read(path: Path, target: int = MB, schema: pa.Schema | None = None) -> tuple[list[dict[str, Any]], list[BadRow]]:
    """Reads a whole file range by range."""
    schema = schema or SOURCE.schema(path)
    rows: list[dict[str, Any]] = []
    bad: list[BadRow] = []
    for part in SOURCE.divide(path, path.name, target):
        for batch in SOURCE.read(path, part, schema):
            assert batch.columns.schema == schema
            rows += batch.columns.to_pylist()
            bad += batch.bad
    return rows, bad


def reasons(bad: list[BadRow]) -> list[tuple[str, str]]:
    """Returns positions and reasons."""
    return [(row.position, row.reason) for row in bad]


MIXED = [
    example(label=[1], image=[b"\xff\xd8"], box=[0.5, 1.5], tags=[b"a", b"b"], rare=[7]),
    example(label=[-(2**63)], image=[b""], box=NO_FLOATS, tags=NO_BYTES),
    example(label=[3], image=[b"\0"], box=[0.25]),
]


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz", "data_tfrecord-00000-of-00001"])
def test_all_values_are_read(tmp_path: Path, compression: str, name: str) -> None:
    """Single values, lists, missing values; the content decides whether a file is compressed, not its name."""
    path = write(tmp_path / name, MIXED, compression)

    assert SOURCE.schema(path) == pa.schema(
        {
            "box": pa.list_(pa.float32()), "image": pa.binary(), "label": pa.int64(), "rare": pa.int64(),
            "tags": pa.list_(pa.binary()),
        }
    )  # fmt: skip
    assert read(path) == (
        [
            {"box": [0.5, 1.5], "image": b"\xff\xd8", "label": 1, "rare": 7, "tags": [b"a", b"b"]},
            {"box": [], "image": b"", "label": -(2**63), "rare": None, "tags": []},
            {"box": [0.25], "image": b"\0", "label": 3, "rare": None, "tags": None},
        ],
        [],
    )


def many(count: int = 2_000) -> list[bytes]:
    """Returns records of different lengths."""
    return [
        example(n=[number], f=[number / 4], s=[b"x" * (number % 50)], l=list(range(number % 4)))
        for number in range(count)
    ]


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("target", [1_000, 1 << 40])
def test_any_range_size_gives_the_same_rows(tmp_path: Path, compression: str, target: int) -> None:
    """In order, none lost, repeated or changed."""
    path = write(tmp_path / "a.tfrecord", many(), compression)

    assert read(path, target) == (
        [
            {"f": number / 4, "l": list(range(number % 4)), "n": number, "s": b"x" * (number % 50)}
            for number in range(2_000)
        ],
        [],
    )


def test_ranges_end_between_records(tmp_path: Path) -> None:
    """Each with the number of its first record; a gzip file is one range."""
    records = [example(n=[number], s=[b"x" * 84]) for number in range(100)]
    size = FRAME + len(records[0])
    path = write(tmp_path / "a.tfrecord", records)
    packed = write(tmp_path / "b.tfrecord.gz", records, "GZIP")

    assert SOURCE.divide(path, "a", 40 * size) == [
        Range("a", 0, 40 * size, 1, 40 * size),
        Range("a", 40 * size, 80 * size, 41, 40 * size),
        Range("a", 80 * size, 100 * size, 81, 20 * size),
    ]
    assert SOURCE.divide(packed, "b", 1) == [Range("b", 0, packed.stat().st_size, 1, packed.stat().st_size)]


def test_a_length_that_starts_like_gzip_is_not_gzip(tmp_path: Path) -> None:
    """1f 8b is 35,615 as a length."""
    empty = len(example(s=[b"x" * 35_000])) - 35_000
    path = write(tmp_path / "a.tfrecord", [example(s=[b"x" * (35_615 - empty)])])

    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert len(read(path)[0]) == 1


def test_batches_are_bounded_in_records_and_bytes(tmp_path: Path) -> None:
    """Large records give small batches."""

    def sizes(records: list[bytes]) -> list[int]:
        path = write(tmp_path / "a.tfrecord", records)
        [part] = SOURCE.divide(path, "a", 1 << 40)
        return [batch.columns.num_rows for batch in SOURCE.read(path, part, SOURCE.schema(path))]

    assert sizes([example(n=[1])] * 9_000) == [4096, 4096, 808]
    assert sizes([example(s=[bytes(3 * MB)])] * 7) == [3, 3, 1]


def test_the_schema_is_inferred_from_the_first_thousand_records(tmp_path: Path) -> None:
    """One value in each of them is a single value; later, several values are a bad row, and none is a missing value."""
    later = [example(n=[1, 2]), example(n=[]), example(n=[5])]
    path = write(tmp_path / "a.tfrecord", [example(n=[0])] * 1_000 + later)
    rows, bad = read(path)

    assert SOURCE.schema(path) == pa.schema({"n": pa.int64()})
    assert [row["n"] for row in rows[-3:]] == [0, None, 5]
    assert reasons(bad) == [
        (f"byte offset {1_000 * (FRAME + len(example(n=[0])))}",
         "feature 'n' has 2 values, expected one as in the first records"),
    ]  # fmt: skip


def test_a_feature_of_later_records_only_stops_the_ingest(tmp_path: Path) -> None:
    """The schema lacks it, so the record would lose it; the message names it."""
    path = write(tmp_path / "a.tfrecord", [example(n=[0])] * 1_000 + [example(n=[5], late=[1])])

    with pytest.raises(BadInput, match=r"a\.tfrecord: feature 'late' is in none of the first records"):
        read(path)


def test_records_of_another_type_are_bad_rows(tmp_path: Path) -> None:
    """The first type counts. Bytes that are no Example are a bad row; an Example without features is an empty row."""
    odd = [example(n=[1]), example(n=[1.5]), b"\xffgarbage", example(), example(n=None), example(n=NO_BYTES)]
    rows, bad = read(write(tmp_path / "a.tfrecord", odd))

    assert [row["n"] for row in rows] == [1, None, None]
    assert [row.raw for row in bad] == [odd[1], odd[2], odd[5]]
    assert [row.reason for row in bad] == [
        "feature 'n' has type float, expected int64",
        "is not a tf.Example",
        "feature 'n' has type binary, expected int64",
    ]


def test_a_bad_batch_does_not_change_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The C++ decoder keeps half a batch if it fails; it must not be used again."""
    monkeypatch.setattr(tfrecord_rows, "_BATCH_RECORDS", 3)
    records = [example(n=[number], f=[0.5]) if number % 4 else example(n=[number], f=[3]) for number in range(1, 20)]
    rows, bad = read(write(tmp_path / "a.tfrecord", records))

    assert [row["n"] for row in rows] == [number for number in range(1, 20) if number % 4]
    assert len(bad) == 4


def test_numbers_that_are_not_finite_are_bad_rows(tmp_path: Path) -> None:
    """A9: the reason names the feature."""
    records = [example(f=[1.0], l=[1.0, 2.0]), example(f=[float("nan")]), example(f=[0.5], l=[0.0, float("inf")])]
    rows, bad = read(write(tmp_path / "a.tfrecord", records))

    assert rows == [{"f": 1.0, "l": [1.0, 2.0]}]
    assert [row.reason for row in bad] == ["feature 'f' holds nan", "feature 'l' holds inf at value 2 of its list"]


def test_the_schema_decides_what_is_read(tmp_path: Path) -> None:
    """Types may be set by the user; strings must be UTF-8."""
    path = write(tmp_path / "a.tfrecord", [example(n=[1], s=[b"a"]), example(n=[0], s=[b"\xff"])])
    schema = pa.schema({"s": pa.string(), "n": pa.bool_(), "absent": pa.float64()})
    rows, bad = read(path, schema=schema)

    assert rows == [{"s": "a", "n": True, "absent": None}]
    assert [row.reason for row in bad] == ["feature 's' cannot be string: Invalid UTF8 payload"]


def sequence_with_context() -> bytes:
    """Returns a SequenceExample that a parser of Example accepts."""
    made = tf.train.SequenceExample()
    made.context.feature["n"].int64_list.value.append(1)
    made.feature_lists.feature_list["words"].feature.add().bytes_list.value.append(b"x" * 200)
    return bytes(made.SerializeToString())


def sequence_alone() -> bytes:
    """Returns a SequenceExample without a context."""
    made = tf.train.SequenceExample()
    made.feature_lists.feature_list["words"].feature.add()
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("make", [sequence_with_context, sequence_alone])
def test_sequence_examples_are_rejected(tmp_path: Path, make: Callable[[], bytes]) -> None:
    """Half of each would be lost silently."""
    path = write(tmp_path / "a.tfrecord", [make()])

    with pytest.raises(BadInput, match=r"a\.tfrecord: contains tf\.SequenceExample; expected tf\.Example"):
        SOURCE.schema(path)


@pytest.mark.parametrize("records", [[b"\xffgarbage"], [b""], [example()]])
def test_records_without_any_feature_are_rejected(tmp_path: Path, records: list[bytes]) -> None:
    """There is no column to infer a schema from."""
    path = write(tmp_path / "a.tfrecord", records)

    with pytest.raises(BadInput, match=r"a\.tfrecord: none of its first 1 records is a tf\.Example with features"):
        SOURCE.schema(path)


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)], ids=["plain", "gzip"])
def test_a_file_without_records_is_rejected(tmp_path: Path, content: bytes) -> None:
    """A3: the message names it and says 0 examples."""
    path = tmp_path / "none.tfrecord"
    path.write_bytes(content)

    with pytest.raises(BadInput, match=r"none\.tfrecord: 0 examples"):
        SOURCE.schema(path)


def test_a_file_of_another_format_is_rejected(tmp_path: Path) -> None:
    """The message names it."""
    path = tmp_path / "bad.tfrecord"
    path.write_bytes(b"<html>not found</html>")

    for use in (SOURCE.schema, lambda path: SOURCE.divide(path, "b", 1)):
        with pytest.raises(BadInput, match=r"bad\.tfrecord: the record header at byte offset 0 is damaged, or this is"):
            use(path)


def test_a_deleted_file_is_rejected(tmp_path: Path) -> None:
    """B9: by a message, not a traceback."""
    with pytest.raises(BadInput, match=r"gone\.tfrecord: cannot be read: .*No such file"):
        SOURCE.divide(tmp_path / "gone.tfrecord", "g", 1)


THREE = [example(n=[1], s=[b"one"]), example(n=[2], s=[b"two"]), example(n=[3], s=[b"three"])]
STARTS = [0, FRAME + len(THREE[0]), 2 * FRAME + len(THREE[0]) + len(THREE[1])]


def flip(data: bytes, bit: int) -> bytes:
    """Returns data with one bit flipped."""
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


@pytest.mark.slow
def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """A1: in data, one record is bad and its neighbours are not; in a header, the file is rejected."""
    path = write(tmp_path / "flip.tfrecord", THREE)
    whole, (rows, _), schema = path.read_bytes(), read(path), SOURCE.schema(path)
    for bit in range(len(whole) * 8):
        path.write_bytes(flip(whole, bit))
        number = max(index for index, start in enumerate(STARTS) if start <= bit // 8)
        if bit // 8 - STARTS[number] < 12:
            with pytest.raises(
                BadInput, match=rf"flip\.tfrecord: the record header at byte offset {STARTS[number]} is"
            ):
                read(path, schema=schema)
            continue
        found, bad = read(path, schema=schema)
        assert found == rows[:number] + rows[number + 1 :]
        assert reasons(bad) == [(f"byte offset {STARTS[number]}", "its checksum does not match its data")]


def test_a_header_damaged_after_dividing_is_found_by_reading(tmp_path: Path) -> None:
    """Reading verifies all headers again."""
    path = write(tmp_path / "late.tfrecord", THREE)
    schema, [part] = SOURCE.schema(path), SOURCE.divide(path, "l", MB)
    path.write_bytes(flip(path.read_bytes(), STARTS[1] * 8))

    with pytest.raises(BadInput, match=rf"late\.tfrecord: the record header at byte offset {STARTS[1]} is damaged"):
        list(SOURCE.read(path, part, schema))


def test_a_cut_file_is_found(tmp_path: Path) -> None:
    """A2: wherever it is cut within a record; cut between records it is another intact file."""
    path = write(tmp_path / "cut.tfrecord", THREE)
    whole, schema, [part] = path.read_bytes(), SOURCE.schema(path), SOURCE.divide(path, "c", MB)
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        start = max(start for start in STARTS if start <= length)
        if length in STARTS:
            assert len(read(path, schema=schema)[0]) == STARTS.index(length)
            continue
        with pytest.raises(BadInput, match=rf"cut\.tfrecord: is cut off within the record at byte offset {start};"):
            read(path, schema=schema)
        with pytest.raises(BadInput, match=rf"cut\.tfrecord: is cut off within the record at byte offset {start};"):
            list(SOURCE.read(path, part, schema))


@pytest.mark.parametrize("garbage", [b"x", b"garbage" * 10, bytes(12), bytes(100)])
def test_garbage_at_the_end_is_found(tmp_path: Path, garbage: bytes) -> None:
    """A2: with the offset where it starts."""
    path = write(tmp_path / "more.tfrecord", THREE)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + garbage)

    with pytest.raises(BadInput, match=rf"more\.tfrecord: .*at byte offset {size}"):
        SOURCE.divide(path, "m", 1)


def test_a_record_too_large_for_protobuf_is_rejected(tmp_path: Path) -> None:
    """Before memory is allocated for it."""
    path = tmp_path / "huge.tfrecord"
    path.write_bytes(framing.header(1 << 40) + bytes(100))

    with pytest.raises(BadInput, match=r"huge\.tfrecord: the record at byte offset 0 has 1,099,511,627,776 bytes"):
        SOURCE.schema(path)


def test_damage_in_a_gzip_file_is_found(tmp_path: Path) -> None:
    """A1, A2: any flipped bit, any cut, and data after the end; only the timestamp in the header may differ."""
    path = write(tmp_path / "a.tfrecord.gz", many(50), "GZIP")
    whole, rows, schema = path.read_bytes(), read(path)[0], SOURCE.schema(path)
    damaged = [flip(whole, bit) for bit in range(80, len(whole) * 8, 37)]
    for content in [*damaged, *(whole[:length] for length in range(1, len(whole), 29)), whole + b"garbage"]:
        path.write_bytes(content)
        with pytest.raises(BadInput, match=r"a\.tfrecord\.gz: "):
            read(path, schema=schema)

    path.write_bytes(flip(whole, 4 * 8))
    assert read(path, schema=schema)[0] == rows
