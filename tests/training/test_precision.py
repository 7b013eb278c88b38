"""The dtype policy suits the device, and the exported model computes in float32."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.models import joined, table
from components.models.heads import Classification
from components.settings.train import Train
from components.training.hardware import precision


@pytest.mark.parametrize(
    ("capabilities", "name"),
    [
        ([], "float32"),
        ([(6, 1)], "float32"),
        ([(7, 0)], "mixed_float16"),
        ([(8, 0)], "mixed_bfloat16"),
        ([(9, 0), (7, 5)], "mixed_float16"),
    ],
)
def test_mixed_precision_is_what_all_devices_are_fast_at(
    monkeypatch: pytest.MonkeyPatch, capabilities: list[tuple[int, int]], name: str
) -> None:
    """By the oldest GPU; without a GPU, float32."""
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: capabilities)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"compute_capability": gpu})

    assert [precision.policy(Train(precision=each)) for each in ("mixed", "float32")] == [name, "float32"]
    assert precision.policy(Train(precision="mixed", devices="cpu")) == "float32"


def test_the_same_weights_in_float32() -> None:
    """Bit-equal answers to those of a model that was built in float32."""
    numbers = keras.Input([3], name="table_numbers")

    def build() -> keras.Model:
        return joined.build({"table_numbers": numbers}, [table.encode(numbers)], Classification(2))

    with precision.scope("mixed_float16"):
        mixed = build()
    reference = build()
    reference.set_weights(mixed.get_weights())
    exact = precision.in_float32(mixed, build)
    rows = {"table_numbers": np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)}

    assert {layer.compute_dtype for layer in exact.layers} == {"float32"}
    copies = [keras.models.clone_model(each) for each in (mixed, exact)]
    assert [precision.is_float16(each) for each in (mixed, exact, *copies)] == [True, False, True, False]
    np.testing.assert_array_equal(exact(rows), reference(rows))
    np.testing.assert_allclose(mixed(rows), reference(rows), atol=0.02)
