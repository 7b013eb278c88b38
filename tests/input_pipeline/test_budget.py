"""Sizes in megabytes become numbers, the same on any machine where they decide about the order of records."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from components.errors import SettingsError
from components.features import Unvaried
from components.input_pipeline import budget
from components.input_pipeline.budget import Data, Plan
from components.settings.input import Input

MB = 1 << 20


@dataclass(frozen=True)
class Fake(Unvaried):
    """A feature of some size."""

    decoded_bytes: int = 8
    is_ragged: bool = False
    is_costly: bool = False

    def spec(self) -> Any:
        """It is never parsed."""

    def keras_input(self, name: str) -> Any:
        """Nor seen by a model."""


IMAGE = Fake(224 * 224 * 3 * 2, is_costly=True)
TEXT = Fake(512 * 8, is_ragged=True)


def planned(data: Data, *features: Fake, **settings: Any) -> Plan:
    """Returns the plan of settings for some data."""
    return budget.plan(Input(**{"parallel": 2, **settings}), data, features or (Fake(),))


class TestPools:
    """What is parsed at once."""

    def test_small_records_come_in_blocks_and_pools_of_many_batches(self) -> None:
        """Sixteen at a time through the shuffle, some four thousand parsed at once."""
        plan = planned(Data(1_000_000, 100_000_000))

        assert (plan.block, plan.pool, plan.is_pooled) == (16, 64 * 64, True)

    def test_large_records_come_one_by_one_in_pools_of_a_batch(self) -> None:
        """From four kilobytes on."""
        assert [planned(Data(100_000, 100_000 * size)).block for size in (4095, 4096)] == [16, 1]
        assert planned(Data(100_000, 100_000 * 4096)).pool == 64

    def test_what_is_costly_to_decode_comes_in_pools_of_a_batch(self) -> None:
        """However small it is stored."""
        plan = planned(Data(100_000, 100_000_00), IMAGE)

        assert (plan.block, plan.pool) == (1, 64)

    def test_texts_come_in_pools_of_as_many_batches_as_are_wanted(self) -> None:
        """To be sorted by length."""
        assert planned(Data(1_000_000, 250_000_000), TEXT, pool_batches=50).pool == 50 * 64

    def test_a_pool_is_no_larger_than_the_data(self) -> None:
        """Rounded up to a batch."""
        assert planned(Data(100, 10_000)).pool == 128

    def test_a_pool_is_no_larger_than_an_eighth_of_the_budget(self) -> None:
        """In whole batches."""
        long = planned(Data(100_000, 100_000 * 10_000), TEXT, ram_mb=256)

        assert 64 < long.pool < 100 * 64
        assert long.pool % 64 == 0
        assert long.pool * (2 * 10_064 + 8 * 10_064) <= 32 * MB


class TestShuffle:
    """How many records are held for shuffling."""

    @pytest.mark.parametrize(
        ("records", "size", "megabytes", "held"),
        [(1000, MB, 64, 63), (1000, MB, 4, 3), (10, MB, 64, 10), (1000, 100 * MB, 64, 1), (1, 1, 64, 1)],
        ids=["a megabyte each", "a small buffer", "all fit", "none fits", "one"],
    )
    def test_records_are_counted_by_their_size(self, records: int, size: int, megabytes: int, held: int) -> None:
        """At least one, at most all of them."""
        plan = planned(Data(records, records * size), IMAGE, shuffle_mb=megabytes, batch_size=1, ram_mb=4096)

        assert plan.shuffle == held

    def test_what_a_string_costs_beside_its_bytes_counts(self) -> None:
        """Small records take more than they have."""
        plan = planned(Data(100_000_000, 100_000_000 * 100), shuffle_mb=64)

        assert plan.shuffle * plan.block == pytest.approx(64 * MB / (100 + 64 + 20), rel=0.01)

    def test_it_gives_way_to_a_batch(self) -> None:
        """Where both do not fit into the budget."""
        wide = planned(Data(10_000, 10_000 * MB), IMAGE, batch_size=8, ram_mb=80, shuffle_mb=64)

        assert 1 <= wide.shuffle < 32

    def test_large_records_count_twice(self) -> None:
        """Each open shard has a thread, and each thread a part of the heap of its own."""
        small, large = (
            planned(Data(10_000, 10_000 * size), Fake(size), ram_mb=400, shuffle_mb=400, batch_size=1)
            for size in ((1 << 16) - 1, 1 << 16)
        )

        assert large.shuffle == pytest.approx(small.shuffle / 2, rel=0.01)


class TestHeld:
    """Whether all records stay in memory."""

    @pytest.mark.parametrize(("ram_mb", "is_held"), [(140, False), (141, True)])
    def test_up_to_an_eighth_of_the_budget(self, ram_mb: int, is_held: bool) -> None:
        """A hundred thousand of 100 bytes take 17.5 MB, and six blocks for the ends of shards."""
        plan = planned(Data(100_000, 10_000_000, 6, is_plain=True), ram_mb=ram_mb, shuffle_mb=1)

        assert (plan.held, plan.shuffle == 6250 + 6) == (is_held, is_held)

    @pytest.mark.parametrize(
        ("data", "feature"),
        [
            (Data(1000, 100_000, 2, is_plain=False), Fake()),
            (Data(1000, 5_000_000, 2, is_plain=True), Fake()),
            (Data(1000, 100_000, 2, is_plain=True), IMAGE),
        ],
        ids=["packed", "large", "costly to decode"],
    )
    def test_what_is_not(self, data: Data, feature: Fake) -> None:
        """Nobody knows what packed records take; of the others reading is a small part."""
        assert not planned(data, feature).held

    def test_it_counts(self) -> None:
        """What is held is not left for others."""
        few, many = (planned(Data(n, n * 1000, 1, is_plain=True)) for n in (10_000, 100_000))

        assert few.left_mb - many.left_mb == pytest.approx(90_000 * (1064 + 20) / MB, abs=1)


class TestReading:
    """How many shards are read at once."""

    def test_as_many_as_are_wanted(self) -> None:
        """While that is a small part of the budget."""
        assert planned(Data(1000, 1000 * 1000), interleave=7).cycle == 7

    def test_fewer_where_records_are_large(self) -> None:
        """What waits for its turn is at most an eighth of the budget."""
        assert planned(Data(1000, 1000 * 5 * MB), IMAGE, interleave=16, batch_size=1, ram_mb=512).cycle == 2


class TestMachine:
    """What gets what is left."""

    def test_cores_and_batches_ahead_change_nothing_else(self) -> None:
        """So the order of records is the same on any machine."""
        data = Data(1_000_000, 1_000_000 * 300)
        one, many = (planned(data, TEXT, parallel=n, prefetch=n) for n in (1, 64))

        assert replace(many, parallel=1, prefetch=1, left_mb=0) == replace(one, prefetch=1, left_mb=0)
        assert many.parallel > 1

    def test_batches_that_come_many_at_once_are_ready_in_numbers(self) -> None:
        """They are small, and gone before the next pool is there; more may be asked for."""
        small, large = Data(1_000_000, 1_000_000 * 300), Data(100_000, 100_000 * 5000)

        assert [planned(data, prefetch=n).prefetch for data in (small, large) for n in (2, 40)] == [16, 40, 2, 40]

    def test_one_batch_a_core_is_in_the_making_by_default(self) -> None:
        """As far as the process may use them."""
        assert planned(Data(10_000, 10_000 * 1000), parallel=0).parallel == budget.cores()

    def test_fewer_are_made_at_once_where_they_do_not_fit(self) -> None:
        """Large images in a small budget."""
        data = Data(10_000, 10_000 * MB)

        assert planned(data, IMAGE, parallel=8, prefetch=8, ram_mb=400, shuffle_mb=1, batch_size=32).parallel < 8
        assert planned(data, IMAGE, parallel=8, prefetch=8, ram_mb=8000, shuffle_mb=1, batch_size=32).parallel == 8

    def test_what_is_left_is_for_the_autotuner(self) -> None:
        """Never nothing."""
        assert 700 < planned(Data(10_000, 10_000 * 1000), shuffle_mb=64).left_mb < 0.8 * 1024
        assert planned(Data(10_000, 10_000 * MB), IMAGE, ram_mb=500, shuffle_mb=500).left_mb >= 1


class TestRefused:
    """Budgets that cannot be kept."""

    def test_a_batch_that_does_not_fit(self) -> None:
        """With what it takes, and what helps."""
        with pytest.raises(SettingsError) as refused:
            planned(Data(100, 100 * 5 * MB), IMAGE, ram_mb=100)

        assert str(refused.value) == (
            "a batch of 64 records of 5,242,880 bytes takes 1,355 MB while it is made, input.ram_mb is 100: "
            "lower input.batch_size or input.interleave, or raise input.ram_mb"
        )

    def test_a_cache_that_does_not_fit(self) -> None:
        """With its size."""
        with pytest.raises(SettingsError) as refused:
            planned(Data(100_000, 100_000 * 1000), Fake(28 * 28), cache="memory", ram_mb=64)

        assert str(refused.value).startswith(
            "input.cache=memory: 100,000 decoded records take 124 MB, and a batch of 64"
        )
        assert str(refused.value).endswith("input.ram_mb is 64: raise it, or take input.cache=file or none")
