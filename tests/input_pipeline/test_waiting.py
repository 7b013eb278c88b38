"""What a loop waits for batches is measured, and what it does with them is not."""

import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.input_pipeline.waiting import Meter

SLOW = 0.05


def slowly(number: tf.Tensor) -> tf.Tensor:
    """Takes its time over an element."""

    def dawdle(value: Any) -> Any:
        end = time.perf_counter() + SLOW
        while time.perf_counter() < end:
            pass
        return value

    return tf.ensure_shape(tf.numpy_function(dawdle, [number], tf.int64), [])


def test_a_slow_source_is_waited_for() -> None:
    """Every element of ten takes a twentieth of a second."""
    meter = Meter()
    seen = [int(n) for n in meter.watch(tf.data.Dataset.range(10).map(slowly))]

    assert seen == list(range(10))
    assert meter.take() == pytest.approx(10 * SLOW, rel=0.5)


def test_a_slow_loop_does_not_wait() -> None:
    """Its batches are ready when it comes for them."""
    meter = Meter()
    for _ in meter.watch(tf.data.Dataset.range(10).prefetch(10)):
        slowly(tf.constant(0, tf.int64))

    assert meter.take() < SLOW


def test_what_was_told_is_not_told_again() -> None:
    """An epoch has its own figure."""
    meter = Meter()
    list(meter.watch(tf.data.Dataset.range(2).map(slowly)))

    assert meter.take() > 0
    assert meter.take() == 0


def test_batches_are_handed_on_as_they_are(world: Any) -> None:
    """Values, labels and shapes."""
    data = world.reader().training(world.files)
    watched = Meter().watch(data)

    assert watched.element_spec == data.element_spec
    assert world.content(watched) == world.content(data)


def test_inside_a_function_it_is_measured_too() -> None:
    """Keras takes its batches there."""
    meter = Meter()
    iterator = iter(meter.watch(tf.data.Dataset.range(4).map(slowly)))

    @tf.function
    def step() -> tf.Tensor:
        return next(iterator)

    assert [int(step()) for _ in range(4)] == [0, 1, 2, 3]
    assert np.isclose(meter.take(), 4 * SLOW, rtol=0.5)
