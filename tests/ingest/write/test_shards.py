"""The split of a file depends on its content alone: the same on any machine, in any order."""

import hashlib
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from components.ingest.write.shards import PlainSplits, name_of, numbered, split_of
from components.settings.splits import Splits


def digests(count: int) -> list[str]:
    """Returns hashes of random contents."""
    contents = random.Random(0)
    return [hashlib.sha256(contents.randbytes(16)).hexdigest() for _ in range(count)]


@given(fractions=st.tuples(st.integers(1, 98), st.integers(1, 98)).filter(lambda parts: sum(parts) < 100))
def test_the_same_bytes_are_in_the_same_split(fractions: tuple[int, int]) -> None:
    """Promise A6: path, label, size and other files do not matter; with or without pydantic."""
    splits = Splits(train=fractions[0] / 100, eval=fractions[1] / 100, test=(100 - sum(fractions)) / 100)
    plain = PlainSplits(splits.fractions(), splits.salt, splits.stratify)

    assert [split_of(each, splits) for each in digests(50)] == [split_of(each, plain) for each in digests(50)]


def test_the_fractions_are_approached() -> None:
    """5,000 random contents fall as the settings say, within two percent of all."""
    splits = Splits(train=0.7, eval=0.2, test=0.1)
    counts = Counter(split_of(each, splits) for each in digests(5_000))

    assert all(abs(counts[name] / 5_000 - fraction) < 0.02 for name, fraction in splits.fractions())


def test_another_salt_is_another_split() -> None:
    """About as many files change splits as by chance: 1 - (0.8² + 0.1² + 0.1²) = 34 %."""
    moved = sum(split_of(each, Splits()) != split_of(each, Splits(salt="other")) for each in digests(5_000))

    assert 0.31 < moved / 5_000 < 0.37


def test_a_shard_is_named_as_tfx_readers_expect() -> None:
    """Split folder, index and number of shards."""
    assert name_of("eval", numbered(3, 12)) == "Split-eval/data_tfrecord-00003-of-00012"
    assert name_of("eval", numbered(3, 12, "s00001")) == "Split-eval/data_tfrecord-s00001-00003-of-00012"
