"""Order comes from seed and epoch alone; a position is enough to go on with the very next batch."""

import os
import random
from collections import Counter
from typing import Any

import pytest
import tensorflow as tf

from components.input_pipeline import Position, RecordFile, Worker


class TestSeed:
    """Which order it is."""

    def test_every_epoch_has_another_order(self, world: Any) -> None:
        """No two of four epochs are alike, and none is as stored."""
        seen = world.epochs(world.reader().training(world.files), 4)

        assert len({tuple(each) for each in [*seen, range(world.records)]}) == 5

    def test_one_seed_gives_the_same_batches_byte_for_byte(self, world: Any) -> None:
        """Two pipelines built apart agree over two epochs, variations and all."""
        built = [world.content(world.reader(augment=True).training(world.files), 14) for _ in range(2)]

        assert built[0] == built[1]

    def test_other_random_numbers_do_not_matter(self, world: Any) -> None:
        """Neither a global seed nor whatever else draws some."""
        built = []
        for seed in (1, 2):
            tf.random.set_seed(seed)
            data = world.reader(augment=True).training(world.files)
            tf.random.uniform([seed])
            built.append(world.content(data))

        assert built[0] == built[1]

    @pytest.mark.parametrize("parallel", [1, 8])
    def test_the_number_of_cores_does_not_matter(self, world: Any, parallel: int) -> None:
        """One thread or eight give the batches that as many threads as cores give."""
        expected = world.content(world.reader(augment=True).training(world.files), 14)

        assert world.content(world.reader(augment=True, parallel=parallel).training(world.files), 14) == expected

    def test_neighbouring_seeds_share_no_epoch(self, world: Any) -> None:
        """The second epoch of one seed is not the first one of the next: runs to compare are to be independent."""
        one, next_one = (world.epochs(world.reader(seed).training(world.files), 3) for seed in (5, 6))

        assert len({tuple(each) for each in [*one, *next_one]}) == 6

    def test_shards_are_mixed(self, images: Any) -> None:
        """No full batch comes from fewer than three of the four shards."""
        (seen,) = images.epochs(images.reader().training(images.files), 1)
        batches = [seen[start : start + 16] for start in range(0, 96, 16)]

        assert min(len({min(number // 30, 3) for number in batch}) for batch in batches) >= 3

    def test_a_buffer_of_one_record_drops_nothing(self, images: Any) -> None:
        """Records may be as large as the budget: the order is then that of the interleaved shards."""
        huge = [RecordFile(file.path, file.records, file.records << 20) for file in images.files]
        seen = images.epochs(images.reader(shuffle_mb=1, ram_mb=4096).training(huge), 2)

        assert [sorted(each) for each in seen] == [list(range(97))] * 2
        assert Counter(min(number // 30, 3) for number in seen[0][:16]) == {0: 4, 1: 4, 2: 4, 3: 4}

    def test_the_fastest_order_is_still_every_record_once_an_epoch(self, world: Any) -> None:
        """Which order that is, is not promised."""
        seen = world.epochs(world.reader(order="fastest").training(world.files), 3)

        assert [sorted(each) for each in seen] == [list(range(world.records))] * 3


class TestResume:
    """Going on where a run was stopped."""

    @pytest.mark.parametrize(("kind", "positions"), [("number", 20), ("text", 4), ("image", 4)])
    def test_at_random_positions_the_very_next_batch_follows(self, worlds: Any, kind: str, positions: int) -> None:
        """Byte for byte, and so do those after it, into the next epochs."""
        world = worlds[kind]
        reader = world.reader(augment=True)
        whole = world.content(reader.training(world.files), 28)
        for step in random.Random(3).sample(range(21), positions):
            resumed = reader.training(world.files, Position(step // 7, step % 7))

            assert world.content(resumed, 4) == whole[step : step + 4]

    def test_a_full_epoch_is_the_beginning_of_the_next(self, world: Any) -> None:
        """However the position is written."""
        reader = world.reader()
        expected = world.content(reader.training(world.files, Position(1, 0)), 3)

        assert world.content(reader.training(world.files, Position(0, 7)), 3) == expected

    def test_what_was_seen_is_not_decoded_again(self, images: Any, write: Any) -> None:
        """A record that cannot be decoded stops an epoch, but not one that is entered after it."""
        shard = write("image", range(8))
        reader = images.reader(batch_size=1)
        (order,) = images.epochs(reader.training([shard]), 1, 8)
        content = shard.path.read_bytes()
        records = list(tf.data.TFRecordDataset(str(shard.path)).as_numpy_iterator())
        with tf.io.TFRecordWriter(str(shard.path)) as writer:
            for number, record in enumerate(records):
                writer.write(record.replace(b"\x89PNG", b"none") if number == order[0] else record)
        assert len(shard.path.read_bytes()) == len(content)

        with pytest.raises(tf.errors.InvalidArgumentError):
            images.epochs(reader.training([shard]), 1, 8)
        assert images.epochs(reader.training([shard], Position(0, 1)), 1, 7) == [order[1:]]

    def test_a_position_is_counted_on(self) -> None:
        """Steps become epochs."""
        assert Position(2, 5).after(3, 7) == Position(3, 1)
        assert Position().after(21, 7) == Position(3, 0)

    def test_a_position_before_the_beginning_is_refused(self) -> None:
        """With its values."""
        with pytest.raises(ValueError, match="position 0, -1: expected neither to be below 0"):
            Position(0, -1)


class TestWorkers:
    """Several that share the records."""

    @pytest.mark.parametrize(
        ("kind", "count"), [("number", 2), ("number", 5), ("number", 8), ("text", 3), ("image", 3)]
    )
    def test_all_workers_together_see_every_record_once_an_epoch(self, worlds: Any, kind: str, count: int) -> None:
        """By whole shards where they can be dealt out evenly, else by records."""
        world = worlds[kind]
        reader = world.reader()
        for epoch in range(2):
            seen: list[int] = []
            for index in range(count):
                worker = Worker(index, count)
                steps = reader.steps(world.files, worker)
                seen += world.epochs(reader.training(world.files, Position(epoch), worker), 1, steps)[0]

            assert sorted(seen) == list(range(world.records))

    def test_shares_are_even(self, world: Any) -> None:
        """No worker has many more records than another: they would wait for it."""
        reader = world.reader(batch_size=1)
        for count in (2, 3, 5, 8):
            shares = [reader.steps(world.files, Worker(index, count)) for index in range(count)]

            assert max(shares) - min(shares) <= len(world.files)

    def test_whole_shards_are_read_by_one_worker_if_there_are_enough(self, numbers: Any, write: Any) -> None:
        """So that no byte is read twice."""
        whole = write("number", range(64))
        records = list(tf.data.TFRecordDataset(str(whole.path)).as_numpy_iterator())
        shards = []
        for index in range(8):
            path = whole.path.with_name(f"part-{index}")
            with tf.io.TFRecordWriter(str(path)) as writer:
                for record in records[8 * index : 8 * index + 8]:
                    writer.write(record)
            shards.append(RecordFile(path, 8, path.stat().st_size))
        (first,) = numbers.epochs(numbers.reader().training(shards, worker=Worker(0, 2)), 1, 2)

        assert Counter(number // 8 for number in first) == dict.fromkeys({number // 8 for number in first}, 8)
        assert len(first) == 32

    def test_the_fastest_order_loses_no_record_among_workers(self, images: Any) -> None:
        """Who reads what does not depend on who is first."""
        reader = images.reader(order="fastest")
        seen = [
            number
            for index in range(3)
            for number in images.epochs(
                reader.training(images.files, worker=Worker(index, 3)),
                1,
                reader.steps(images.files, Worker(index, 3)),
            )[0]
        ]

        assert sorted(seen) == list(range(97))

    def test_evaluation_is_shared_too(self, numbers: Any) -> None:
        """Every record is measured by one worker."""
        reader, files = numbers.reader(), numbers.files
        seen = [n for i in range(3) for n in numbers.epochs(reader.evaluation(files, Worker(i, 3)), 1, 99)[0]]

        assert sorted(seen) == list(range(97))

    def test_a_worker_that_does_not_exist_is_refused(self) -> None:
        """With what was expected."""
        with pytest.raises(ValueError, match="worker 3 of 3: expected an index from 0 to 2"):
            Worker(3, 3)


def test_one_core_gives_the_same_batches(world: Any) -> None:
    """A process that may use one core only, with all settings at their defaults."""
    cores = os.sched_getaffinity(0)
    expected = world.content(world.reader(augment=True).training(world.files), 14)
    try:
        os.sched_setaffinity(0, {min(cores)})
        found = world.content(world.reader(augment=True).training(world.files), 14)
    finally:
        os.sched_setaffinity(0, cores)

    assert found == expected
