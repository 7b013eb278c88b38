"""The time that a loop waits for batches is measured, and the time of its steps is not."""

import time
from typing import Any

import tensorflow as tf

from components.input_pipeline.probe import WaitMeter

SLOW = 0.05


def slowly(number: tf.Tensor) -> tf.Tensor:
    """Takes 50 ms per element."""

    def work(value: Any) -> Any:
        end = time.perf_counter() + SLOW
        while time.perf_counter() < end:
            pass
        return value

    return tf.ensure_shape(tf.numpy_function(work, [number], tf.int64), [])


def test_a_loop_waits_for_slow_input() -> None:
    """Ten elements of 50 ms each; a busy machine may take longer."""
    meter = WaitMeter()
    seen = [int(n) for n in meter.watch(tf.data.Dataset.range(10).map(slowly))]

    assert seen == list(range(10))
    assert meter.take() >= 10 * SLOW


def test_a_slow_loop_hardly_waits() -> None:
    """Its batches are ready when it needs them: it waits far less than its steps take."""
    meter = WaitMeter()
    begun = time.perf_counter()
    for _ in meter.watch(tf.data.Dataset.range(10).prefetch(10)):
        slowly(tf.constant(0, tf.int64))

    assert meter.take() < (time.perf_counter() - begun) / 2


def test_taking_the_time_resets_it() -> None:
    """Each epoch has its own measurement."""
    meter = WaitMeter()
    list(meter.watch(tf.data.Dataset.range(2).map(slowly)))

    assert meter.take() > 0
    assert meter.take() == 0


def test_batches_are_unchanged(texts: Any) -> None:
    """Values, labels and shapes."""
    data = texts.reader().training(texts.files)
    watched = WaitMeter().watch(data)

    assert watched.element_spec == data.element_spec
    assert texts.content(watched) == texts.content(data)


def test_it_measures_inside_a_compiled_function() -> None:
    """Keras takes its batches there."""
    meter = WaitMeter()
    iterator = iter(meter.watch(tf.data.Dataset.range(4).map(slowly)))

    @tf.function
    def step() -> tf.Tensor:
        return next(iterator)

    assert [int(step()) for _ in range(4)] == [0, 1, 2, 3]
    assert meter.take() >= 4 * SLOW
