"""One process of a small training on several devices or workers, for test_devices.py: `python several.py JSON`.

A record is an image whose first value is its number, so that a training step can write down which ones it saw.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import keras
import numpy as np
import orjson
import tensorflow as tf
from keras import layers

from components.features.tensor import TensorFeature
from components.input_pipeline import Position, Reader, Worker
from components.input_pipeline.stores import Rows, from_arrays
from components.settings.input import Input
from components.settings.train import Train
from components.training import checkpoint, loop, optimizer
from components.training.checkpoint import Checkpoint, Checkpoints
from components.training.hardware import cluster, devices
from components.training.hardware.devices import Devices
from components.training.hardware.shares import Shares
from components.training.stopping import Best

SHAPE, CLASSES, BATCH = (6, 6, 3), 3, 8
NO_DROPOUT = 1e-12  # the layer draws its numbers, and drops nothing


def rows(count: int, seed: int) -> Rows:
    """Returns numbered records."""
    random = np.random.default_rng(seed)
    images = random.normal(size=(count, *SHAPE)).astype(np.float32)
    images[:, 0, 0, 0] = np.arange(count) / 1000
    return from_arrays({"image": images, "label": random.integers(0, CLASSES, count)})


def model(dropout: float) -> keras.Model:
    """Returns a model with batch normalization, dropout and an embedding."""
    image = keras.Input(SHAPE, name="image")
    x = layers.Conv2D(8, 3, use_bias=False)(image)
    x = layers.Activation("relu")(layers.BatchNormalization(momentum=0.9)(x))
    x = layers.Dropout(dropout, name="dropout")(layers.GlobalAveragePooling2D()(x))
    token = keras.ops.cast(keras.ops.clip(image[:, 1, 1, 1] * 2 + 5, 0, 9), "int32")
    x = layers.Concatenate()([x, layers.Embedding(10, 4)(token)])
    return keras.Model({"image": image}, layers.Dense(CLASSES, "softmax")(x))


class Joined(Shares):
    """The batches of two workers as one, for one device."""

    def training(self, reader: Reader, records: Any, start: Position) -> tf.data.Dataset:
        """Returns the joined batches of epoch after epoch."""
        shares = [Worker(index, 2) for index in range(2)]

        def joined() -> Iterator[Any]:
            for epoch in range(start.epoch, 99):
                parts = [reader.training(records, Position(epoch), worker, epochs=1) for worker in shares]
                for pair in zip_longest(*parts):
                    yield tf.nest.map_structure(lambda *each: tf.concat(each, 0), *filter(None, pair))

        data = reader.training(records)
        return tf.data.Dataset.from_generator(joined, output_signature=data.element_spec)


def noted(step: Any, file: Path) -> Any:
    """Returns a training step that also writes the numbers of its records to a file, one line per step."""

    def note(images: Any) -> Any:
        with file.open("a") as stream:
            print(*np.rint(images[:, 0, 0, 0] * 1000).astype(int), file=stream)
        return np.int64(0)

    def noting(batch: Any) -> Any:
        with tf.control_dependencies([tf.numpy_function(note, [batch[0]["image"]], tf.int64)]):
            return step(tf.nest.map_structure(tf.identity, batch))

    return noting


def own_step(trained: keras.Model, batch: Any) -> Any:
    """Trains as the guide says; has a condition that AutoGraph must convert."""
    values, labels = batch
    with tf.GradientTape() as tape:
        loss = trained.compute_loss(values, labels, trained(values, training=True))
        scaled = trained.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, trained.trainable_variables)
    trained.optimizer.apply_gradients(zip(gradients, trained.trainable_variables, strict=True))
    large = tf.constant(0.0)
    if loss > 0:
        large = tf.constant(1.0)
    return {"loss": loss, "large": large}


class KilledAt(keras.callbacks.Callback):
    """Kills this process in an epoch, after a checkpoint has been written and a step has been done since."""

    def __init__(self, epoch: int) -> None:
        """Takes the number of the epoch; negative: never."""
        super().__init__()
        self._epoch, self._now = epoch, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the epoch."""
        del logs
        self._now = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Kills the process in the third step."""
        del logs
        if self._now == self._epoch and batch == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def train(config: Mapping[str, Any], chosen: Devices) -> Checkpoint:
    """Trains as the config says; returns history and variables."""
    shares = Joined(chosen.worker, 1) if config.get("joined") else chosen.shares
    workers = 2 if config.get("joined") else chosen.worker.count
    settings = Input(batch_size=BATCH // workers)
    reader = Reader({"image": TensorFeature(SHAPE, "float32")}, "label", tf.identity, settings, 5)
    records, held_out = rows(config["records"], 1), rows(config.get("eval", 16), 2)
    steps = max(reader.steps(records, Worker(index, workers)) for index in range(workers))
    keras.utils.set_random_seed(3)
    with chosen.scope():
        trained = chosen.replicate(model(config.get("dropout", NO_DROPOUT)))
        trained.compile(
            optimizer.make(Train(epochs=config["epochs"], learning_rate=0.01), steps),
            "sparse_categorical_crossentropy",
            metrics=["accuracy"],
            jit_compile=False,
        )
        if "notes" in config:
            trained.train_step = noted(trained.train_step, Path(config["notes"]))
        state = loop.train(
            loop.TrainingJob(
                trained,
                partial(shares.training, reader, records),
                steps,
                config["epochs"],
                shares.evaluation(reader, held_out),
                shares.evaluation_steps(reader, held_out),
                partial(own_step, trained) if config.get("own_step") else None,
                steps_per_call=1,
                devices=chosen,
            ),
            Best(),
            [KilledAt(config.get("killed_at", -1))],
            Checkpoints(Path(config["checkpoints"]) if "checkpoints" in config else None, 0.0, writes=chosen.is_chief),
        )
        variables = [variable.numpy() for variable in (*trained.variables, *trained.optimizer.variables)]
        header: dict[str, Any] = {"history": state.history, "resumed": len(state.resumed)}
        if chosen.strategy:
            generator = trained.get_layer("dropout").seed_generator
            header["draws"] = chosen.gather(lambda: keras.random.uniform([8], seed=generator))().tolist()
        return Checkpoint(header, tuple(variables))


def main() -> None:
    """Trains as the JSON says, and writes the result."""
    config = orjson.loads(sys.argv[1])
    trained = train(config, devices.start(config.get("devices", "cpu"), cluster.read()))
    checkpoint.write(Path(config["out"]), trained.header, trained.arrays)
    os._exit(0)


if __name__ == "__main__":
    main()
