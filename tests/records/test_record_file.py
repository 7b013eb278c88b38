"""A TFRecord file of ours is one to TensorFlow, and its size and checksum are known when it is closed."""

from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.records import checksum
from components.records.record_file import RecordFile


def write(path: Path, records: list[list[bytes]]) -> RecordFile:
    """Writes records, which are given in parts."""
    with RecordFile(path) as file:
        for parts in records:
            file.write(parts)
    return file


@given(st.lists(st.lists(st.binary(max_size=60), max_size=4), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_tensorflow_reads_what_was_written(tmp_path: Path, records: list[list[bytes]]) -> None:
    """Every record, in order, with its checksums, however it was cut into parts."""
    write(tmp_path / "file", records)
    read = list(tf.data.TFRecordDataset(str(tmp_path / "file")).as_numpy_iterator())

    assert read == [b"".join(parts) for parts in records]


@pytest.mark.parametrize("sizes", [(10, 3, 0), (16 << 10, 0, 0), (16 << 10, 1, 0), (1 << 20, 5, 300_000)])
def test_the_bytes_are_those_of_tensorflow(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """Large records are written from where they are, with the same result."""
    parts = [bytes([number]) * size for number, size in enumerate(sizes)]
    file = write(tmp_path / "ours", [parts, [b"last"]])
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        writer.write(b"".join(parts))
        writer.write(b"last")
    content = (tmp_path / "ours").read_bytes()

    assert content == (tmp_path / "theirs").read_bytes()
    assert (file.records, file.size, file.checksum) == (2, len(content), checksum.of_bytes(content))


def test_no_records_are_an_empty_file(tmp_path: Path) -> None:
    """With the checksum of nothing."""
    file = write(tmp_path / "file", [])

    assert ((tmp_path / "file").read_bytes(), file.size, file.checksum) == (b"", 0, checksum.of_bytes(b""))


def test_a_full_disk_is_an_error(tiny_disk: Path) -> None:
    """Promise B5: also when the last bytes wait in memory."""
    with pytest.raises(OSError, match="No space left"):
        write(tiny_disk / "file", [[bytes(100_000)]])


@pytest.mark.parametrize("expected", [1, 1 << 20])
def test_room_that_is_not_needed_is_given_back(tmp_path: Path, expected: int) -> None:
    """However much or little was expected, the file takes what is in it."""
    plain = write(tmp_path / "plain", [[b"record" * 1_000]])
    with RecordFile(tmp_path / "file", expected) as file:
        file.write([b"record" * 1_000])

    assert (tmp_path / "file").read_bytes() == (tmp_path / "plain").read_bytes()
    assert (file.size, file.checksum) == (plain.size, plain.checksum)
    assert (tmp_path / "file").stat().st_blocks <= (tmp_path / "plain").stat().st_blocks + 8
