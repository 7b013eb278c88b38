"""Batches hold every record once an epoch, in an order and with variations that the seed alone decides.

Record n has the label "n<n>" and one colour that spells n: label and pixels both tell which record it is.
"""

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from PIL import Image

from components.features.image import ImageFeature
from components.ingest.encode import encode_example
from components.input_pipeline import Reader, RecordFile
from components.settings import Input

SIZES = (30, 30, 30, 7)  # records of each shard
RECORDS = sum(SIZES)
BATCH = 16
STEPS = 7  # the last batch has one record
FEATURE = ImageFeature(8)
LABELS = [f"n{number}" for number in range(RECORDS)]


def picture(number: int) -> bytes:
    """Returns a picture of one colour that spells a number."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (number, 255 - number, 7)).save(out, "PNG")
    return out.getvalue()


def write_shard(path: Path, numbers: Sequence[int]) -> RecordFile:
    """Writes records as ingest does."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in numbers:
            writer.write(encode_example({"image": picture(number), "label": LABELS[number].encode(), "id": number}))
    return RecordFile(path, len(numbers), path.stat().st_size)


def lookup(labels: Sequence[str]) -> Any:
    """Returns a numbering of labels, as Transform fits one: what it has not seen is -1."""
    numbers = tf.lookup.KeyValueTensorInitializer(list(labels), np.arange(len(labels)))
    return tf.lookup.StaticHashTable(numbers, default_value=-1).lookup


def reader(seed: int = 5, labels: Sequence[str] = LABELS, **settings: Any) -> Reader:
    """Returns a reader of these records."""
    chosen = Input(**{"batch_size": BATCH, "augment": False, **settings})
    return Reader({"image": FEATURE}, "label", lookup(labels), chosen, seed)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[RecordFile]:
    """Ninety-seven records in four shards, numbered in stored order."""
    folder, numbers = tmp_path_factory.mktemp("shards"), iter(range(RECORDS))
    return [write_shard(folder / str(index), list(islice(numbers, size))) for index, size in enumerate(SIZES)]


def epochs(data: tf.data.Dataset, count: int) -> list[list[int]]:
    """Returns the records of each epoch, in order, by their labels."""
    batches = data.take(count * STEPS).as_numpy_iterator()
    return [
        [int(number) for _, labels in islice(batches, STEPS) for number in labels] for _ in range(count)
    ]  # fmt: skip


def content(data: tf.data.Dataset, batches: int = STEPS) -> Iterator[tuple[bytes, bytes]]:
    """Yields the bytes of each batch."""
    for values, labels in data.take(batches).as_numpy_iterator():
        yield values["image"].tobytes(), labels.tobytes()


def pictures(data: tf.data.Dataset, batches: int = STEPS) -> dict[int, NDArray[np.uint8]]:
    """Returns the pixels of each record."""
    found: dict[int, NDArray[np.uint8]] = {}
    for values, labels in data.take(batches).as_numpy_iterator():
        found.update(zip((int(number) for number in labels), values["image"], strict=True))
    return found


def decoded() -> NDArray[np.uint8]:
    """Returns the pixels of all records, as decoding alone gives them."""
    return FEATURE.decode(tf.constant([picture(number) for number in range(RECORDS)])).numpy()


class TestEpochs:
    """What one epoch holds."""

    def test_every_record_is_there_once_an_epoch(self, shards: list[RecordFile]) -> None:
        """In the first epoch and in the later ones."""
        assert [sorted(each) for each in epochs(reader().training(shards), 3)] == [list(range(RECORDS))] * 3

    def test_the_last_batch_is_partial_and_epochs_do_not_mix(self, shards: list[RecordFile]) -> None:
        """Six full batches and one of what is left, epoch after epoch."""
        batches = reader().training(shards).take(2 * STEPS).as_numpy_iterator()

        assert [len(labels) for _, labels in batches] == [16, 16, 16, 16, 16, 16, 1] * 2

    @pytest.mark.timeout(60)  # an epoch without a batch would be looked for without end
    @pytest.mark.parametrize(("batch_size", "steps"), [(1, 97), (16, 7), (96, 2), (97, 1), (98, 1)])
    def test_steps_hold_every_record_once(self, shards: list[RecordFile], batch_size: int, steps: int) -> None:
        """A partial batch is a step too."""
        sized = reader(batch_size=batch_size)
        seen = [number for _, labels in sized.training(shards).take(steps).as_numpy_iterator() for number in labels]

        assert (sized.steps(shards), sorted(seen)) == (steps, list(range(RECORDS)))

    def test_labels_stay_with_their_pixels(self, shards: list[RecordFile]) -> None:
        """Whatever is shuffled, a record is shuffled whole; without augmentation it is as it was decoded."""
        found = pictures(reader().training(shards))

        np.testing.assert_array_equal(np.stack([found[number] for number in range(RECORDS)]), decoded())

    def test_batches_are_bytes_and_whole_numbers(self, shards: list[RecordFile]) -> None:
        """A quarter of the transfer that floats would need."""
        expected = ({"image": tf.TensorSpec([None, 8, 8, 3], tf.uint8)}, tf.TensorSpec([None], tf.int64))

        assert reader(augment=True).training(shards).element_spec == expected
        assert reader(augment=True).evaluation(shards).element_spec == expected


