"""Adam from the settings: schedule of the learning rate, weight decay, clipping and accumulation of gradients.

    gradients ─► add duplicate rows ─► add up replicas ─► add to those of earlier steps ─► clip ─► decay, Adam
                 (embeddings)                              └── every `accumulate` steps, and at an epoch's end ──┘

Three things differ from Keras 3.12. Rows that an embedding's gradient holds several times are added before they are
squared. Clipping and weight decay see the gradients of all replicas. The gradients of an epoch's last steps are applied
even if they are fewer than `accumulate`. All state is in `variables`, and which step it is follows from `iterations`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras.initializers import Constant

from components.settings.train import Train

# Weight decay is for kernels: it would shrink the embeddings of rare tokens towards 0 and undo normalization.
_NOT_DECAYED = {"embeddings", "bias", "gamma", "beta"}
# Elements. One fused operation is faster on variables up to the first and from the second size on; on those between
# them, which the formula updates, it waits for other threads.
_SMALL, _LARGE = 256, 1 << 20
_FIRST_SCALE, _GOOD_STEPS = 2.0**15, 2000  # as in Keras: of the loss; steps until it doubles


class _Rates(NamedTuple):
    """What the update of every variable in a step needs."""

    learning: tf.Tensor
    first: tf.Tensor  # beta_1 to the power of the step
    second: tf.Tensor
    corrected: tf.Tensor  # learning rate, corrected for moments that began at 0


def make(settings: Train, steps: int, *, scaled: bool = False) -> "Adam":
    """Returns the optimizer for epochs of `steps` steps; `scaled`: see `Adam`."""
    return Adam(
        Schedule(settings.schedule, settings.learning_rate, settings.epochs * steps, settings.warmup),
        steps,
        settings.accumulate,
        scaled=scaled,
        weight_decay=settings.weight_decay or None,
        global_clipnorm=settings.clip_norm or None,
    )


@keras.saving.register_keras_serializable("penstock")
class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A linear rise over the first steps, then a constant, or a cosine that ends at 0 after the last step."""

    def __init__(self, kind: str, peak: float, steps: int, warmup: float = 0.0) -> None:
        """Takes "constant" or "cosine", the highest learning rate, all steps, and the fraction of them that rises."""
        super().__init__()
        self.kind, self.peak, self.steps, self.warmup = kind, peak, steps, warmup

    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the learning rate of a step, counted from 0."""
        rise = math.floor(self.warmup * self.steps)
        step = tf.cast(tf.convert_to_tensor(step), tf.float32)
        rate = tf.constant(self.peak)
        if self.kind == "cosine":
            rest = float(max(1, self.steps - rise))
            rate *= 0.5 * (1.0 + tf.cos(math.pi * (tf.clip_by_value(step - rise, 0.0, rest) / rest)))
        return tf.minimum(rate, self.peak * (step + 1.0) / rise) if rise else rate

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, for Keras to serialize."""
        return {"kind": self.kind, "peak": self.peak, "steps": self.steps, "warmup": self.warmup}


