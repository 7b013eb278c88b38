"""Compiled calls: one call from Python runs several steps, so that short steps do not wait for Python.

    iterator, number of steps ─► tf.while_loop: batch ─► step ─► records counted ─► logs of the last step
                                                └─► seconds that the steps waited for their batches

The number of steps is a tensor: another number needs no new trace and changes no result.
"""

import time
from typing import Any

import keras
import tensorflow as tf

from components.input_pipeline.probe import WaitMeter, timed
from components.training.hardware.devices import Devices, Step
from components.training.own_step import OwnStep

_MOST = 32  # steps per call; 8 already take nearly all of Python's share away
_LONGEST = 0.2  # seconds per call: progress, checkpoints and signals act between calls


class Calls:
    """Runs a step over the batches of an iterator, several per call.

    Args:
        step: what to do with a batch; on one device, tracing it creates the variables of metrics.
        model: what the step trains or evaluates.
        spec: element spec of the dataset of `devices`.
        devices: where steps run.
        meter: adds up how long steps wait for batches.
        own: the step is the user's and not Keras's.
        steps: per call; 0: as many as fit into 0.2 s, at most 32.
        jit_compile: compile the step with XLA.
    """

    def __init__(
        self,
        step: Step,
        model: keras.Model,
        spec: Any,
        devices: Devices,
        steps: int = 0,
        *,
        meter: WaitMeter | None = None,
        own: bool = False,
        jit_compile: bool = False,
    ) -> None:
        self._model, self._devices, self._meter = model, devices, meter or WaitMeter()
        self.records = devices.count()  # of the present epoch
        on_all = devices.step(step, model, self.records, own=own)
        try:
            self._one = tf.function(on_all, jit_compile=jit_compile).get_concrete_function(spec)
        except Exception as error:
            if isinstance(step, OwnStep):
                raise step.explained(error) from error
            raise
        self._many = tf.function(self._steps, autograph=False)
        self._fixed, self.steps = steps > 0, steps or 1

    @property
    def names(self) -> list[str]:
        """The names of the logs."""
        return sorted(self._devices.logs(self._model, self._one.structured_outputs))

    def __call__(self, iterator: Any, left: int) -> tuple[int, dict[str, float]]:
        """Runs steps, at most `left`; returns how many, and the logs of the last one."""
        count, begun = min(self.steps, left), time.perf_counter()
        found, waited = self._many(iterator, tf.constant(count))
        logs = {name: float(value) for name, value in found.items()}
        self._meter.add(float(waited))
        if not self._fixed:
            self._adapt(time.perf_counter() - begun)
        return count, logs

    def _steps(self, iterator: Any, count: tf.Tensor) -> Any:
        def body(done: tf.Tensor, waited: tf.Tensor, logs: Any) -> Any:
            del logs
            batch, seconds = timed(iterator.get_next)
            return done + 1, waited + seconds, self._one(batch)

        nothing = tf.nest.map_structure(lambda log: tf.zeros(log.shape, log.dtype), self._one.structured_outputs)
        start = 0, tf.constant(0.0, tf.float64), nothing
        _, waited, logs = tf.while_loop(lambda done, *_: done < count, body, start, parallel_iterations=1)
        return self._devices.logs(self._model, logs), waited

    def _adapt(self, seconds: float) -> None:
        if seconds < _LONGEST / 2:
            self.steps = min(_MOST, 2 * self.steps)
        elif seconds > _LONGEST:
            self.steps = max(1, self.steps // 2)
