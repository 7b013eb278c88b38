"""The sentence about the input: what was measured, in words, and nothing that was not."""

import pytest

from components.diagnosis import (
    Demand,
    Remedy,
    Stage,
    cores_for,
    limit,
    remedies,
    renewed,
    shares_of,
    verdict,
)

DECODING = (Stage("read", 50), Stage("parse", 50), Stage("decode", 700), Stage("augment", 150), Stage("batch", 50))


class TestVerdict:
    """One sentence."""

    def test_the_whole_of_it(self) -> None:
        """How much, where, and what to do about it."""
        said = verdict(0.34, DECODING, [Remedy("store at 256 px", 2.2), Remedy("use 4 cores")])

        assert said == "input-bound 34 %: decoding is the limit; store at 256 px (2.2x) or use 4 cores"

    def test_a_device_that_hardly_waits(self) -> None:
        """Advice is for those who need it."""
        assert verdict(0.049, DECODING, [Remedy("use 4 cores")]) == "not input-bound: the device waits 5 % of the time"

    def test_another_share_keeps_the_reason(self) -> None:
        """Stages are measured once; how long training waits is measured in every epoch."""
        said = verdict(0.34, DECODING, [Remedy("use 4 cores")])

        assert renewed(said, 0.2) == "input-bound 20 %: decoding is the limit; use 4 cores"
        assert renewed(said, 0.01) == "not input-bound: the device waits 1 % of the time"
        assert renewed("", 0.2) == verdict(0.2)

    def test_without_stages_it_says_where_to_look(self) -> None:
        """A trainer knows how long it waited, not for what."""
        assert verdict(0.5) == "input-bound 50 %: run `penstock bench input` to find the stage that is the limit"

    def test_without_remedies_it_ends_with_the_limit(self) -> None:
        """Nothing is made up."""
        assert verdict(0.2, DECODING) == "input-bound 20 %: decoding is the limit"

    def test_three_remedies_are_enough(self) -> None:
        """The best ones, that is the first."""
        said = verdict(0.2, DECODING, [Remedy(name, 2.0) for name in "abcd"])

        assert said == "input-bound 20 %: decoding is the limit; a (2.0x) or b (2.0x) or c (2.0x)"


class TestLimit:
    """The stage that holds the others up."""

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("read", "reading is the limit"),
            ("parse", "parsing is the limit"),
            ("decode", "decoding is the limit"),
            ("augment", "augmentation is the limit"),
            ("batch", "batching is the limit"),
            ("tokenise", "tokenise is the limit"),
        ],
    )
    def test_the_largest_share(self, name: str, said: str) -> None:
        """By its name; a stage that is not known by its own."""
        assert limit([Stage(name, 60), Stage("other", 40)]) == said

    def test_no_single_one(self) -> None:
        """Then the largest are named with their shares."""
        stages = [Stage("read", 30), Stage("parse", 35), Stage("decode", 20), Stage("batch", 15)]

        assert limit(stages) == "no single stage is the limit (parsing 35 %, reading 30 %, decoding 20 %)"

    def test_a_stage_that_seems_to_cost_less_than_nothing_costs_nothing(self) -> None:
        """Differences of measurements may be negative."""
        assert shares_of([Stage("read", 75), Stage("parse", -5), Stage("decode", 25)]) == {
            "read": 0.75,
            "parse": 0.0,
            "decode": 0.25,
        }

    def test_nothing_measured(self) -> None:
        """No share is made up."""
        assert shares_of([Stage("read", 0.0)]) == {}


class TestRemedies:
    """What would help, from what was measured."""

    def test_cores_follow_from_the_cost_of_a_sample(self) -> None:
        """3,500 samples a second of 1,000 µs each take three and a half cores."""
        assert cores_for(DECODING, Demand(device_rate=3500, input_rate=1800, cores=2)) == 4

    def test_what_suffices_comes_first(self) -> None:
        """A remedy that is not enough ranks after more cores."""
        demand = Demand(device_rate=3600, input_rate=1800, cores=2)
        tried = [Remedy("order=fastest", 1.2), Remedy("store at 256 px", 2.2), Remedy("interleave=8", 1.02)]

        assert remedies(DECODING, demand, measured=tried) == (
            Remedy("store at 256 px", 2.2),
            Remedy("use 4 cores"),
            Remedy("order=fastest", 1.2),
        )

    def test_a_cache_leaves_out_what_comes_before_the_random_part(self) -> None:
        """Four fifths of the work: five times as fast."""
        demand = Demand(device_rate=1900, input_rate=1800, cores=2)

        (cache,) = remedies(DECODING, demand, fits_in_memory=True)
        assert cache.what == "input.cache=memory"
        assert cache.gain == pytest.approx(5)

    def test_a_cache_that_gains_nothing_is_not_named(self) -> None:
        """Nor are cores that are there already."""
        stages = [Stage("read", 1), Stage("augment", 99)]

        assert remedies(stages, Demand(1900, 1800, 2), fits_in_memory=True) == ()
