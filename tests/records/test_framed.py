"""A file of framed records is the very file that TensorFlow writes, and what is told of it is true."""

import gzip
import hashlib
from pathlib import Path

import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from components.ingest.write.encode_columns import Encoded
from components.records import checksum
from components.records.framed import FramedFile, frame

RECORDS = st.lists(st.lists(st.binary(max_size=300), max_size=20), max_size=4)


def written_by_tensorflow(path: Path, records: list[bytes]) -> bytes:
    """Returns a file of these records."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path.read_bytes()


def write(
    path: Path, batches: list[list[bytes]], *, packed: bool = False, kind: pa.DataType | None = None
) -> FramedFile:
    """Writes batches of records."""
    with FramedFile(path, gzip=packed) as file:
        for batch in batches:
            file.write_all(frame(Encoded(pa.array(batch, kind or pa.binary()))))
    return file


@settings(deadline=None)
@given(batches=RECORDS, wide=st.booleans())
def test_bytes_are_those_of_tensorflow(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[bytes]], wide: bool
) -> None:
    """Lengths and both checksums, whatever the batches."""
    folder = tmp_path_factory.mktemp("records")
    every = [record for batch in batches for record in batch]
    file = write(folder / "a", batches, kind=pa.large_binary() if wide else pa.binary())
    content = (folder / "a").read_bytes()

    assert content == written_by_tensorflow(folder / "b", every)
    assert (file.records, file.size, file.checksum) == (len(every), len(content), checksum.of_bytes(content))


@settings(deadline=None)
@given(batches=RECORDS)
def test_packed_records_are_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[bytes]]
) -> None:
    """For any reader of gzip; size and digest are of the file as it is on disk."""
    folder = tmp_path_factory.mktemp("records")
    every = [record for batch in batches for record in batch]
    file = write(folder / "a.gz", batches, packed=True)
    content = (folder / "a.gz").read_bytes()

    assert gzip.decompress(content) == written_by_tensorflow(folder / "b", every)
    assert (file.size, file.checksum) == (len(content), checksum.of_bytes(content))


def test_some_of_a_batch_can_be_taken(tmp_path: Path) -> None:
    """Records of one split, and slices."""
    framed = frame(Encoded(pa.array([b"a", b"bb", b"", b"dddd"])))
    with FramedFile(tmp_path / "a", gzip=False) as file:
        file.write_all(framed.take(pa.array([3, 1])))
        file.write_all(framed.slice(2, 1))

    assert [each.numpy() for each in tf.data.TFRecordDataset(str(tmp_path / "a"))] == [b"dddd", b"bb", b""]


def test_records_can_be_written_one_by_one_between(tmp_path: Path) -> None:
    """As those with images are, in parts."""
    with FramedFile(tmp_path / "a") as file:
        file.write_all(frame(Encoded(pa.array([b"a"]))))
        file.write((b"b", b"", b"bb"))
        file.write_all(frame(Encoded(pa.array([b"c"]))))

    assert (tmp_path / "a").read_bytes() == written_by_tensorflow(tmp_path / "b", [b"a", b"bbb", b"c"])
    assert (file.records, file.checksum) == (3, checksum.of_file(tmp_path / "a"))


@pytest.mark.parametrize("packed", [False, True])
def test_a_full_disk_is_told(tiny_disk: Path, packed: bool) -> None:
    """Not when the next one reads the file."""
    noise = [hashlib.sha256(bytes([number])).digest() * 40 for number in range(256)]
    mixed = [bytes(a ^ b for a, b in zip(one, noise[0][::-1], strict=True)) for one in noise]

    with pytest.raises(OSError, match="No space left"):
        write(tiny_disk / "a", [noise, mixed] * 40, packed=packed)