class TestOrder:
    """In which order records come."""

    def test_every_epoch_has_another_order(self, shards: list[RecordFile]) -> None:
        """No two of four epochs are alike, and none is as stored."""
        seen = epochs(reader().training(shards), 4)

        assert len({tuple(each) for each in [*seen, range(RECORDS)]}) == 5

    def test_one_seed_gives_the_same_batches_byte_for_byte(self, shards: list[RecordFile]) -> None:
        """Two pipelines built apart agree over two epochs, variations and all."""
        built = [list(content(reader(augment=True).training(shards), 2 * STEPS)) for _ in range(2)]

        assert built[0] == built[1]

    def test_other_random_numbers_do_not_matter(self, shards: list[RecordFile]) -> None:
        """Whatever else draws some before a pipeline is built or while it is read."""
        built = []
        for draws in (0, 3):
            data = reader(augment=True).training(shards)
            for _ in range(draws):
                tf.random.uniform([2])
            built.append(list(content(data)))

        assert built[0] == built[1]

    def test_another_seed_gives_another_order(self, shards: list[RecordFile]) -> None:
        """From the first epoch on."""
        assert epochs(reader(5).training(shards), 1) != epochs(reader(77).training(shards), 1)

    def test_neighbouring_seeds_share_no_epoch(self, shards: list[RecordFile]) -> None:
        """The second epoch of one seed is not the first one of the next: runs to compare are to be independent."""
        one, next_one = (epochs(reader(seed).training(shards), 3) for seed in (5, 6))

        assert len({tuple(each) for each in [*one, *next_one]}) == 6

    def test_shards_are_mixed(self, shards: list[RecordFile]) -> None:
        """No full batch comes from fewer than three of the four shards."""
        shard_of = [index for index, size in enumerate(SIZES) for _ in range(size)]
        (seen,) = epochs(reader().training(shards), 1)
        batches = [seen[start : start + BATCH] for start in range(0, RECORDS - 1, BATCH)]

        assert min(len({shard_of[number] for number in batch}) for batch in batches) >= 3

    def test_a_buffer_of_one_record_drops_nothing(self, shards: list[RecordFile]) -> None:
        """Records may be larger than the budget: the order is then that of the interleaved shards."""
        huge = [RecordFile(shard.path, shard.records, shard.records << 30) for shard in shards]
        seen = epochs(reader(shuffle_mb=1).training(huge), 2)

        assert [sorted(each) for each in seen] == [list(range(RECORDS))] * 2
        assert Counter(number // 30 for number in seen[0][:16]) == {0: 4, 1: 4, 2: 4, 3: 4}

    @pytest.mark.parametrize(
        ("files", "megabytes", "records"),
        [
            ([(10, 10 << 20)], 4, 4),
            ([(10, 10 << 20), (30, 10 << 20)], 4, 8),
            ([(10, 10 << 20)], 64, 10),
            ([(10, 1000 << 20)], 64, 1),
            ([(1, 1)], 1, 1),
            ([], 64, 1),
        ],
        ids=["a megabyte each", "mean of shards", "all fit", "none fits", "one", "no shard"],
    )
    def test_the_buffer_is_sized_in_megabytes(self, files: list[tuple[int, int]], megabytes: int, records: int) -> None:
        """At least one record, at most all of them."""
        assert records_in([RecordFile(Path("shard"), count, size) for count, size in files], megabytes) == records


class TestVariation:
    """What training does to a picture, and nobody else."""

    def test_training_varies_every_picture_anew_in_every_epoch(self, shards: list[RecordFile]) -> None:
        """A flat colour changes in brightness only, by amounts that differ from epoch to epoch."""
        data = reader(augment=True).training(shards)
        first, second = pictures(data), pictures(data.skip(STEPS))

        assert sum((first[number] != second[number]).any() for number in range(RECORDS)) > 0.9 * RECORDS

    def test_a_variation_belongs_to_the_record(self, shards: list[RecordFile]) -> None:
        """In which shard and place it stands does not matter."""
        one, other = (
            pictures(reader(augment=True, interleave=number).training(shards[::step]))
            for number, step in ((4, 1), (1, -1))
        )

        assert all((one[number] == other[number]).all() for number in range(RECORDS))

    def test_evaluation_varies_nothing(self, shards: list[RecordFile]) -> None:
        """Every record as it was decoded, in stored order, though training augments."""
        found = list(reader(augment=True).evaluation(shards).as_numpy_iterator())

        assert [int(number) for _, labels in found for number in labels] == list(range(RECORDS))
        np.testing.assert_array_equal(np.concatenate([values["image"] for values, _ in found]), decoded())

    def test_evaluation_can_be_read_again(self, shards: list[RecordFile]) -> None:
        """The same batches after every epoch of training."""
        data = reader().evaluation(shards)

        assert list(content(data)) == list(content(data))


class TestFaults:
    """What must never be learned from."""

    @pytest.mark.parametrize("purpose", ["training", "evaluation"])
    def test_an_unknown_label_raises(self, shards: list[RecordFile], purpose: str) -> None:
        """It never becomes -1."""
        data = getattr(reader(labels=LABELS[:-1]), purpose)(shards)

        with pytest.raises(tf.errors.InvalidArgumentError, match="a label that the vocabulary does not hold"):
            epochs(data, 1)

    @pytest.mark.parametrize("purpose", ["training", "evaluation"])
    def test_a_damaged_record_raises(self, tmp_path: Path, purpose: str) -> None:
        """A1: one flipped bit ends the reading, and no record after it vanishes in silence."""
        shard = write_shard(tmp_path / "shard", range(10))
        stored = bytearray(shard.path.read_bytes())
        stored[len(stored) // 2] ^= 1
        shard.path.write_bytes(stored)

        with pytest.raises(tf.errors.DataLossError):
            epochs(getattr(reader(), purpose)([shard]), 1)
