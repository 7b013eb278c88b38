"""The time that a loop waits for batches is measured, and the time of its steps is not."""

import time
from typing import Any

import tensorflow as tf

from components.input_pipeline.probe import WaitMeter, timed

SLOW = 0.05


def slowly(number: tf.Tensor) -> tf.Tensor:
    """Takes 50 ms per element."""

    def work(value: Any) -> Any:
        end = time.perf_counter() + SLOW
        while time.perf_counter() < end:
            pass
        return value

    return tf.ensure_shape(tf.numpy_function(work, [number], tf.int64), [])


def waited(data: tf.data.Dataset, steps: int, step: Any = tf.identity) -> tuple[list[int], float]:
    """Returns what a compiled loop returns for each batch, and the seconds that it waited for all of them."""

    @tf.function(autograph=False)
    def loop(iterator: Any) -> Any:
        def body(number: tf.Tensor, seconds: tf.Tensor, seen: tf.Tensor) -> Any:
            batch, took = timed(iterator.get_next)
            return number + 1, seconds + took, tf.tensor_scatter_nd_update(seen, [[number]], [step(batch)])

        start = 0, tf.constant(0.0, tf.float64), tf.zeros([steps], tf.int64)
        return tf.while_loop(lambda number, *_: number < steps, body, start, parallel_iterations=1)[1:]

    seconds, seen = loop(iter(data))
    return seen.numpy().tolist(), float(seconds)


def test_a_loop_waits_for_slow_input() -> None:
    """Ten elements of 50 ms each; a busy machine may take longer."""
    seen, seconds = waited(tf.data.Dataset.range(10).map(slowly), 10)

    assert seen == list(range(10))
    assert seconds >= 10 * SLOW


def test_a_slow_loop_hardly_waits() -> None:
    """Its batches are ready when it needs them: it waits far less than its steps take."""
    begun = time.perf_counter()
    _, seconds = waited(tf.data.Dataset.range(10).prefetch(10), 10, slowly)

    assert seconds < (time.perf_counter() - begun) / 2


def test_taking_the_time_resets_it() -> None:
    """Each epoch has its own measurement."""
    meter = WaitMeter()
    meter.add(0.5)
    meter.add(0.25)

    assert [meter.take(), meter.take()] == [0.75, 0.0]


def test_batches_are_unchanged(texts: Any) -> None:
    """Values and labels of the structure that a model is trained on."""
    data = texts.reader().training(texts.files, epochs=1)

    @tf.function(autograph=False)
    def get(iterator: Any) -> Any:
        return timed(iterator.get_next)[0]

    iterator, expected = iter(data), list(data)
    found = [get(iterator) for _ in expected]
    tf.nest.assert_same_structure(expected, found)
    assert [value.numpy().tolist() for value in tf.nest.flatten(found)] == [
        value.numpy().tolist() for value in tf.nest.flatten(expected)
    ]
