"""Whatever was done to a shard is found before training, named by place and kind, and costs no more than it must."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
import tensorflow as tf

from components.errors import BadInput
from components.records import checksum, record_walk, verify
from components.records.manifest import Shard
from components.settings.input import Input

RECORDS = 40
SIZE = 100  # bytes of a record
FRAME = SIZE + 16
HERE = 17  # the record that is damaged
Fault = Callable[[bytes], bytes]


def record(number: int) -> bytes:
    """Returns a record that spells its number; there are noughts in it, as in most."""
    return bytes([number, 0, 0, 0, 0, 0, 0, 0] * (SIZE // 8)) + b"abcd"


def write(path: Path, numbers: range) -> Shard:
    """Writes a shard, and what the manifest says of it."""
    options = tf.io.TFRecordOptions("GZIP") if path.suffix == ".gz" else None
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for number in numbers:
            writer.write(record(number))
    return Shard("train", path.name, len(numbers), path.stat().st_size, checksum.of_file(path))


def flipped(offset: int, bit: int = 0) -> Fault:
    """Flips one bit."""
    return lambda data: data[:offset] + bytes([data[offset] ^ 1 << bit]) + data[offset + 1 :]


def read(checked: verify.Checked) -> list[int]:
    """Returns the numbers that are read of checked shards, by TensorFlow."""
    return [
        found[0]
        for file in checked.files
        for found in tf.data.TFRecordDataset(str(file.path), file.compression).as_numpy_iterator()
    ]


def checked(home: Path, shards: list[Shard], **settings: Any) -> tuple[list[int], list[dict[str, Any]]]:
    """Returns what is read, and what is told of damages."""
    with verify.readable(home, shards, Input(**settings)) as found:
        return read(found), [damage.to_dict() for damage in found.damages]


@pytest.fixture
def shards(tmp_path: Path) -> list[Shard]:
    """Two plain shards."""
    return [write(tmp_path / "one", range(RECORDS)), write(tmp_path / "two", range(RECORDS, 2 * RECORDS))]


FAULTS: dict[str, tuple[Fault, int, str, int]] = {
    "flipped in the data": (
        flipped(HERE * FRAME + 50), HERE * FRAME, "the checksum of a record does not match its data", 1,
    ),
    "flipped in the checksum": (
        flipped(HERE * FRAME + FRAME - 1), HERE * FRAME, "the checksum of a record does not match its data", 1,
    ),
    "flipped in the length": (flipped(HERE * FRAME), HERE * FRAME, "a record's header is damaged", 1),
    "a huge length": (flipped(HERE * FRAME + 7, 6), HERE * FRAME, "a record's header is damaged", 1),
    "flipped in the length's checksum": (flipped(HERE * FRAME + 9), HERE * FRAME, "a record's header is damaged", 1),
    "the first bit": (flipped(0), 0, "a record's header is damaged", 1),
    "the last bit": (
        flipped(RECORDS * FRAME - 1, 7), (RECORDS - 1) * FRAME, "the checksum of a record does not match its data", 1,
    ),
    "cut between records": (lambda data: data[: HERE * FRAME], HERE * FRAME, "ends between two records", 23),
    "cut in a header": (
        lambda data: data[: HERE * FRAME + 5], HERE * FRAME, "is cut off within the header of a record", 23,
    ),
    "cut in a record": (lambda data: data[: HERE * FRAME + 60], HERE * FRAME, "is cut off within a record", 23),
    "emptied": (lambda _: b"", 0, "ends between two records", 40),
    "garbage appended": (
        lambda data: data + b"garbage", RECORDS * FRAME, "7 bytes were added after its end", 0,
    ),
    "records appended": (
        lambda data: data + data[: 2 * FRAME], RECORDS * FRAME, "232 bytes were added after its end", 0,
    ),
    "a piece cut out": (
        lambda data: data[: HERE * FRAME + 30] + data[HERE * FRAME + 90 :], HERE * FRAME,
        "the checksum of a record does not match its data", 2,
    ),
    "other records": (
        lambda data: data[FRAME:] + data[:FRAME], 0, "holds whole records that ingest did not write", 40,
    ),
}  # fmt: skip
CASES = [pytest.param(*fault, id=name) for name, fault in FAULTS.items()]


def test_shards_as_ingest_wrote_them_are_read_where_they_are(tmp_path: Path, shards: list[Shard]) -> None:
    """Nothing is copied."""
    with verify.readable(tmp_path, shards, Input()) as found:
        assert [file.path for file in found.files] == [tmp_path / "one", tmp_path / "two"]
        assert read(found) == list(range(80))
        assert found.damages == ()


@pytest.mark.parametrize(("fault", "offset", "reason", "lost"), CASES)
def test_a_damage_stops_the_run_by_name(
    tmp_path: Path, shards: list[Shard], fault: Fault, offset: int, reason: str, lost: int
) -> None:
    """A1, A2: shard, byte offset, what is wrong, what it would cost, and what to do."""
    path = tmp_path / "one"
    path.write_bytes(fault(path.read_bytes()))

    with pytest.raises(BadInput) as refused:
        checked(tmp_path, shards)

    first, advice = str(refused.value).splitlines()
    assert first.startswith(f"{path}: {reason} at byte offset {offset:,}")
    assert first.endswith(f"{lost} of 40 records are lost" if lost else "no record is lost")
    assert advice == (
        "expected the shards that ingest wrote: run again with --force Ingest, or go on without what is lost "
        "(--set input.on_bad=skip)"
    )


@pytest.mark.parametrize(("fault", "offset", "reason", "lost"), CASES)
def test_what_is_intact_can_be_read_and_the_loss_is_listed(
    tmp_path: Path, shards: list[Shard], fault: Fault, offset: int, reason: str, lost: int
) -> None:
    """Record by record: one flipped bit costs one record, wherever it is."""
    path = tmp_path / "one"
    path.write_bytes(fault(path.read_bytes()))
    numbers, (damage,) = checked(tmp_path, shards, on_bad="skip", max_bad_fraction=0.5)

    assert (damage["shard"], damage["records"], damage["lost"]) == ("one", 40, lost)
    assert damage["faults"][0] == {"offset": offset, "reason": reason}
    assert len(numbers) == 80 - lost
    assert set(numbers) <= set(range(80))
    assert len(set(numbers)) == len(numbers)


def test_several_places_are_all_listed(tmp_path: Path, shards: list[Shard]) -> None:
    """Each with its offset."""
    path = tmp_path / "two"
    damaged = flipped(3 * FRAME + 50)(flipped(9 * FRAME)(path.read_bytes()))
    path.write_bytes(damaged)
    numbers, (damage,) = checked(tmp_path, shards, on_bad="skip", max_bad_fraction=0.5)

    assert [fault["offset"] for fault in damage["faults"]] == [3 * FRAME, 9 * FRAME]
    assert numbers == [n for n in range(80) if n not in {43, 49}]


def test_a_loss_beyond_its_budget_stops_the_run(tmp_path: Path, shards: list[Shard]) -> None:
    """Two of eighty are more than a hundredth."""
    path = tmp_path / "two"
    path.write_bytes(flipped(3 * FRAME + 50)(flipped(9 * FRAME)(path.read_bytes())))

    with pytest.raises(BadInput, match=r"2 of 80 records are lost, more than input\.max_bad_fraction = 0\.01 allows"):
        checked(tmp_path, shards, on_bad="skip")


def test_a_shard_that_is_gone_is_all_lost(tmp_path: Path, shards: list[Shard]) -> None:
    """It says so, and goes on only if that much may be lost."""
    (tmp_path / "one").unlink()

    with pytest.raises(BadInput, match="one: cannot be read: No such file or directory at byte offset 0; 40 of 40"):
        checked(tmp_path, shards)
    assert checked(tmp_path, shards, on_bad="skip", max_bad_fraction=0.5)[0] == list(range(40, 80))


def test_nothing_left_stops_the_run(tmp_path: Path, shards: list[Shard]) -> None:
    """However much may be lost."""
    for name in ("one", "two"):
        (tmp_path / name).unlink()

    with pytest.raises(BadInput, match="80 of 80 records are lost"):
        checked(tmp_path, shards, on_bad="skip", max_bad_fraction=1)


def test_copies_are_gone_afterwards(tmp_path: Path, shards: list[Shard]) -> None:
    """Nothing is written beside the shards."""
    path = tmp_path / "one"
    path.write_bytes(flipped(50)(path.read_bytes()))
    with verify.readable(tmp_path, shards, Input(on_bad="skip", max_bad_fraction=0.5)) as found:
        copies = [file.path for file in found.files if file.path.parent != tmp_path]
        assert [copy.exists() for copy in copies] == [True]

    assert not copies[0].exists()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["one", "two"]


def test_shards_without_a_record_are_left_out(tmp_path: Path) -> None:
    """They are whole, and there is nothing in them to read."""
    shards = [write(tmp_path / "none", range(0)), write(tmp_path / "some", range(3))]

    assert checked(tmp_path, shards) == ([0, 1, 2], [])


class TestGzip:
    """Shards that are packed."""

    @pytest.fixture
    def packed(self, tmp_path: Path) -> list[Shard]:
        """One packed shard of many records, so that it has some length."""
        return [write(tmp_path / "shard.gz", range(200))]

    def test_they_are_read_where_they_are(self, tmp_path: Path, packed: list[Shard]) -> None:
        """By their name."""
        assert checked(tmp_path, packed) == (list(range(200)), [])

    def test_a_trailer_that_is_cut_costs_nothing(self, tmp_path: Path, packed: list[Shard]) -> None:
        """A2: TensorFlow reads it without a word; all records are there."""
        path = tmp_path / "shard.gz"
        path.write_bytes(path.read_bytes()[:-4])
        numbers, (damage,) = checked(tmp_path, packed, on_bad="skip")

        assert numbers == list(range(200))
        assert damage["lost"] == 0
        assert damage["faults"] == ({"offset": 200 * FRAME, "reason": "its gzip stream ends before its trailer"},)

    def test_a_stream_that_is_cut_is_read_up_to_there(self, tmp_path: Path, packed: list[Shard]) -> None:
        """The records before it are intact."""
        path = tmp_path / "shard.gz"
        path.write_bytes(path.read_bytes()[: packed[0].bytes // 2])
        numbers, (damage,) = checked(tmp_path, packed, on_bad="skip", max_bad_fraction=0.9)

        assert numbers == list(range(len(numbers)))
        assert 0 < len(numbers) == 200 - damage["lost"] < 200

    def test_a_flipped_bit_never_gives_a_wrong_record(self, tmp_path: Path, packed: list[Shard]) -> None:
        """Anywhere in the file: what is read was written, and what is lost is counted."""
        path = tmp_path / "shard.gz"
        whole = path.read_bytes()
        for offset in range(10, len(whole), 37):
            path.write_bytes(flipped(offset, 3)(whole))
            try:
                numbers, (damage,) = checked(tmp_path, packed, on_bad="skip", max_bad_fraction=1)
            except BadInput as refused:
                assert "200 of 200 records are lost" in str(refused)  # noqa: PT017 - either outcome is right
                continue

            assert len(numbers) == 200 - damage["lost"]
            assert len(set(numbers)) == len(numbers)


class TestWalk:
    """Records told from what is none."""

    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_records_are_counted(self, tmp_path: Path, suffix: str) -> None:
        """By their lengths."""
        write(tmp_path / f"shard{suffix}", range(23))

        assert record_walk.count_records(tmp_path / f"shard{suffix}") == 23

    def test_a_lookalike_of_a_record_is_not_taken_for_one(self) -> None:
        """A record whose data holds the bytes of another one: while the frames hold, it is data."""
        inner = framed(b"x" * 8)
        data = framed(inner) + framed(b"y")

        assert record_walk.walk(data) == ([framed(inner), framed(b"y")], [])

    def test_the_next_record_is_found_far_away(self) -> None:
        """Beyond any window that is searched at once."""
        rest = framed(b"after")
        data = b"\xff" * (9 << 20) + rest
        intact, faults = record_walk.walk(data)

        assert intact == [rest]
        assert [(fault.offset, fault.reason) for fault in faults] == [(0, "a record's header is damaged")]

    def test_any_bit_of_a_small_file_is_found_out(self) -> None:
        """No flipped bit goes unseen, and none costs more than its record."""
        data = b"".join(framed(bytes([n]) * n) for n in range(6))
        for offset in range(len(data)):
            intact, faults = record_walk.walk(flipped(offset, offset % 8)(data))

            assert len(intact) == 5
            assert len(faults) == 1

    def test_gzip_of_any_program_is_unpacked(self) -> None:
        """It need not be TensorFlow's."""
        assert record_walk.unpack(gzip.compress(b"content")) == (b"content", [])


def framed(data: bytes) -> bytes:
    """Returns a record in its frame."""

    def masked(content: bytes) -> bytes:
        crc = google_crc32c.value(content)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)
