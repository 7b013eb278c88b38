"""Compiled calls: one call from Python runs several steps, so that short steps do not wait for Python.

    iterator, number of steps ─► tf.while_loop: batch ─► step ─► records counted ─► logs of the last step

The number of steps is a tensor: another number needs no new trace and changes no result.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

Step = Callable[[Any], Mapping[str, Any]]  # a batch to logs by name, such as `model.train_step`
_MOST = 32  # steps per call; 8 already take nearly all of Python's share away
_LONGEST = 0.2  # seconds per call: progress, checkpoints and signals act between calls


class Calls:
    """Runs a step over the batches of an iterator, several per call.

    Args:
        step: what to do with a batch; tracing it creates the variables of optimizer and metrics that do not exist yet.
        spec: element spec of the dataset; labels are the second of its parts.
        steps: per call; 0: as many as fit into 0.2 s, at most 32.
        jit_compile: compile the step with XLA.
    """

    def __init__(self, step: Step, spec: Any, steps: int = 0, *, jit_compile: bool = False) -> None:
        self._one = tf.function(step, jit_compile=jit_compile).get_concrete_function(spec)
        self._many = tf.function(self._steps, autograph=False)
        self._fixed, self.steps = steps > 0, steps or 1
        self.records = tf.Variable(0, dtype=tf.int64, trainable=False)  # of the present epoch

    @property
    def names(self) -> list[str]:
        """The names of the logs."""
        return sorted(self._one.structured_outputs)

    def __call__(self, iterator: Any, left: int) -> tuple[int, dict[str, float]]:
        """Runs steps, at most `left`; returns how many, and the logs of the last one."""
        count, begun = min(self.steps, left), time.perf_counter()
        logs = {name: float(value) for name, value in self._many(iterator, tf.constant(count)).items()}
        if not self._fixed:
            self._adapt(time.perf_counter() - begun)
        return count, logs

    def _steps(self, iterator: Any, count: tf.Tensor) -> Any:
        def body(done: tf.Tensor, logs: Any) -> Any:
            del logs
            batch = iterator.get_next()
            self.records.assign_add(tf.shape(batch[1], out_type=tf.int64)[0])
            return done + 1, self._one(batch)

        nothing = tf.nest.map_structure(lambda log: tf.zeros(log.shape, log.dtype), self._one.structured_outputs)
        return tf.while_loop(lambda done, _: done < count, body, (0, nothing), parallel_iterations=1)[1]

    def _adapt(self, seconds: float) -> None:
        if seconds < _LONGEST / 2:
            self.steps = min(_MOST, 2 * self.steps)
        elif seconds > _LONGEST:
            self.steps = max(1, self.steps // 2)