@keras.saving.register_keras_serializable("penstock")
class Adam(keras.optimizers.Adam):
    """Adam for dense and sparse gradients, on one device or under a strategy.

    Args:
        learning_rate: a number or a schedule.
        steps: steps per epoch.
        accumulate: steps per update.
        scaled: multiply the loss by a large number, so that gradients are not 0 in float16. A step whose gradients are
            not finite is left out and halves the number; many good ones double it. Keras' LossScaleOptimizer sees only
            the first replica's gradients, and does not count steps that it leaves out.
        kwargs: as for keras.optimizers.Adam.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        steps: int = 1,
        accumulate: int = 1,
        *,
        scaled: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        self.steps, self.accumulate, self.scaled = steps, accumulate, scaled

    @property
    def iterations(self) -> Any:
        """The number of updates so far: fewer than steps if gradients are accumulated."""
        if self.accumulate == 1:
            return self._iterations
        epochs, step = self._iterations // self.steps, self._iterations % self.steps
        return epochs * math.ceil(self.steps / self.accumulate) + step // self.accumulate

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        """Creates the moments, and the sums of gradients if they are accumulated."""
        if self.built:
            return
        super().build(var_list)
        self._decayed = {place for place, each in enumerate(var_list) if self.weight_decay and _is_kernel(each)}
        if self.accumulate > 1:
            self._sums = self.add_optimizer_variables(var_list, "gradient_sum")
        if self.scaled:
            once = {"shape": (), "aggregation": "only_first_replica"}
            self._scale = self.add_variable(**once, initializer=Constant(_FIRST_SCALE), name="loss_scale")
            self._good = self.add_variable(**once, dtype="int32", name="good_steps")
            self._added = self.add_variable(**once, dtype="int32", name="added_steps")  # finite ones since an update

    def scale_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss whose gradients `apply` expects."""
        return loss * tf.cast(self._scale, loss.dtype) if self.scaled else loss

    def _backend_apply_gradients(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
        variables = [getattr(variable, "value", variable) for variable in trainable_variables]
        added = self._all_reduce_sum_gradients(list(zip(map(_add_rows, grads), variables, strict=True)))
        gradients = [gradient for gradient, _ in added]
        finite = None
        if self.scaled:
            gradients, finite = self._unscaled(gradients)
        if self.accumulate == 1:
            self._in_all_replicas(self._update, self._clip_gradients(gradients), variables, finite)
            return
        places = [self._get_variable_index(variable) for variable in variables]
        gradients = [gradient + self._sums[place] for gradient, place in zip(gradients, places, strict=True)]
        count = (self._iterations % self.steps) % self.accumulate + 1
        if finite is not None:
            count = self._added + tf.cast(finite, tf.int32)
            self._added.assign(tf.where(self._is_due(), 0, count))
            finite, count = count > 0, tf.maximum(count, 1)
        means = self._clip_gradients([gradient / tf.cast(count, gradient.dtype) for gradient in gradients])
        sums = [self._sums[place].value for place in places]
        self._in_all_replicas(self._update_or_keep, means, variables, gradients, sums, finite)

    def _is_due(self) -> tf.Tensor:
        """Whether the accumulated gradients are applied in this step."""
        done = self._iterations % self.steps + 1
        return tf.logical_or(done % self.accumulate == 0, tf.equal(done, self.steps))

    def _unscaled(self, gradients: Sequence[Any]) -> tuple[list[Any], tf.Tensor]:
        """Returns gradients of the loss itself, 0 if one is not finite, and whether all are; adapts the scale."""
        scale = tf.convert_to_tensor(self._scale)
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
        good = tf.where(finite, self._good + 1, 0)
        grows = tf.equal(good, _GOOD_STEPS)
        self._good.assign(tf.where(grows, 0, good))
        self._scale.assign(tf.where(finite, tf.where(grows, 2 * scale, scale), tf.maximum(scale / 2, 1.0)))
        zero = [tf.zeros_like(gradient) for gradient in gradients]
        return [tf.where(finite, each / scale, none) for each, none in zip(gradients, zero, strict=True)], finite

    def _in_all_replicas(self, function: Any, *args: Any) -> None:
        tf.__internal__.distribute.interim.maybe_merge_call(function, self._distribution_strategy, *args)

    def _update(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        finite: tf.Tensor | None = None,
    ) -> None:
        def update() -> None:
            self._distributed_tf_update_step(strategy, zip(gradients, variables, strict=True), self._rates())

        if finite is None:
            update()
        else:
            tf.cond(strategy.experimental_local_results(finite)[0], update, lambda: None)

    def _update_or_keep(
        self,
        strategy: tf.distribute.Strategy,
        means: Sequence[Any],
        variables: Sequence[Any],
        gradients: Sequence[Any],
        sums: Sequence[Any],
        finite: tf.Tensor | None,
    ) -> None:
        def update() -> None:
            self._update(strategy, means, variables, finite)
            for each in sums:
                strategy.extended.update(each, lambda kept: kept.assign(tf.zeros_like(kept)), group=False)

        def keep() -> None:
            for each, gradient in zip(sums, gradients, strict=True):
                strategy.extended.update(each, lambda kept, value: kept.assign(value), (gradient,), group=False)

        tf.cond(self._is_due(), update, keep)

    def _rates(self) -> _Rates:
        """Returns what the update of every variable needs; Keras' formula computes it again for each of them."""
        step, rate = tf.cast(self.iterations + 1, tf.float32), tf.cast(self.learning_rate, tf.float32)
        first, second = tf.pow(tf.constant(self.beta_1), step), tf.pow(tf.constant(self.beta_2), step)
        return _Rates(rate, first, second, rate * tf.sqrt(1 - second) / (1 - first))

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: _Rates) -> None:
        """Decays and updates a variable."""
        place, kind = self._get_variable_index(variable), variable.dtype
        rates = _Rates(*(tf.cast(each, kind) for each in learning_rate))
        if place in self._decayed:
            variable.assign_sub(variable * (tf.cast(self.weight_decay, kind) * rates.learning))
        mean, square = (each[place].value for each in (self._momentums, self._velocities))
        gradient = tf.cast(gradient, kind)
        if _SMALL < variable.shape.num_elements() < _LARGE:
            mean.assign_add((gradient - mean) * (1 - self.beta_1))
            square.assign_add((tf.square(gradient) - square) * (1 - self.beta_2))
            variable.assign_sub(mean * rates.corrected / (tf.sqrt(square) + self.epsilon))
            return
        tf.raw_ops.ResourceApplyAdam(  # one pass over memory; the formula takes about ten
            var=variable.handle,
            m=mean.handle,
            v=square.handle,
            beta1_power=rates.first,
            beta2_power=rates.second,
            lr=rates.learning,
            beta1=tf.cast(self.beta_1, kind),
            beta2=tf.cast(self.beta_2, kind),
            epsilon=tf.cast(self.epsilon, kind),
            grad=gradient,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, for Keras to serialize."""
        return {**super().get_config(), "steps": self.steps, "accumulate": self.accumulate, "scaled": self.scaled}


def _add_rows(gradient: Any) -> tf.Tensor:
    """Returns a dense gradient. Adam moves every row in every step, so sparse rows would save nothing."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, gradient.dense_shape[0])


def _is_kernel(variable: keras.Variable) -> bool:
    return len(variable.shape) > 1 and variable.name not in _NOT_DECAYED
