"""Damage of a shard is found before training, reported with its offset, and costs no more than its own records."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.errors import BadInput
from components.records import checksum, verify
from components.records.manifest import Shard
from components.settings.input import Input
from components.storage.objects import ObjectPath

RECORDS = 40
SIZE = 100  # bytes of a record
FRAME = SIZE + 16
HERE = 17  # the record that is damaged
Fault = Callable[[bytes], bytes]


def record(number: int) -> bytes:
    """Returns a record that starts with its number, and contains zeros as most records do."""
    return bytes([number, 0, 0, 0, 0, 0, 0, 0] * (SIZE // 8)) + b"abcd"


def write(path: Path, numbers: range) -> Shard:
    """Writes a shard, and returns its entry in the manifest."""
    options = tf.io.TFRecordOptions("GZIP") if path.suffix == ".gz" else None
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for number in numbers:
            writer.write(record(number))
    return Shard("train", path.name, len(numbers), path.stat().st_size, checksum.of_file(path))


def flipped(offset: int, bit: int = 0) -> Fault:
    """Flips one bit."""
    return lambda data: data[:offset] + bytes([data[offset] ^ 1 << bit]) + data[offset + 1 :]


def read(verified: verify.Verified) -> list[int]:
    """Returns the numbers that TensorFlow reads from verified shards."""
    return [
        found[0]
        for shard in verified.shards
        for found in tf.data.TFRecordDataset(
            shard.name, "GZIP" if shard.name.endswith(".gz") else ""
        ).as_numpy_iterator()
    ]


def verified(home: Path, shards: list[Shard], **settings: Any) -> tuple[list[int], list[dict[str, Any]]]:
    """Returns the numbers that are read, and the damages."""
    with verify.verified(home, shards, Input(**settings)) as found:
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
        lambda data: data[FRAME:] + data[:FRAME], 0, "contains intact records that ingest did not write", 40,
    ),
}  # fmt: skip
CASES = [pytest.param(*fault, id=name) for name, fault in FAULTS.items()]


def test_intact_shards_are_read_from_the_artifact(tmp_path: Path, shards: list[Shard]) -> None:
    """Nothing is copied."""
    with verify.verified(tmp_path, shards, Input()) as found:
        assert [shard.name for shard in found.shards] == [str(tmp_path / "one"), str(tmp_path / "two")]
        assert read(found) == list(range(80))
        assert found.damages == ()


@pytest.mark.parametrize(("fault", "offset", "reason", "lost"), CASES)
def test_damage_stops_the_run_and_is_named(
    tmp_path: Path, shards: list[Shard], fault: Fault, offset: int, reason: str, lost: int
) -> None:
    """A1, A2: shard, byte offset, fault, loss, and what to do."""
    path = tmp_path / "one"
    path.write_bytes(fault(path.read_bytes()))

    with pytest.raises(BadInput) as stopped:
        verified(tmp_path, shards)

    first, advice = str(stopped.value).splitlines()
    assert first.startswith(f"{path}: {reason} at byte offset {offset:,}")
    assert first.endswith(f"{lost} of 40 records are lost" if lost else "no record is lost")
    assert advice == (
        "expected the shards that ingest wrote: run again with --force Ingest, or continue without the lost records "
        "(--set input.on_bad=skip)"
    )


@pytest.mark.parametrize(("fault", "offset", "reason", "lost"), CASES)
def test_intact_records_are_read_and_the_loss_is_reported(
    tmp_path: Path, shards: list[Shard], fault: Fault, offset: int, reason: str, lost: int
) -> None:
    """One flipped bit costs one record, wherever it is."""
    path = tmp_path / "one"
    path.write_bytes(fault(path.read_bytes()))
    numbers, (damage,) = verified(tmp_path, shards, on_bad="skip", max_bad_fraction=0.5)

    assert (damage["shard"], damage["records"], damage["lost"]) == ("one", 40, lost)
    assert damage["faults"][0] == {"offset": offset, "reason": reason}
    assert len(numbers) == 80 - lost
    assert set(numbers) <= set(range(80))
    assert len(set(numbers)) == len(numbers)


def test_all_faults_are_reported(tmp_path: Path, shards: list[Shard]) -> None:
    """Each with its offset."""
    path = tmp_path / "two"
    damaged = flipped(3 * FRAME + 50)(flipped(9 * FRAME)(path.read_bytes()))
    path.write_bytes(damaged)
    numbers, (damage,) = verified(tmp_path, shards, on_bad="skip", max_bad_fraction=0.5)

    assert [fault["offset"] for fault in damage["faults"]] == [3 * FRAME, 9 * FRAME]
    assert numbers == [n for n in range(80) if n not in {43, 49}]


def test_a_loss_above_the_limit_stops_the_run(tmp_path: Path, shards: list[Shard]) -> None:
    """Two of eighty are more than 1 %."""
    path = tmp_path / "two"
    path.write_bytes(flipped(3 * FRAME + 50)(flipped(9 * FRAME)(path.read_bytes())))

    with pytest.raises(BadInput, match=r"2 of 80 records are lost, more than input\.max_bad_fraction = 0\.01 allows"):
        verified(tmp_path, shards, on_bad="skip")


def test_a_deleted_shard_is_lost_whole(tmp_path: Path, shards: list[Shard]) -> None:
    """The run continues only if the settings allow that loss."""
    (tmp_path / "one").unlink()

    with pytest.raises(BadInput, match="one: cannot be read: No such file or directory at byte offset 0; 40 of 40"):
        verified(tmp_path, shards)
    assert verified(tmp_path, shards, on_bad="skip", max_bad_fraction=0.5)[0] == list(range(40, 80))


def test_no_record_left_stops_the_run(tmp_path: Path, shards: list[Shard]) -> None:
    """At any max_bad_fraction."""
    for name in ("one", "two"):
        (tmp_path / name).unlink()

    with pytest.raises(BadInput, match="80 of 80 records are lost"):
        verified(tmp_path, shards, on_bad="skip", max_bad_fraction=1)


def test_copies_are_deleted_afterwards(tmp_path: Path, shards: list[Shard]) -> None:
    """Nothing is written beside the shards."""
    path = tmp_path / "one"
    path.write_bytes(flipped(50)(path.read_bytes()))
    with verify.verified(tmp_path, shards, Input(on_bad="skip", max_bad_fraction=0.5)) as found:
        copies = [path for shard in found.shards if (path := Path(shard.name)).parent != tmp_path]
        assert [copy.exists() for copy in copies] == [True]

    assert not copies[0].exists()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["one", "two"]


def test_shards_without_records_are_left_out(tmp_path: Path) -> None:
    """They are intact, and there is nothing to read in them."""
    shards = [write(tmp_path / "none", range(0)), write(tmp_path / "some", range(3))]

    assert verified(tmp_path, shards) == ([0, 1, 2], [])


class TestGzip:
    """Compressed shards."""

    @pytest.fixture
    def compressed(self, tmp_path: Path) -> list[Shard]:
        """One compressed shard with many records."""
        return [write(tmp_path / "shard.gz", range(200))]

    def test_intact_ones_are_read_from_the_artifact(self, tmp_path: Path, compressed: list[Shard]) -> None:
        """Their names end in .gz."""
        assert verified(tmp_path, compressed) == (list(range(200)), [])

    def test_a_cut_trailer_costs_no_record(self, tmp_path: Path, compressed: list[Shard]) -> None:
        """A2: TensorFlow reads it silently; all records are there."""
        path = tmp_path / "shard.gz"
        path.write_bytes(path.read_bytes()[:-4])
        numbers, (damage,) = verified(tmp_path, compressed, on_bad="skip")

        assert numbers == list(range(200))
        assert damage["lost"] == 0
        assert damage["faults"] == ({"offset": 200 * FRAME, "reason": "its gzip stream ends before its trailer"},)

    def test_a_cut_stream_is_read_up_to_the_cut(self, tmp_path: Path, compressed: list[Shard]) -> None:
        """The records before it are intact, and the others are counted as lost."""
        path = tmp_path / "shard.gz"
        path.write_bytes(path.read_bytes()[: compressed[0].bytes // 2])
        numbers, (damage,) = verified(tmp_path, compressed, on_bad="skip", max_bad_fraction=0.9)

        assert numbers == list(range(len(numbers)))
        assert 0 < len(numbers) == 200 - damage["lost"] < 200

    @pytest.mark.slow
    def test_a_flipped_bit_never_gives_a_wrong_record(self, tmp_path: Path, compressed: list[Shard]) -> None:
        """Anywhere in the file: every record that is read was written, and every lost one is counted."""
        path = tmp_path / "shard.gz"
        whole = path.read_bytes()
        for offset in range(10, len(whole), 37):
            path.write_bytes(flipped(offset, 3)(whole))
            try:
                numbers, (damage,) = verified(tmp_path, compressed, on_bad="skip", max_bad_fraction=1)
            except BadInput as stopped:
                assert "200 of 200 records are lost" in str(stopped)  # noqa: PT017 - either outcome is right
                continue

            assert len(numbers) == 200 - damage["lost"]
            assert len(set(numbers)) == len(numbers)


def test_a_check_keeps_no_records_in_memory(tmp_path: Path) -> None:
    """Damage in every shard takes the memory of one shard, not of all."""
    shards, size = [], 1 << 20
    for number in range(8):
        path = tmp_path / str(number)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _ in range(4):
                writer.write(bytes(size // 4))
        shards.append(Shard("train", path.name, 4, path.stat().st_size, checksum.of_file(path)))
        path.write_bytes(flipped(50)(path.read_bytes()))
    tracemalloc.start()
    try:
        with pytest.raises(BadInput):
            verify.check(tmp_path, shards)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 5 * size


def test_a_store_that_cannot_be_asked_says_nothing_about_a_shard(
    s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is raised, even if damaged shards may be left out; a missing object is damage."""
    folder = ObjectPath(f"{s3_bucket}/examples")
    shards = [Shard("train", "Split-train/a", 1, 3, "x"), Shard("train", "Split-train/b", 9, 3, "x")]
    (folder / "Split-train/a").write_bytes(b"abc")
    assert {shard.name for shard in verify._damaged(folder, shards)} == {"Split-train/a", "Split-train/b"}
    assert verify._examine(folder, shards[1])[0].lost == 9

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-right-one")
    with pytest.raises(PermissionError):
        verify._damaged(folder, shards)
    with pytest.raises(PermissionError):
        verify._examine(folder, shards[0])
