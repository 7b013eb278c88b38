"""Split and shard of a file depend on its content alone: the same on any machine, in any order."""

import hashlib
import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from components.ingest.sources import SourceFile
from components.ingest.survey.listing import ListedFile
from components.ingest.write.shards import ShardFiles, assign, split_of
from components.settings.ingest import Ingest
from components.settings.splits import Splits

MB = 1 << 20


def file(path: str, content: bytes, size: int = 1_000) -> ListedFile:
    """Returns a listed file."""
    return ListedFile(SourceFile(path, path.partition("/")[0]), size, hashlib.sha256(content).hexdigest())


def many(count: int, size: int = 1_000) -> list[ListedFile]:
    """Returns files with different contents."""
    return [file(f"cats/{index}.jpg", b"%d" % index, size) for index in range(count)]


# Few contents among many paths: duplicates are frequent.
FILES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3 * MB)), max_size=60).map(
    lambda drawn: [file(f"c{at % 3}/{at}.jpg", b"%d" % what, size) for at, (what, size) in enumerate(drawn)]
)
FRACTIONS = st.tuples(st.integers(1, 98), st.integers(1, 98)).filter(lambda parts: sum(parts) < 100)
INGESTS = st.builds(
    lambda fractions, salt, shard_mb, min_shards: Ingest(
        splits=Splits(
            train=fractions[0] / 100, eval=fractions[1] / 100, test=(100 - sum(fractions)) / 100, salt=salt
        ),
        shard_mb=shard_mb,
        min_shards=min_shards,
    ),
    FRACTIONS, st.text(max_size=5), st.integers(1, 8), st.integers(1, 12),
)  # fmt: skip


@given(files=FILES, ingest=INGESTS)
def test_every_file_is_in_exactly_one_shard(files: list[ListedFile], ingest: Ingest) -> None:
    """No file is lost, and none is there twice."""
    dealt = Counter(item.file.path for shard in assign(files, ingest) for item in shard.files)

    assert dealt == Counter(item.file.path for item in files)


@given(files=FILES, ingest=INGESTS)
def test_every_file_is_in_the_split_of_its_content(files: list[ListedFile], ingest: Ingest) -> None:
    """Path, label, size and other files do not matter."""
    for shard in assign(files, ingest):
        assert {split_of(item.sha256, ingest.splits) for item in shard.files} <= {shard.split}


@given(files=FILES, ingest=INGESTS)
def test_the_same_bytes_are_in_the_same_split(files: list[ListedFile], ingest: Ingest) -> None:
    """Promise A6: no exact duplicate leaks from train to test."""
    splits: dict[str, set[str]] = {}
    for shard in assign(files, ingest):
        for item in shard.files:
            splits.setdefault(item.sha256, set()).add(shard.split)

    assert [names for names in splits.values() if len(names) > 1] == []


@given(files=FILES, ingest=INGESTS, seed=st.randoms(use_true_random=False))
def test_the_order_of_the_files_does_not_matter(files: list[ListedFile], ingest: Ingest, seed: random.Random) -> None:
    """A folder that is listed in another order gives the same shards."""
    mixed = list(files)
    seed.shuffle(mixed)

    assert assign(mixed, ingest) == assign(files, ingest)


@given(files=FILES, ingest=INGESTS)
@settings(max_examples=50)
def test_every_split_has_its_shards_numbered(files: list[ListedFile], ingest: Ingest) -> None:
    """Even an empty split has one, so that readers find it; names count from 0 to the number of shards."""
    shards = assign(files, ingest)
    counts = Counter(shard.split for shard in shards)

    assert counts.keys() == {"train", "eval", "test"}
    assert [(shard.split, shard.index, shard.of) for shard in shards] == [
        (split, index, counts[split]) for split in ("train", "eval", "test") for index in range(counts[split])
    ]


def test_the_fractions_are_approached() -> None:
    """5,000 random contents fall as the settings say, within two percent of all."""
    splits = Splits(train=0.7, eval=0.2, test=0.1)
    contents = random.Random(0)
    counts = Counter(split_of(hashlib.sha256(contents.randbytes(16)).hexdigest(), splits) for _ in range(5_000))

    assert {name: round(counts[name] / 5_000, 1) for name in counts} == {"train": 0.7, "eval": 0.2, "test": 0.1}
    assert all(abs(counts[name] / 5_000 - fraction) < 0.02 for name, fraction in splits.fractions())


def test_another_salt_is_another_split() -> None:
    """About as many files change splits as by chance: 1 - (0.8² + 0.1² + 0.1²) = 34 %."""
    digests = [item.sha256 for item in many(5_000)]
    moved = sum(split_of(digest, Splits()) != split_of(digest, Splits(salt="other")) for digest in digests)

    assert 0.31 < moved / 5_000 < 0.37


def test_a_new_file_moves_no_other() -> None:
    """The split of a content does not depend on other files."""
    before, after = ({i.sha256: s.split for s in assign(many(n), Ingest()) for i in s.files} for n in (200, 300))

    assert {digest: after[digest] for digest in before} == before


def count(files: list[ListedFile], ingest: Ingest) -> int:
    """Returns the number of shards when everything is in one split, near enough."""
    everything = Splits(train=1 - 2e-9, eval=1e-9, test=1e-9)
    return sum(shard.split == "train" for shard in assign(files, ingest.model_copy(update={"splits": everything})))


def test_large_data_has_shards_of_shard_mb() -> None:
    """25 files of 10 MB are 15.6 shards of 16 MB."""
    assert count(many(25, 10 * MB), Ingest(shard_mb=16, min_shards=2)) == 16


def test_small_data_has_min_shards() -> None:
    """So that interleave has something to interleave."""
    assert count(many(1_000), Ingest(shard_mb=128, min_shards=8)) == 8


def test_few_files_have_a_shard_each() -> None:
    """No shard of a split that has files is empty."""
    assert count(many(3), Ingest(min_shards=8)) == 3


def test_no_files_have_one_empty_shard_per_split() -> None:
    """The gate reports empty splits, not the reader."""
    assert assign([], Ingest()) == [ShardFiles(split, 0, 1, ()) for split in ("train", "eval", "test")]


def test_classes_are_mixed_within_every_shard() -> None:
    """Two classes that are listed one after the other are both in every shard."""
    files = [file(f"{name}/{index}.jpg", f"{name}{index}".encode()) for name in ("cats", "dogs") for index in range(99)]
    shards = [shard for shard in assign(files, Ingest()) if shard.split == "train"]

    assert [{item.file.label for item in shard.files} for shard in shards] == [{"cats", "dogs"}] * 8


def test_shards_of_a_split_differ_by_one_file_at_most() -> None:
    """Shards are of equal size."""
    sizes = {len(shard.files) for shard in assign(many(1_000), Ingest()) if shard.split == "train"}

    assert max(sizes) - min(sizes) <= 1


def test_a_shard_is_named_as_tfx_readers_expect() -> None:
    """Split folder, index and number of shards."""
    assert ShardFiles("eval", 3, 12, ()).name == "Split-eval/data_tfrecord-00003-of-00012"
