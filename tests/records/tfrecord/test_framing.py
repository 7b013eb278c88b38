"""The writer writes the bytes that TensorFlow writes, and knows size, record count and checksum of its file."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from components.records import checksum
from components.records.tfrecord.framing import TFRecordWriter, frame_batch

BATCHES = st.lists(st.lists(st.binary(max_size=300), max_size=20), max_size=4)
NOISE = [np.random.default_rng(seed).bytes(1_000) for seed in range(200)]


def written_by_tensorflow(path: Path, records: list[bytes]) -> bytes:
    """Returns the content of a file with these records."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path.read_bytes()


def write_batches(path: Path, batches: list[list[bytes]], kind: pa.DataType, *, compressed: bool) -> TFRecordWriter:
    """Writes batches of records."""
    with TFRecordWriter(path, gzip=compressed) as writer:
        for batch in batches:
            writer.write_framed(frame_batch(pa.array(batch, kind)))
    return writer


@pytest.mark.parametrize("sizes", [(), (0,), (10, 3, 0), (1 << 20, 5, 300_000)])
def test_records_in_parts_are_written_as_tensorflow_writes_them(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """Smaller and larger than the writer's buffer."""
    parts = [bytes([number]) * size for number, size in enumerate(sizes)]
    with TFRecordWriter(tmp_path / "ours") as writer:
        writer.write([parts, [b"last"]])
    content = (tmp_path / "ours").read_bytes()

    assert content == written_by_tensorflow(tmp_path / "theirs", [b"".join(parts), b"last"])
    assert (writer.records, writer.size, writer.checksum) == (2, len(content), checksum.of_bytes(content))


@settings(deadline=None, max_examples=40)
@given(batches=BATCHES, kind=st.sampled_from([pa.binary(), pa.large_binary()]), compressed=st.booleans())
def test_batches_are_written_as_tensorflow_writes_them(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[bytes]], kind: pa.DataType, compressed: bool
) -> None:
    """Also compressed; size and checksum are those of the file on disk."""
    folder = tmp_path_factory.mktemp("records")
    every = [record for batch in batches for record in batch]
    writer = write_batches(folder / "ours", batches, kind, compressed=compressed)
    content = (folder / "ours").read_bytes()

    assert (gzip.decompress(content) if compressed else content) == written_by_tensorflow(folder / "theirs", every)
    assert (writer.records, writer.size, writer.checksum) == (len(every), len(content), checksum.of_bytes(content))


def test_parts_of_a_batch_can_be_written(tmp_path: Path) -> None:
    """Selected records, slices, and records in parts between them."""
    framed = frame_batch(pa.array([b"a", b"bb", b"", b"dddd"]))
    with TFRecordWriter(tmp_path / "ours") as writer:
        writer.write_framed(framed.take(pa.array([3, 1])))
        writer.write([(b"e", b"", b"ee")])
        writer.write_framed(framed.slice(2, 1))

    assert (tmp_path / "ours").read_bytes() == written_by_tensorflow(tmp_path / "theirs", [b"dddd", b"bb", b"eee", b""])
    assert (writer.records, writer.checksum) == (4, checksum.of_file(tmp_path / "ours"))


def test_no_records_are_an_empty_file(tmp_path: Path) -> None:
    """With the checksum of no bytes."""
    with TFRecordWriter(tmp_path / "file") as writer:
        pass

    assert (tmp_path / "file").read_bytes() == b""
    assert (writer.records, writer.size, writer.checksum) == (0, 0, checksum.of_bytes(b""))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_full_disk_is_an_error(tiny_disk: Path, compressed: bool) -> None:
    """Promise B5: also when the bytes are still in the buffer as the file is closed."""
    with pytest.raises(OSError, match="No space left"):
        write_batches(tiny_disk / "file", [NOISE], pa.binary(), compressed=compressed)


def test_a_failed_block_closes_the_file(tmp_path: Path) -> None:
    """The error comes through, and the gzip stream gets no trailer."""
    with pytest.raises(TypeError), TFRecordWriter(tmp_path / "file", gzip=True) as writer:
        writer.write([[b"record"], [None]])  # type: ignore[list-item]

    with pytest.raises(EOFError):
        gzip.decompress((tmp_path / "file").read_bytes())
