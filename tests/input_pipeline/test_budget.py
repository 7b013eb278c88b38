"""Megabytes become numbers; those that affect the order of records are the same on every machine."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from components.errors import SettingsError
from components.features import NotAugmented
from components.input_pipeline import budget
from components.input_pipeline.budget import Budget, DataSize
from components.settings.input import Input

MB = 1 << 20


@dataclass(frozen=True)
class Fake(NotAugmented):
    """A feature of some size."""

    decoded_bytes: int = 8
    is_ragged: bool = False
    is_costly: bool = False

    def spec(self) -> Any:
        """Never parsed."""

    def keras_input(self, name: str) -> Any:
        """Never seen by a model."""


IMAGE = Fake(224 * 224 * 3 * 2, is_costly=True)
TEXT = Fake(512 * 8, is_ragged=True)


def allocated(data: DataSize, *features: Fake, **settings: Any) -> Budget:
    """Returns the budget of some data."""
    return budget.allocate(Input(**{"parallel": 2, "batch_size": 64, **settings}), data, features or (Fake(),))


class TestBatchSize:
    """Records per batch."""

    @pytest.mark.parametrize(
        ("records", "size"),
        [
            (1, 32),
            (999, 32),
            (1_000, 64),
            (255_999, 64),
            (256_000, 128),
            (999_999, 128),
            (1_000_000, 256),
            (10**9, 256),
        ],
    )
    def test_it_grows_with_the_training_records(self, records: int, size: int) -> None:
        """If none is set; the number of records alone decides while they are small."""
        assert budget.batch_size(Input(), DataSize(records, 100 * records), [Fake()]) == size

    @pytest.mark.parametrize(
        ("stored", "feature", "size"),
        [(MB, Fake(MB), 32), (100, Fake(9 * MB), 4), (9 * MB, Fake(8), 4), (MB, Fake(500 * MB), 1), (100, TEXT, 64)],
    )
    def test_a_batch_of_large_records_is_smaller(self, stored: int, feature: Fake, size: int) -> None:
        """Stored and decoded, it has at most a 16th of the budget, here 64 MB."""
        assert budget.batch_size(Input(), DataSize(5_000, 5_000 * stored), [feature]) == size

    def test_a_setting_is_kept(self) -> None:
        """Whatever the data."""
        assert budget.batch_size(Input(batch_size=7), DataSize(10**6, 10**9), [IMAGE]) == 7


class TestPools:
    """Records parsed at once."""

    def test_small_records_come_in_blocks_and_pools_of_many_batches(self) -> None:
        """Sixteen records per block, about four thousand per pool."""
        sizes = allocated(DataSize(1_000_000, 100_000_000))

        assert (sizes.block, sizes.pool, sizes.block > 1) == (16, 64 * 64, True)

    def test_large_records_come_one_by_one_in_pools_of_a_batch(self) -> None:
        """From four kilobytes."""
        assert [allocated(DataSize(100_000, 100_000 * size)).block for size in (4095, 4096)] == [16, 1]
        assert allocated(DataSize(100_000, 100_000 * 4096)).pool == 64

    def test_costly_features_come_in_pools_of_a_batch(self) -> None:
        """However small they are stored."""
        sizes = allocated(DataSize(100_000, 100_000_00), IMAGE)

        assert (sizes.block, sizes.pool) == (1, 64)

    def test_texts_come_in_pools_of_pool_batches(self) -> None:
        """They are sorted by length."""
        assert allocated(DataSize(1_000_000, 250_000_000), TEXT, pool_batches=50).pool == 50 * 64

    def test_a_pool_is_no_larger_than_the_data(self) -> None:
        """Rounded up to a batch."""
        assert allocated(DataSize(100, 10_000)).pool == 128

    def test_a_pool_is_no_larger_than_an_eighth_of_the_budget(self) -> None:
        """In whole batches."""
        long = allocated(DataSize(100_000, 100_000 * 10_000), TEXT, ram_mb=256)

        assert 64 < long.pool < 100 * 64
        assert long.pool % 64 == 0
        assert long.pool * (2 * 10_064 + 8 * 10_064) <= 32 * MB


class TestShuffle:
    """Records in the shuffle buffer."""

    @pytest.mark.parametrize(
        ("records", "size", "megabytes", "expected"),
        [(1000, MB, 64, 63), (1000, MB, 4, 3), (10, MB, 64, 10), (1000, 100 * MB, 64, 1), (1, 1, 64, 1)],
        ids=["one megabyte each", "small buffer", "all fit", "none fits", "one record"],
    )
    def test_it_is_sized_by_the_mean_record(self, records: int, size: int, megabytes: int, expected: int) -> None:
        """At least one record, at most all."""
        sizes = allocated(DataSize(records, records * size), IMAGE, shuffle_mb=megabytes, batch_size=1, ram_mb=4096)

        assert sizes.shuffle == expected

    def test_the_overhead_of_strings_counts(self) -> None:
        """Small records need more memory than their bytes."""
        sizes = allocated(DataSize(100_000_000, 100_000_000 * 100), shuffle_mb=64)

        assert sizes.shuffle * sizes.block == pytest.approx(64 * MB / (100 + 64 + 20), rel=0.01)

    def test_it_shrinks_if_a_batch_needs_the_memory(self) -> None:
        """If both do not fit into the budget."""
        wide = allocated(DataSize(10_000, 10_000 * MB), IMAGE, batch_size=8, ram_mb=80, shuffle_mb=64)

        assert 1 <= wide.shuffle < 32

    def test_large_records_count_twice(self) -> None:
        """Each open shard has a thread, and each thread its own heap arena."""
        small, large = (
            allocated(DataSize(10_000, 10_000 * size), Fake(size), ram_mb=400, shuffle_mb=400, batch_size=1)
            for size in ((1 << 16) - 1, 1 << 16)
        )

        assert large.shuffle == pytest.approx(small.shuffle / 2, rel=0.01)


class TestInMemory:
    """Whether all records stay in memory, serialized."""

    @pytest.mark.parametrize(("ram_mb", "is_held"), [(140, False), (141, True)])
    def test_up_to_an_eighth_of_the_budget(self, ram_mb: int, is_held: bool) -> None:
        """100,000 records of 100 bytes need 17.5 MB, and six partial blocks at the ends of shards."""
        sizes = allocated(DataSize(100_000, 10_000_000, 6, is_plain=True), ram_mb=ram_mb, shuffle_mb=1)

        assert (sizes.in_memory, sizes.shuffle == 6250 + 6) == (is_held, is_held)

    @pytest.mark.parametrize(
        ("data", "feature"),
        [
            (DataSize(1000, 100_000, 2, is_plain=False), Fake()),
            (DataSize(1000, 5_000_000, 2, is_plain=True), Fake()),
            (DataSize(1000, 100_000, 2, is_plain=True), IMAGE),
        ],
        ids=["gzip", "large", "costly to decode"],
    )
    def test_gzip_large_and_costly_records_are_not(self, data: DataSize, feature: Fake) -> None:
        """The size of gzip records is unknown; for the others reading is a small part of the work."""
        assert not allocated(data, feature).in_memory

    def test_it_counts_against_the_budget(self) -> None:
        """Less is left for the autotuner."""
        few, many = (allocated(DataSize(n, n * 1000, 1, is_plain=True)) for n in (10_000, 100_000))

        assert few.left_mb - many.left_mb == pytest.approx(90_000 * (1064 + 20) / MB, abs=1)


class TestReading:
    """Shards read at once."""

    def test_as_many_as_set(self) -> None:
        """If that is a small part of the budget."""
        assert allocated(DataSize(1000, 1000 * 1000), interleave=7).cycle == 7

    def test_fewer_if_records_are_large(self) -> None:
        """Reading ahead takes at most an eighth of the budget."""
        assert allocated(DataSize(1000, 1000 * 5 * MB), IMAGE, interleave=16, batch_size=1, ram_mb=512).cycle == 2


class TestMachine:
    """Threads and prefetched batches."""

    def test_parallel_and_prefetch_change_nothing_else(self) -> None:
        """So the order of records is the same on every machine."""
        data = DataSize(1_000_000, 1_000_000 * 300)
        one, many = (allocated(data, TEXT, parallel=n, prefetch=n) for n in (1, 64))

        assert replace(many, parallel=1, prefetch=1, left_mb=0) == replace(one, prefetch=1, left_mb=0)
        assert many.parallel > 1

    def test_at_least_sixteen_small_batches_are_prefetched(self) -> None:
        """They are used up before the next pool is ready; more can be set."""
        small, large = DataSize(1_000_000, 1_000_000 * 300), DataSize(100_000, 100_000 * 5000)

        assert [allocated(data, prefetch=n).prefetch for data in (small, large) for n in (2, 40)] == [16, 40, 2, 40]

    def test_one_pool_per_core_is_in_work_by_default(self) -> None:
        """Only cores that the process may use count."""
        assert allocated(DataSize(10_000, 10_000 * 1000), parallel=0).parallel == budget.cores()

    def test_fewer_are_in_work_if_they_do_not_fit(self) -> None:
        """Large images in a small budget."""
        data = DataSize(10_000, 10_000 * MB)

        assert allocated(data, IMAGE, parallel=8, prefetch=8, ram_mb=400, shuffle_mb=1, batch_size=32).parallel < 8
        assert allocated(data, IMAGE, parallel=8, prefetch=8, ram_mb=8000, shuffle_mb=1, batch_size=32).parallel == 8

    def test_the_rest_is_for_the_autotuner(self) -> None:
        """At least one megabyte."""
        assert 700 < allocated(DataSize(10_000, 10_000 * 1000), shuffle_mb=64).left_mb < 0.8 * 1024
        assert allocated(DataSize(10_000, 10_000 * MB), IMAGE, ram_mb=500, shuffle_mb=500).left_mb >= 1


class TestTooSmall:
    """Budgets that are rejected."""

    def test_a_batch_that_does_not_fit(self) -> None:
        """The message gives the memory needed and what to change."""
        with pytest.raises(SettingsError) as rejected:
            allocated(DataSize(100, 100 * 5 * MB), IMAGE, ram_mb=100)

        assert str(rejected.value) == (
            "a batch of 64 records of 5,242,880 bytes needs 1,355 MB; input.ram_mb is 100: "
            "lower input.batch_size or input.interleave, or raise input.ram_mb"
        )

    def test_a_cache_that_does_not_fit(self) -> None:
        """The message gives its size."""
        with pytest.raises(SettingsError) as rejected:
            allocated(DataSize(100_000, 100_000 * 1000), Fake(28 * 28), cache="memory", ram_mb=64)

        assert str(rejected.value).startswith(
            "input.cache=memory: 100,000 decoded records need 124 MB, and a batch of 64"
        )
        assert str(rejected.value).endswith("input.ram_mb is 64: raise it, or set input.cache to file or none")
