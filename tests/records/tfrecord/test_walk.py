"""Records are counted and read one by one; damage costs no more than its own record."""

import gzip
from pathlib import Path

import pytest

from components.errors import BadInput
from components.records.tfrecord.framing import frame
from components.records.tfrecord.walk import Fault, count_records, decompress, intact_records

RECORDS = [frame([bytes([number]) * number]) for number in range(23)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_records_are_counted(tmp_path: Path, suffix: str) -> None:
    """In plain and compressed files."""
    path, content = tmp_path / f"shard{suffix}", b"".join(RECORDS)
    path.write_bytes(gzip.compress(content) if suffix else content)

    assert count_records(path) == 23


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>not found</html>", "the record header at byte offset 0 is damaged, or this is not a TFRecord file; "),
        (RECORDS[5] + b"<html>not found</html>", "the record header at byte offset 21 is damaged; "),
        (RECORDS[5][:-1], "is cut off within the record at byte offset 0; "),
        (RECORDS[5] + RECORDS[5][:7], "is cut off within the record at byte offset 21; "),
    ],
)
def test_a_file_that_cannot_be_counted_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    """With the offset of the damage."""
    (tmp_path / "shard").write_bytes(content)

    with pytest.raises(BadInput, match=f"^{tmp_path / 'shard'}: {message}"):
        count_records(tmp_path / "shard")


def test_a_compressed_file_that_is_cut_is_named(tmp_path: Path) -> None:
    """Its stream ends before its trailer."""
    (tmp_path / "shard.gz").write_bytes(gzip.compress(b"".join(RECORDS))[:-9])

    with pytest.raises(BadInput, match=r"shard\.gz: cannot be read: Compressed file ended before"):
        count_records(tmp_path / "shard.gz")


def test_a_record_inside_of_another_is_data() -> None:
    """As long as the outer one is intact."""
    outer = frame([frame([b"x" * 8])])

    assert intact_records(outer + frame([b"y"])) == ([outer, frame([b"y"])], [])


def test_the_next_record_is_found_far_away() -> None:
    """Beyond any window that is searched at once."""
    found = intact_records(b"\xff" * (9 << 20) + RECORDS[5])

    assert found == ([RECORDS[5]], [Fault(0, "a record's header is damaged")])


def test_any_flipped_bit_of_a_small_file_is_found() -> None:
    """And none costs more than its record."""
    data = b"".join(RECORDS[:6])
    for offset in range(len(data)):
        flipped = data[:offset] + bytes([data[offset] ^ 1 << offset % 8]) + data[offset + 1 :]
        intact, faults = intact_records(flipped)

        assert (len(intact), len(faults)) == (5, 1)


def test_a_gzip_stream_is_decompressed_up_to_its_damage() -> None:
    """Whole, without its trailer, and with a damaged start."""
    packed = gzip.compress(b"content")

    assert decompress(packed) == (b"content", [])
    assert decompress(packed[:-4]) == (b"content", [Fault(7, "its gzip stream ends before its trailer")])
    assert decompress(b"\0" + packed)[0] == b""
