"""Promise A7: a re-encoded copy of an image in another split gives a warning that names the pair."""

import io
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from components.ingest import run as ingesting
from components.ingest.close import near_duplicates
from components.ingest.close.near_duplicates import (
    FoundImage,
    HashedImages,
    NearDuplicates,
    NearPair,
    PackedImages,
    choices,
    find,
    named,
    within,
)
from components.ingest.sources import SourceFile
from components.ingest.survey import survey
from components.ingest.survey.listed_files import ListedFile, ListedFiles
from components.ingest.survey.listing import Listing
from components.ingest.units import Output
from components.ingest.write import shards
from components.ingest.write.report import ShardReport, pack_hashes
from components.records.manifest import NEAR_DUPLICATES, Manifest
from components.settings.ingest import Ingest
from components.settings.splits import Splits
from components.storage.hashing import HashCache
from data.digits import write_image_folder

Take = Callable[[Path], Listing]
TRAIN, EVAL, TEST = range(3)
HASH = 0x0F0F_1234_5678_9ABC
SAME = (
    "pairs of images in different splits look the same "
    "(they differ in at most ingest.near_duplicate_bits = 3 of 64 bits)"
)


def report(split: str, perceptual_hashes: str, sides: dict[int, int]) -> ShardReport:
    """Returns as much of a report as is read here."""
    return ShardReport(split, perceptual_hashes=perceptual_hashes, sides=sides)


def images(*rows: tuple[int, int]) -> HashedImages:
    """Returns images of (perceptual hash, split)."""
    hashes, splits = zip(*rows, strict=True) if rows else ((), ())
    numbers = np.arange(len(rows))
    of = np.zeros(len(rows), np.int64)
    contents, in_splits = numbers.astype(np.uint64), np.array(splits, np.int64)
    return HashedImages(contents, np.array(hashes, np.uint64), in_splits, numbers, of, ["shard"])


def by_number(image: FoundImage) -> str:
    """Names an image by its number."""
    return str(image.number)


def found(*rows: tuple[int, int], bits: int = 3) -> NearDuplicates:
    """Compares images, which are named by their numbers."""
    every = [find(images(*rows), bits, number) for number in range(choices(bits))]
    return named(near_duplicates.total(every), by_number)


def brute(hashes: npt.NDArray[np.uint64], bits: int) -> list[list[int]]:
    """Compares all with all."""
    return [
        [one, other]
        for one in range(len(hashes))
        for other in range(one + 1, len(hashes))
        if (int(hashes[one]) ^ int(hashes[other])).bit_count() <= bits
    ]


