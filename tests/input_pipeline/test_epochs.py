"""Batches hold every record once per epoch, whichever way pools become batches."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import SettingsError

pytestmark = pytest.mark.slow


class TestEpochs:
    """The contents of an epoch."""

    def test_every_record_comes_once_per_epoch(self, records: Any) -> None:
        """Six full batches and one of the rest, epoch after epoch, and epochs do not mix."""
        batches = [found.tolist() for _, found in records.reader().training(records.files).take(14).as_numpy_iterator()]

        for epoch in (batches[:7], batches[7:]):
            assert sorted(number for batch in epoch for number in batch) == list(range(97))
            assert sorted(map(len, epoch)) == [1, 16, 16, 16, 16, 16, 16]

    def test_the_last_batch_can_be_dropped(self, records: Any) -> None:
        """Then every batch is full, and its size is static."""
        reader = records.reader(last_batch="drop")
        data = reader.training(records.files)
        seen = records.epochs(data, 2, 6)

        assert reader.steps(records.files) == 6
        assert [len(set(epoch)) for epoch in seen] == [96, 96]
        assert data.element_spec[1] == tf.TensorSpec([16], tf.int64)

    @pytest.mark.timeout(60)  # an epoch without a batch would be searched for without end
    @pytest.mark.parametrize(("batch_size", "steps"), [(1, 97), (96, 2), (97, 1), (98, 1)])
    @pytest.mark.parametrize("kind", ["number", "text"])
    def test_any_batch_size_gives_every_record_once(self, kinds: Any, kind: str, batch_size: int, steps: int) -> None:
        """A partial batch is a step too."""
        records = kinds[kind]
        sized = records.reader(batch_size=batch_size)
        (seen,) = records.epochs(sized.training(records.files), 1, steps)

        assert (sized.steps(records.files), sorted(seen)) == (steps, list(range(97)))

    def test_the_number_of_epochs_can_be_given(self, numbers: Any) -> None:
        """Then the dataset is finite, and its length is known."""
        data = numbers.reader().training(numbers.files, epochs=2)

        assert (len(data), len(list(data))) == (14, 14)

    def test_every_pass_is_the_next_epoch(self, numbers: Any) -> None:
        """For loops that iterate over a dataset again and again."""
        reader = numbers.reader()
        data = reader.passes(numbers.files)
        passes = [numbers.epochs(data, 1)[0] for _ in range(3)]

        assert len(data) == 7
        assert passes == numbers.epochs(reader.training(numbers.files), 3)

    def test_values_stay_with_their_labels(self, images: Any) -> None:
        """Without augmentation a record is as evaluation sees it, and that is as it was stored."""
        found = images.values(images.reader().training(images.files))
        expected = images.values(images.reader(augment=True).evaluation(images.files))

        assert found.keys() == expected.keys()
        assert all((found[number] == expected[number]).all() for number in expected)
        assert all((expected[n] == np.array([n, 255 - n, 7])).all() for n in range(97))

    def test_small_records_are_read_once(self, write: Any, numbers: Any) -> None:
        """They stay in memory: the second epoch needs no shard."""
        file = write("number", range(90))
        batches = numbers.reader().training([file]).take(2 * 6).as_numpy_iterator()
        first = [int(number) for _, found in islice(batches, 6) for number in found]
        file.path.unlink()
        second = [int(number) for _, found in batches for number in found]

        assert sorted(first) == sorted(second) == list(range(90))
        assert first != second

    def test_batches_may_have_no_labels(self, numbers: Any) -> None:
        """Then they are values alone."""
        reader = numbers.reader()
        unlabelled = type(reader)(reader.features, "", tf.identity, reader.settings, 5)
        seen = [int(n) for values in unlabelled.training(numbers.files, epochs=1) for n in values["number"]]

        assert sorted(seen) == list(range(97))


class TestEvaluation:
    """Every record once, unchanged."""

    def test_records_come_in_stored_order_every_time(self, records: Any) -> None:
        """Whatever is set for training: no shuffle, no augmentation, no dropped batch."""
        reader = records.reader(augment=True, last_batch="drop")
        data = reader.evaluation(records.files)

        assert records.epochs(data, 1) == records.epochs(data, 1) == [list(range(97))]
        assert reader.evaluation_steps(records.files) == 7


class TestBatches:
    """Shapes and padding."""

    @pytest.mark.parametrize("purpose", ["training", "evaluation"])
    @pytest.mark.parametrize(
        ("kind", "spec"),
        [
            ("image", tf.TensorSpec([None, 8, 8, 3], tf.uint8)),
            ("number", tf.TensorSpec([None], tf.int64)),
            ("text", tf.TensorSpec([None, None], tf.int64)),
        ],
    )
    def test_shapes_and_types_are_known(self, kinds: Any, kind: str, spec: tf.TensorSpec, purpose: str) -> None:
        """Bytes and integers: a quarter of the transfer of floats."""
        data = getattr(kinds[kind].reader(augment=True), purpose)(kinds[kind].files)

        assert data.element_spec == ({kind: spec}, tf.TensorSpec([None], tf.int64))

    def test_texts_of_similar_length_share_a_batch(self, texts: Any) -> None:
        """A batch is as wide as its longest text, and little of it is padding."""
        batches = list(texts.reader().training(texts.files, epochs=1).as_numpy_iterator())
        words = sum(np.count_nonzero(values["text"]) for values, _ in batches)
        cells = sum(values["text"].size for values, _ in batches)

        assert all(values["text"].any(axis=0).all() for values, _ in batches)
        assert words == sum(1 + n % 13 for n in range(97))
        assert words / cells > 0.85

    def test_texts_are_the_same_in_training_and_evaluation(self, texts: Any) -> None:
        """Apart from padding."""
        trained, evaluated = (
            {number: [index for index in row if index] for number, row in texts.values(data).items()}
            for data in (texts.reader().training(texts.files), texts.reader().evaluation(texts.files))
        )

        assert trained == evaluated == {n: [n + 1] * (1 + n % 13) for n in range(97)}


class TestFaults:
    """Data that must never be learned from."""

    @pytest.mark.parametrize("purpose", ["training", "evaluation"])
    def test_an_unknown_label_raises(self, records: Any, purpose: str) -> None:
        """It never becomes class -1."""
        data = getattr(records.reader(labels=[f"n{n}" for n in range(96)]), purpose)(records.files)

        with pytest.raises(tf.errors.InvalidArgumentError, match="a class that is not in the label vocabulary"):
            records.epochs(data, 1)

    @pytest.mark.parametrize("purpose", ["training", "evaluation"])
    def test_a_damaged_record_raises(self, records: Any, write: Any, purpose: str) -> None:
        """One flipped bit stops the iteration; no record after it is lost silently."""
        shard = write(records.kind, range(10))
        stored = bytearray(shard.path.read_bytes())
        stored[len(stored) // 2] ^= 1
        shard.path.write_bytes(stored)

        with pytest.raises(tf.errors.DataLossError):
            records.epochs(getattr(records.reader(), purpose)([shard]), 1)

    def test_a_budget_too_small_for_a_batch_is_rejected(self, images: Any) -> None:
        """With the memory it needs, before anything is read."""
        with pytest.raises(SettingsError, match=r"bytes needs [\d,]+ MB; input.ram_mb is 16"):
            images.reader(batch_size=100_000, ram_mb=16).training(images.files)
