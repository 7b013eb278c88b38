"""Prints the largest difference of any weight between one device and two replicas, for each case of the optimizer.

A process of its own, because logical devices are set before TensorFlow starts.
"""

from typing import Any

import keras
import numpy as np
import orjson
import tensorflow as tf

from components.settings.train import Train
from components.training import optimizer

_STEPS, _BATCH = 7, 8
_CASES = [{"clip_norm": 0.05, "weight_decay": 0.1}, {"accumulate": 3, "clip_norm": 0.05, "weight_decay": 0.1}]


def weights(settings: Train, strategy: tf.distribute.Strategy) -> list[Any]:
    """Returns the weights after two epochs of a model with an embedding; the learning rate is high."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        ids = keras.Input([6], dtype="int64")
        x = keras.layers.Flatten()(keras.layers.Embedding(10, 4)(ids))
        model = keras.Model(ids, keras.layers.Dense(3, activation="softmax")(x))
        model.compile(optimizer.make(settings, _STEPS), "sparse_categorical_crossentropy", jit_compile=False)
        model.optimizer.build(model.trainable_variables)
    random = np.random.default_rng(0)
    records = random.integers(0, 10, (_STEPS * _BATCH, 6)), random.integers(0, 3, _STEPS * _BATCH)
    data = tf.data.Dataset.from_tensor_slices(records).batch(_BATCH, drop_remainder=True).repeat()
    batches = iter(strategy.experimental_distribute_dataset(data))

    @tf.function
    def loop(steps: tf.Tensor) -> None:
        def step(number: tf.Tensor) -> tf.Tensor:
            strategy.run(model.train_step, args=(next(batches),))
            return number + 1

        tf.while_loop(lambda number: number < steps, step, [0], parallel_iterations=1)

    loop(tf.constant(2 * _STEPS))
    return [variable.numpy() for variable in model.trainable_variables]


def main() -> None:
    """Prints one number per case."""
    (device,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
    found = []
    for case in _CASES:
        settings = Train.model_validate({"epochs": 2, "learning_rate": 0.1, **case})
        one, two = (
            weights(settings, tf.distribute.MirroredStrategy(names)) for names in (["CPU:0"], ["CPU:0", "CPU:1"])
        )
        found.append(max(float(np.abs(a - b).max()) for a, b in zip(one, two, strict=True)))
    print(orjson.dumps(found).decode())


if __name__ == "__main__":
    main()
