"""The order depends on seed and epoch alone; a Position is enough to resume with the next batch."""

import os
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.input_pipeline import Position, RecordFile, Worker

pytestmark = pytest.mark.slow

MORE_POSITIONS = [pytest.param(kind, 4, marks=pytest.mark.all) for kind in ("text", "image")]
MORE_WORKERS = [pytest.param(kind, 3, marks=pytest.mark.all) for kind in ("text", "image")]


def labels(batches: list[tuple[bytes, tuple[int, ...], bytes]]) -> list[tuple[int, ...]]:
    """Returns the records of each epoch of seven batches."""
    numbers = [np.frombuffer(stored, np.int64).tolist() for _, _, stored in batches]
    return [tuple(n for batch in numbers[start : start + 7] for n in batch) for start in range(0, len(batches), 7)]


class TestSeed:
    """What determines the order."""

    def test_every_epoch_has_another_order(self, records: Any, baselines: Any) -> None:
        """Four epochs differ from each other and from the stored order."""
        assert len({*labels(baselines(records)), tuple(range(97))}) == 5

    @pytest.mark.parametrize(
        "settings", [pytest.param({"parallel": 1}, marks=pytest.mark.all), {"parallel": 8}], ids=str
    )
    def test_the_number_of_threads_does_not_matter(self, records: Any, baselines: Any, settings: Any) -> None:
        """Batches are equal byte for byte over two epochs, augmentation included."""
        found = records.content(records.reader(augment=True, **settings).training(records.files), 14)

        assert found == baselines(records)[:14]

    def test_one_core_gives_the_same_batches(self, records: Any, baselines: Any) -> None:
        """A process that may use one core only, with default settings."""
        expected, cores = baselines(records)[:14], os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {min(cores)})
            found = records.content(records.reader(augment=True).training(records.files), 14)
        finally:
            os.sched_setaffinity(0, cores)

        assert found == expected

    def test_the_global_seed_does_not_matter(self, records: Any, baselines: Any) -> None:
        """Nor do other random numbers that a program draws."""
        tf.random.set_seed(2)
        data = records.reader(augment=True).training(records.files)
        tf.random.uniform([2])

        assert records.content(data) == baselines(records)[:7]

    def test_neighbouring_seeds_share_no_epoch(self, records: Any, baselines: Any) -> None:
        """The second epoch of one seed is not the first of the next: runs with different seeds are independent."""
        other = records.epochs(records.reader(6).training(records.files), 2)

        assert len({*labels(baselines(records)), *map(tuple, other)}) == 6

    def test_shards_are_interleaved(self, images: Any, baselines: Any) -> None:
        """No full batch comes from fewer than three of the four shards."""
        seen = labels(baselines(images))[0]
        batches = [seen[start : start + 16] for start in range(0, 96, 16)]

        assert min(len({min(number // 30, 3) for number in batch}) for batch in batches) >= 3

    def test_a_shuffle_buffer_of_one_record_loses_nothing(self, images: Any) -> None:
        """Records may be as large as the budget; the order is then that of the interleaved shards."""
        huge = [RecordFile(file.path, file.records, file.records << 20) for file in images.files]
        seen = images.epochs(images.reader(shuffle_mb=1, ram_mb=4096).training(huge), 2)

        assert [sorted(epoch) for epoch in seen] == [list(range(97))] * 2
        assert Counter(min(number // 30, 3) for number in seen[0][:16]) == {0: 4, 1: 4, 2: 4, 3: 4}

    def test_the_fastest_order_has_every_record_once_per_epoch(self, images: Any) -> None:
        """Its order is not defined."""
        seen = images.epochs(images.reader(order="fastest").training(images.files), 3)

        assert [sorted(epoch) for epoch in seen] == [list(range(97))] * 3


class TestResume:
    """Training continues where it was stopped."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("kind", "positions"), [("number", 8), *MORE_POSITIONS])
    def test_at_random_positions_the_next_batches_follow(
        self, kinds: Any, baselines: Any, kind: str, positions: int
    ) -> None:
        """Byte for byte, into the next epochs."""
        records = kinds[kind]
        reader, expected = records.reader(augment=True), baselines(records)
        for step in [0, 6, *random.Random(3).sample(range(21), positions - 2)]:
            resumed = reader.training(records.files, Position(step // 7, step % 7))

            assert records.content(resumed, 4) == expected[step : step + 4]

    def test_a_full_epoch_is_the_start_of_the_next(self, numbers: Any, baselines: Any) -> None:
        """Position(0, 7) is Position(1, 0)."""
        reader = numbers.reader(augment=True)

        assert numbers.content(reader.training(numbers.files, Position(0, 7)), 3) == baselines(numbers)[7:10]

    def test_records_before_the_position_are_not_decoded(self, images: Any, write: Any) -> None:
        """A record that cannot be decoded stops an epoch, but not one that resumes after it."""
        shard = write("image", range(8))
        reader = images.reader(batch_size=1)
        (order,) = images.epochs(reader.training([shard]), 1, 8)
        content = shard.path.read_bytes()
        stored = list(tf.data.TFRecordDataset(str(shard.path)).as_numpy_iterator())
        with tf.io.TFRecordWriter(str(shard.path)) as writer:
            for number, record in enumerate(stored):
                writer.write(record.replace(b"\x89PNG", b"none") if number == order[0] else record)
        assert len(shard.path.read_bytes()) == len(content)

        with pytest.raises(tf.errors.InvalidArgumentError):
            images.epochs(reader.training([shard]), 1, 8)
        assert images.epochs(reader.training([shard], Position(0, 1)), 1, 7) == [order[1:]]

    def test_steps_become_epochs(self) -> None:
        """A position some steps later."""
        assert Position(2, 5).after(3, 7) == Position(3, 1)
        assert Position().after(21, 7) == Position(3, 0)

    def test_a_negative_position_is_rejected(self) -> None:
        """With its values."""
        with pytest.raises(ValueError, match=r"position \(epoch 0, step -1\): expected 0 or more"):
            Position(0, -1)


class TestWorkers:
    """Several workers share the records."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("kind", "count"), [("number", 5), *MORE_WORKERS])
    def test_all_workers_together_read_every_record_once_per_epoch(self, kinds: Any, kind: str, count: int) -> None:
        """By whole shards if they divide evenly, else by records; in the fastest order too."""
        records = kinds[kind]
        reader = records.reader(order="fastest" if kind == "image" else "exact")
        seen: list[list[int]] = [[], []]
        for index in range(count):
            worker = Worker(index, count)
            steps = reader.steps(records.files, worker)
            found = records.epochs(reader.training(records.files, worker=worker), 2, steps)
            seen = [before + mine for before, mine in zip(seen, found, strict=True)]

        assert [sorted(epoch) for epoch in seen] == [list(range(97))] * 2

    def test_shares_are_even(self, numbers: Any) -> None:
        """No worker has many more records than another, or the others would wait for it."""
        reader = numbers.reader(batch_size=1)
        for count in (2, 3, 5, 8):
            shares = [reader.steps(numbers.files, Worker(index, count)) for index in range(count)]

            assert (sum(shares), max(shares) - min(shares) <= len(numbers.files)) == (97, True)

    def test_whole_shards_are_read_by_one_worker_if_they_divide_evenly(self, numbers: Any, write: Any) -> None:
        """So that no byte is read twice."""
        whole = write("number", range(64))
        stored = list(tf.data.TFRecordDataset(str(whole.path)).as_numpy_iterator())
        shards = []
        for index in range(8):
            path = whole.path.with_name(f"part-{index}")
            with tf.io.TFRecordWriter(str(path)) as writer:
                for record in stored[8 * index : 8 * index + 8]:
                    writer.write(record)
            shards.append(RecordFile(path, 8, path.stat().st_size))
        (first,) = numbers.epochs(numbers.reader().training(shards, worker=Worker(0, 2)), 1, 2)

        assert Counter(number // 8 for number in first) == dict.fromkeys({number // 8 for number in first}, 8)
        assert len(first) == 32

    def test_evaluation_is_shared_too(self, numbers: Any) -> None:
        """Every record is evaluated by one worker."""
        reader, files = numbers.reader(), numbers.files
        seen = [n for i in range(3) for n in numbers.epochs(reader.evaluation(files, Worker(i, 3)), 1, 99)[0]]

        assert sorted(seen) == list(range(97))

    def test_a_worker_out_of_range_is_rejected(self) -> None:
        """With the expected range."""
        with pytest.raises(ValueError, match="worker 3 of 3: expected an index from 0 to 2"):
            Worker(3, 3)