class TestWithin:
    """The search."""

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 2**32), st.integers(0, 8))
    def test_it_finds_what_comparing_all_with_all_finds(self, seed: int, bits: int) -> None:
        """For every distance that can be set, among hashes of which many are near."""
        random = np.random.default_rng(seed)
        hashes = random.integers(0, 1 << 64, 12, np.uint64)
        flips = random.integers(0, 64, (90, random.integers(1, 11)), np.uint64)
        near = random.choice(hashes, 90) ^ np.bitwise_xor.reduce(np.uint64(1) << flips, axis=1)
        every = np.unique(np.concatenate([hashes, near]))
        found = [within(every, bits, number) for number in range(choices(bits))]

        assert all(complete for _, complete in found)
        assert sorted(pair for pairs, _ in found for pair in pairs.tolist()) == brute(every, bits)

    @pytest.mark.parametrize("count", [0, 1])
    def test_few_hashes(self, count: int) -> None:
        """One image or none makes no pair."""
        pairs, complete = within(np.arange(count, dtype=np.uint64), 3, 0)

        assert (pairs.tolist(), complete) == ([], True)

    def test_a_search_among_hashes_that_are_all_near_stops(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And says that it is incomplete."""
        monkeypatch.setattr("components.ingest.close.near_duplicates._MAX_COMPARED", 500_000)
        pairs, complete = within(np.arange(60_000, dtype=np.uint64) << np.uint64(40), 8, 0)

        assert not complete
        assert 0 < len(pairs) <= 1_000_000


class TestPairs:
    """Which pairs are reported."""

    def test_near_hashes_in_different_splits(self) -> None:
        """With both splits, the earlier one first, and the number of bits that differ."""
        assert found((HASH ^ 0b101, EVAL), (1, TRAIN), (HASH, TRAIN)) == NearDuplicates(
            1, (NearPair("2", "train", "0", "eval", 2),)
        )

    def test_equal_hashes_in_different_splits(self) -> None:
        """Each one with each other."""
        made = found((HASH, TRAIN), (HASH, TRAIN), (HASH, EVAL), (HASH, TEST))
        named = [(pair.path, pair.like) for pair in made.pairs]

        assert made.count == 5
        assert named == [("0", "2"), ("0", "3"), ("1", "2"), ("1", "3"), ("2", "3")]

    def test_the_same_split_is_no_leak(self) -> None:
        """The held-out data has nothing like them."""
        assert found((HASH, TRAIN), (HASH ^ 1, TRAIN), (HASH, TRAIN)) == NearDuplicates()

    def test_one_bit_more_is_another_image(self) -> None:
        """The setting is the largest distance."""
        rows = ((HASH, TRAIN), (HASH ^ 0b1111, EVAL))

        assert [found(*rows, bits=bits).count for bits in (3, 4)] == [0, 1]

    def test_many_pairs_are_counted_and_the_first_are_listed(self) -> None:
        """Four hundred million pairs are a number, not a list."""
        many = images(*((HASH, number % 2) for number in range(40_000)))
        made = find(many, 3, 0)

        assert (made.count, len(made.pairs), made.complete) == (20_000 * 20_000, 10_000, True)


def packed(*hashes: tuple[int, int]) -> str:
    """Returns (number of the content, perceptual hash) as in a report."""
    return pack_hashes([(f"{number:016x}" + 48 * "0", value, number) for number, value in hashes])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 4))
def test_buckets_find_the_same_pairs(seed: int, bits: int) -> None:
    """Whatever the order of its pieces: every pair is counted once, in the same order."""
    random = np.random.default_rng(seed)
    hashes = random.integers(0, 1 << 64, 6, np.uint64)
    flips = random.integers(0, 64, (60, random.integers(1, 11)), np.uint64)
    near = (random.choice(hashes, 60) ^ np.bitwise_xor.reduce(np.uint64(1) << flips, axis=1)).tolist()
    reports = [
        ShardReport(split, f"{split} {part}", perceptual_hashes=packed(*list(enumerate(near))[number + part :: 6]))
        for number, split in enumerate(("train", "eval", "test"))
        for part in (0, 3)
    ]
    everything = near_duplicates.of_reports(reports)
    parts: dict[tuple[int, int], list[PackedImages]] = {}
    for images in reversed(everything):
        for number in range(choices(bits)):
            for bucket, part in near_duplicates.divide(images, bits, number):
                parts.setdefault((number, bucket), []).append(part)
    found = [near_duplicates.compare(part, bits, number) for (number, _), part in parts.items()]

    at_once = [near_duplicates.compare(everything, bits, number) for number in range(choices(bits))]
    assert near_duplicates.total(found) == near_duplicates.find_all(everything, bits) == near_duplicates.total(at_once)


def test_a_limit_is_the_same_on_one_machine_and_on_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """D2: it applies to each bucket, so the warning does not depend on the runner."""
    monkeypatch.setattr("components.ingest.close.near_duplicates._MAX_COMPARED", 20)
    # 40 pairs with 40 keys: together more than the limit, in each bucket far fewer.
    hashes = [(2 * key + low, key << 48 | key << 16 | low) for key in range(1, 41) for low in (0, 1)]
    reports = [
        ShardReport(split, split, perceptual_hashes=packed(*hashes[at::2]))
        for at, split in enumerate(("train", "eval"))
    ]
    found = near_duplicates.find_all(near_duplicates.of_reports(reports), 1)

    assert (found.count, found.complete) == (40, True)


class TestReports:
    """The reports of all shards are compared."""

    def test_rows_are_named_by_their_images(self) -> None:
        """A content with two files is named by the first."""
        reports = [
            report("train", packed((1, HASH), (2, HASH ^ 255)), {9: 2}),
            report("eval", packed((3, HASH ^ 1)), {9: 1}),
        ]
        files = ListedFiles(
            ListedFile(SourceFile(path, ""), 1, f"{number:016x}" + 48 * "0")
            for path, number in (("a.jpg", 1), ("b.jpg", 2), ("c.jpg", 3), ("z.jpg", 1))
        )
        found = near_duplicates.find_all(near_duplicates.of_reports(reports), 3)
        names = near_duplicates.names_of(Listing(files, (), ()), found)
        made = named(found, lambda image: names[image.content])

        assert made == NearDuplicates(1, (NearPair("a.jpg", "train", "c.jpg", "eval", 1),))
        assert made.warnings(3) == [
            f"1 {SAME}, such as a.jpg (train) = c.jpg (eval); all are listed in near_duplicates.jsonl"
        ]

    def test_an_incomplete_search_says_so(self) -> None:
        """So does a list that is not complete."""
        pair = NearPair("a", "train", "b", "eval", 1)
        (warning,) = NearDuplicates(12_345, (pair,), complete=False).warnings(3)

        assert warning.startswith("at least 12,345 pairs")
        assert warning.endswith("; the first 1 are listed in near_duplicates.jsonl")

    def test_it_can_be_turned_off(self) -> None:
        """ingest.near_duplicate_bits = -1."""
        assert near_duplicates.applies([report("train", "", {9: 1})], Ingest(near_duplicate_bits=-1)) is None

    def test_a_check_of_headers_says_that_nothing_was_searched(self) -> None:
        """ingest.image_check = header."""
        warnings = near_duplicates.applies([report("train", "", {9: 1})], Ingest(image_check="header"))

        assert warnings == ["near duplicates were not searched: ingest.image_check = header decodes no image"]

    @pytest.mark.parametrize("image_check", ["full", "header"])
    def test_records_without_images_have_no_near_duplicates(self, image_check: str) -> None:
        """Rows have no hashes, texts have side 0, and a unit of bad rows alone has no split."""
        reports = [report("train", "", {}), report("eval", "", {0: 7}), report("", "", {})]

        assert near_duplicates.applies(reports, Ingest.model_validate({"image_check": image_check})) == []
        assert near_duplicates.find_all(near_duplicates.of_reports(reports), 3).count == 0


def ingested(data: Path, artifact: Path, settings: Ingest) -> Manifest:
    """Ingests a folder in this process."""
    artifact.mkdir()

    def take() -> survey.Survey:
        return survey.take(str(data), settings, HashCache(None))

    job = ingesting.IngestJob(take(), Output(artifact, settings), artifact.with_suffix(".jsonl"))
    return ingesting.run(job, beam.Pipeline, take)


def scene(seed: int) -> Image.Image:
    """Returns an image that depends on the seed."""
    blots = np.random.default_rng(seed).integers(0, 256, (7, 9, 3), dtype=np.uint8)
    return Image.fromarray(blots).resize((120, 90), Image.Resampling.BICUBIC)


def save(image: Image.Image, path: Path, **options: object) -> None:
    """Writes a file and the folder above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    path.write_bytes(out.getvalue())


SPLITS = Ingest(splits=Splits(train=0.4, eval=0.3, test=0.3), min_shards=2)


def test_copies_in_different_splits_give_a_warning(data: Path, tmp_path: Path, take: Take) -> None:
    """Promise A7: every original whose copy is in another split, and no other pair."""
    for seed in range(20):
        save(scene(seed), data / "cats" / f"{seed}.jpg", quality=90)
        save(scene(seed).resize((80, 60)), data / "dogs" / f"{seed}.jpg", quality=60)
    made = ingested(data, tmp_path / "out", SPLITS)
    split = {item.file.path: shards.split_of(item.sha256, SPLITS.splits) for item in take(data).files}
    separated = {seed for seed in range(20) if split[f"cats/{seed}.jpg"] != split[f"dogs/{seed}.jpg"]}
    lines = [orjson.loads(line) for line in (tmp_path / "out" / NEAR_DUPLICATES).read_bytes().splitlines()]

    assert {frozenset((line["path"], line["like"])) for line in lines} == {
        frozenset((f"cats/{seed}.jpg", f"dogs/{seed}.jpg")) for seed in separated
    }
    assert all((split[line["path"]], split[line["like"]]) == (line["split"], line["like_split"]) for line in lines)
    assert [warning.partition(",")[0] for warning in made.warnings] == [f"{len(separated)} {SAME}"]


def test_exact_copies_are_no_near_duplicates(data: Path, tmp_path: Path) -> None:
    """They are in one split, and have a warning of their own."""
    for name in ("a", "b", "c"):
        save(scene(1), data / "cats" / f"{name}.jpg")
    made = ingested(data, tmp_path / "out", SPLITS)

    assert [warning.partition(" in ")[0] for warning in made.warnings] == ["2 exact duplicates"]
    assert not (tmp_path / "out" / NEAR_DUPLICATES).exists()


def test_blank_sheets_are_no_near_duplicates(data: Path, tmp_path: Path) -> None:
    """Too plain to have a perceptual hash is not the same as a copy."""
    for number in range(30):
        save(Image.new("L", (60, 40), 8 * number), data / "sheets" / f"{number}.jpg")

    assert ingested(data, tmp_path / "out", SPLITS).warnings == ()


def test_digits_are_not_near_duplicates(tmp_path: Path) -> None:
    """Among 600 handwritten digits of 8 x 8 pixels hardly any pair looks the same."""
    write_image_folder(tmp_path / "digits", limit=600)
    ingested(tmp_path / "digits", tmp_path / "out", SPLITS)
    listed = tmp_path / "out" / NEAR_DUPLICATES

    assert (len(listed.read_bytes().splitlines()) if listed.exists() else 0) <= 6
