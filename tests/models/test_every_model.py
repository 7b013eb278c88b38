"""Properties of a model of any modality, and of joined models."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.models import joined

pytestmark = pytest.mark.slow

LABELS = np.arange(16) % 4


def test_outputs_are_probabilities(case: Any, untrained: Any) -> None:
    """One per class and record; they are not negative and sum to one."""
    found = untrained(case.batch(2), training=False).numpy()

    assert (found.shape, found.dtype) == ((2, 4), np.float32)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), [1, 1], atol=1e-6)


@pytest.mark.parametrize(
    "case", ["image", "text", "tensor", "row", "table", pytest.param("joined", marks=pytest.mark.all)], indirect=True
)
def test_a_model_can_memorize_sixteen_records(case: Any) -> None:
    """After sixty steps, it predicts all of them right in inference mode."""
    model, records = case.model(jit_compile=False), case.batch()
    for _ in range(60):
        model.train_on_batch(records, LABELS)

    assert model(records, training=False).numpy().argmax(axis=1).tolist() == LABELS.tolist()


def test_one_seed_gives_the_same_weights_after_training(case: Any) -> None:
    """Dropout is seeded too, so a run can be reproduced."""
    trained = []
    for _ in range(2):
        model = case.model(run_eagerly=True)
        model.train_on_batch(case.batch(), LABELS)
        trained.append(model.get_weights())

    for one, other in zip(*trained, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_saved_model_has_only_keras_layers(case: Any, untrained: Any, tmp_path: Path) -> None:
    """Keras loads it in safe mode, and it predicts the same."""
    keras.Model(untrained.input, untrained.output).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)

    assert [layer for layer in untrained.layers if not type(layer).__module__.startswith("keras.")] == []
    np.testing.assert_array_equal(loaded(case.batch(), training=False), untrained(case.batch(), training=False))


def test_the_extractor_returns_the_input_of_the_head(case: Any, untrained: Any) -> None:
    """With the weights of the head, it gives the probabilities."""
    features = joined.extractor(untrained)(case.batch(), training=False).numpy()
    weights, biases = untrained.get_layer("probabilities").get_weights()

    assert features.ndim == 2
    np.testing.assert_allclose(
        keras.ops.softmax(features @ weights + biases), untrained(case.batch(), training=False), atol=1e-6
    )


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_changes_little(case: Any, untrained: Any, policy: str) -> None:
    """Features and probabilities are float32, finite, and close to those in float32."""
    keras.config.set_dtype_policy(policy)
    try:
        model = case.model()
    finally:
        keras.config.set_dtype_policy("float32")
    found, features = model(case.batch(), training=False), joined.extractor(model)(case.batch(), training=False)

    assert (found.dtype.name, features.dtype.name) == ("float32", "float32")
    assert np.isfinite(features).all()
    np.testing.assert_allclose(found, untrained(case.batch(), training=False), atol=0.05)


def test_xla_predicts_the_same(case: Any, untrained: Any) -> None:
    """Within rounding."""
    compiled = tf.function(lambda batch: untrained(batch, training=False), jit_compile=True)
    batch = {name: tf.constant(values) for name, values in case.batch().items()}

    np.testing.assert_allclose(compiled(batch), untrained(batch, training=False), atol=1e-5)
