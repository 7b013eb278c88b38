"""Encodings are joined so that one can invert the meaning of another."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.models import joined
from components.models.heads import Classification

pytestmark = pytest.mark.slow


def test_a_single_encoding_is_passed_to_the_head() -> None:
    """Without layers between them."""
    numbers = keras.Input([3], name="numbers")
    model = joined.build({"numbers": numbers}, [2 * numbers], Classification(2))

    np.testing.assert_array_equal(joined.extractor(model)({"numbers": np.ones((1, 3))}), [[2, 2, 2]])


def test_a_model_needs_an_encoding() -> None:
    """The message says what was expected."""
    with pytest.raises(ValueError, match="the model has no encodings; expected at least one"):
        joined.build({}, [], Classification(2))


def test_an_encoding_of_one_number_is_rejected() -> None:
    """Normalization would turn it into 0."""
    inputs = {name: keras.Input([width], name=name) for name, width in (("several", 3), ("lone", 1))}

    with pytest.raises(ValueError, match=r"^lone: width 1, which normalization turns into 0; expected encodings of"):
        joined.build(inputs, list(inputs.values()), Classification(2))


def exclusive_or() -> tuple[Any, dict[str, Any], Any]:
    """Returns a model of two inputs, records, and labels that neither input predicts alone.

    A bit is encoded as the order of two numbers, because normalization would turn a single number into 0.
    """
    keras.utils.set_random_seed(3)
    inputs = {name: keras.Input([2], name=name) for name in ("one", "other")}
    model = joined.build(inputs, list(inputs.values()), Classification(2))
    bits = np.random.default_rng(3).integers(0, 2, (2, 256, 1))
    one, other = (2.0 * bits - 1) * [1, -1]
    return model, {"one": one, "other": other}, (bits[0] != bits[1])[:, 0].astype(int)


@pytest.mark.slow
def test_one_input_can_invert_the_meaning_of_another() -> None:
    """The model learns exclusive or, which no sum of single inputs can express."""
    model, records, labels = exclusive_or()
    head = Classification(2)
    model.compile(keras.optimizers.Adam(3e-3), head.loss(), metrics=head.metrics(), jit_compile=False)
    for _ in range(20):
        model.train_on_batch(records, labels)

    assert model.evaluate(records, labels, verbose=0, return_dict=True)["accuracy"] == 1.0


def test_inputs_are_found_by_name() -> None:
    """The order in the batch does not matter."""
    model, records, _ = exclusive_or()
    swapped = dict(reversed(records.items()))

    np.testing.assert_array_equal(model(swapped, training=False), model(records, training=False))


def test_an_extractor_can_be_served(tmp_path: Path) -> None:
    """Exported as a SavedModel, it returns the same features."""
    model, records, _ = exclusive_or()
    extractor = joined.extractor(model)
    extractor.export(tmp_path / "extractor", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "extractor"))

    given = {name: tf.constant(values, tf.float32) for name, values in records.items()}
    np.testing.assert_allclose(served.serve(given), extractor(records, training=False), atol=1e-6)


def test_an_extractor_can_be_part_of_another_model() -> None:
    """Frozen, it keeps its weights while the new head is trained."""
    model, records, labels = exclusive_or()
    extractor = joined.extractor(model)
    extractor.trainable = False
    before = extractor.get_weights()
    inputs = {name: keras.Input([2], name=name) for name in ("one", "other")}
    head = Classification(2)
    second = joined.build(inputs, [extractor(inputs, training=False)], head)
    second.compile("adam", head.loss(), run_eagerly=True)
    second.train_on_batch(records, labels)

    for one, other in zip(before, extractor.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(second.trainable_weights) == 2
