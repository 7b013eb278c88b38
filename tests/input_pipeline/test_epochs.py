"""Batches hold every record once an epoch, whatever the shape of the stream."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import SettingsError


class TestEpochs:
    """What one epoch holds."""

    def test_every_record_is_there_once_an_epoch(self, world: Any) -> None:
        """In the first epoch and in the later ones."""
        seen = world.epochs(world.reader().training(world.files), 3)

        assert [sorted(each) for each in seen] == [list(range(world.records))] * 3

    def test_the_last_batch_is_partial_and_epochs_do_not_mix(self, world: Any) -> None:
        """Six full batches and one of what is left, epoch after epoch."""
        batches = world.reader().training(world.files).take(14).as_numpy_iterator()
        sizes = [len(labels) for _, labels in batches]

        assert [sorted(sizes[:7]), sorted(sizes[7:])] == [[1, 16, 16, 16, 16, 16, 16]] * 2

    def test_a_last_batch_can_be_dropped(self, world: Any) -> None:
        """Then every batch is full, an epoch has six, and its size is known before it is read."""
        reader = world.reader(last_batch="drop")
        data = reader.training(world.files)
        seen = world.epochs(data, 2, 6)

        assert reader.steps(world.files) == 6
        assert [len(set(each)) for each in seen] == [96, 96]
        assert data.element_spec[1] == tf.TensorSpec([16], tf.int64)

    @pytest.mark.timeout(60)  # an epoch without a batch would be looked for without end
    @pytest.mark.parametrize(("batch_size", "steps"), [(1, 97), (16, 7), (96, 2), (97, 1), (98, 1)])
    def test_steps_hold_every_record_once(self, world: Any, batch_size: int, steps: int) -> None:
        """A partial batch is a step too."""
        sized = world.reader(batch_size=batch_size)
        (seen,) = world.epochs(sized.training(world.files), 1, steps)

        assert (sized.steps(world.files), sorted(seen)) == (steps, list(range(world.records)))

    def test_a_number_of_epochs_can_be_asked_for(self, world: Any) -> None:
        """Then there is an end, and its length is known."""
        data = world.reader().training(world.files, epochs=2)

        assert (len(data), len(list(data))) == (14, 14)

    def test_every_pass_is_the_next_epoch(self, world: Any) -> None:
        """For loops that read a data set again and again."""
        reader = world.reader()
        data = reader.passes(world.files)
        passes = [world.epochs(data, 1)[0] for _ in range(3)]

        assert len(data) == 7
        assert passes == world.epochs(reader.training(world.files), 3)

    def test_values_stay_with_their_labels(self, images: Any) -> None:
        """Whatever is shuffled, a record is shuffled whole; without augmentation it is as evaluation sees it."""
        found = images.values(images.reader().training(images.files))
        expected = images.values(images.reader().evaluation(images.files))

        assert found.keys() == expected.keys()
        assert all((found[number] == expected[number]).all() for number in expected)

    def test_small_records_are_read_once(self, write: Any, numbers: Any) -> None:
        """They are held from the first epoch on: the second comes without the shard."""
        file = write("number", range(90))
        batches = numbers.reader().training([file]).take(2 * 6).as_numpy_iterator()
        first = [int(number) for _, labels in islice(batches, 6) for number in labels]
        file.path.unlink()
        second = [int(number) for _, labels in batches for number in labels]

        assert sorted(first) == sorted(second) == list(range(90))
        assert first != second

    def test_batches_may_have_no_labels(self, numbers: Any) -> None:
        """Where there is nothing to be learned, there are values alone."""
        reader = numbers.reader()
        unlabelled = type(reader)(reader.features, "", tf.identity, reader.settings, 5)
        seen = [int(n) for values in unlabelled.training(numbers.files, epochs=1) for n in values["number"]]

        assert sorted(seen) == list(range(97))


class TestEvaluation:
    """What is measured on."""

    def test_every_record_comes_once_in_stored_order(self, world: Any) -> None:
        """Though training shuffles and augments."""
        data = world.reader(augment=True).evaluation(world.files)

        assert world.epochs(data, 1) == [list(range(world.records))]
        assert world.reader().evaluation_steps(world.files) == 7

    def test_a_dropped_batch_is_kept_here(self, world: Any) -> None:
        """What is measured is measured on all records."""
        reader = world.reader(last_batch="drop")

        assert world.epochs(reader.evaluation(world.files), 1) == [list(range(world.records))]
        assert reader.evaluation_steps(world.files) == 7

    def test_it_can_be_read_again(self, world: Any) -> None:
        """The same batches after every epoch of training."""
        data = world.reader().evaluation(world.files)

        assert world.content(data) == world.content(data)

    def test_images_are_as_they_were_decoded(self, images: Any) -> None:
        """No byte of a image of the right size is lost."""
        found = images.values(images.reader(augment=True).evaluation(images.files))

        assert all((found[n] == np.array([n, 255 - n, 7])).all() for n in range(97))


class TestBatches:
    """What a batch looks like."""

    @pytest.mark.parametrize("purpose", ["training", "evaluation"])
    @pytest.mark.parametrize(
        ("kind", "spec"),
        [
            ("image", tf.TensorSpec([None, 8, 8, 3], tf.uint8)),
            ("number", tf.TensorSpec([None], tf.int64)),
            ("text", tf.TensorSpec([None, None], tf.int64)),
        ],
    )
    def test_shapes_and_types_are_known(self, worlds: Any, kind: str, spec: tf.TensorSpec, purpose: str) -> None:
        """Bytes and whole numbers: a quarter of the transfer that floats would need."""
        data = getattr(worlds[kind].reader(augment=True), purpose)(worlds[kind].files)

        assert data.element_spec == ({kind: spec}, tf.TensorSpec([None], tf.int64))

    def test_texts_of_like_length_stand_together(self, texts: Any) -> None:
        """A batch is as wide as its longest text, and few places in it are padding."""
        batches = list(texts.reader().training(texts.files, epochs=1).as_numpy_iterator())
        words = sum(np.count_nonzero(values["text"]) for values, _ in batches)
        cells = sum(values["text"].size for values, _ in batches)

        assert all(values["text"].any(axis=0).all() for values, _ in batches)
        assert words == sum(1 + n % 13 for n in range(97))
        assert words / cells > 0.85

    def test_texts_of_training_and_evaluation_are_the_same(self, texts: Any) -> None:
        """But for the padding."""
        trained, evaluated = (
            {number: [id for id in row if id] for number, row in texts.values(data).items()}  # noqa: A001
            for data in (texts.reader().training(texts.files), texts.reader().evaluation(texts.files))
        )

        assert trained == evaluated == {n: [n + 1] * (1 + n % 13) for n in range(97)}


class TestFaults:
    """What must never be learned from."""

    @pytest.mark.parametrize("purpose", ["training", "evaluation"])
    def test_an_unknown_label_raises(self, world: Any, purpose: str) -> None:
        """It never becomes -1."""
        data = getattr(world.reader(labels=[f"n{n}" for n in range(96)]), purpose)(world.files)

        with pytest.raises(tf.errors.InvalidArgumentError, match="a label that the vocabulary does not hold"):
            world.epochs(data, 1)

    @pytest.mark.parametrize("purpose", ["training", "evaluation"])
    def test_a_damaged_record_raises(self, world: Any, write: Any, purpose: str) -> None:
        """A1: one flipped bit ends the reading, and no record after it vanishes in silence."""
        shard = write(world.kind, range(10))
        stored = bytearray(shard.path.read_bytes())
        stored[len(stored) // 2] ^= 1
        shard.path.write_bytes(stored)

        with pytest.raises(tf.errors.DataLossError):
            world.epochs(getattr(world.reader(), purpose)([shard]), 1)

    def test_a_budget_that_holds_no_batch_is_refused(self, images: Any) -> None:
        """With what it would take, before anything is read."""
        with pytest.raises(SettingsError, match=r"takes \d+ MB while it is made, input.ram_mb is 16"):
            images.reader(batch_size=100_000, ram_mb=16).training(images.files)
