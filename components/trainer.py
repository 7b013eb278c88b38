"""The Trainer's run_fn: check the shards, read them through the input pipeline, fit, keep the best, export.

examples + transform graph ─► Reader ─► fit (best epoch by held-out loss) ─► SavedModel
                                            └─► model_run: TensorBoard logs, history.json
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import orjson
import tensorflow as tf
import tensorflow_transform as tft
from tfx.components.trainer.fn_args_utils import FnArgs

from components import durable, progress, refs, serving
from components.errors import BadInput, PenstockError
from components.hashing import sha256_of
from components.ingest import account
from components.input_pipeline import Feature, Reader, RecordFile
from components.settings import Input, Train
from components.transform import class_names

HISTORY = "history.json"


def run_fn(args: FnArgs) -> None:
    """Entry point of the Trainer component."""
    _require_keras_3()
    config = args.custom_config
    examples = _artifact_of(args.train_files[0])
    accounts = account.read(examples)
    train, held_out = (_checked_shards(examples, accounts, split) for split in ("train", "eval"))
    settings, fit = Input.model_validate(config["input"]), Train.model_validate(config["train"])
    features: dict[str, Feature] = {key: refs.load(ref).of(settings, accounts) for key, ref in config["features"]}
    reader = Reader(
        features, config["label"], _label_lookup(args.transform_graph_path, config["label"]), settings, fit.seed
    )
    keras.utils.set_random_seed(fit.seed)
    classes = class_names(args.transform_graph_path)
    model = refs.load(config["model"])(
        {key: feature.keras_input(key) for key, feature in features.items()}, len(classes)
    )
    best = _fit(model, reader, train, held_out, fit, Path(args.model_run_dir))
    _write_history(Path(args.model_run_dir), best)
    serving.export(model, features, classes, args.serving_model_dir)


class Records(keras.metrics.Metric):
    """Counts the records of an epoch: the trainer's line in the ledger."""

    def __init__(self, name: str = "records") -> None:
        """Starts at nothing."""
        super().__init__(name=name, dtype="float64")
        self.count = self.add_weight(name="count", initializer="zeros", dtype="float64")

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds the size of a batch."""
        del y_pred, sample_weight
        self.count.assign_add(tf.cast(tf.shape(y_true)[0], tf.float64))

    def result(self) -> tf.Tensor:
        """Returns the records since the epoch began."""
        return self.count


class _Watch(keras.callbacks.Callback):
    """Reports progress, and stops on a loss that is not a number."""

    def __init__(self, epochs: int, steps: int, batch_size: int, records: int) -> None:
        super().__init__()
        self._epochs, self._steps, self._batch_size, self._records = epochs, steps, batch_size, records
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        del logs
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        loss = self._finite("loss", logs, f"step {batch + 1}")
        done = self._epoch * self._records + min((batch + 1) * self._batch_size, self._records)
        note = f"epoch {self._epoch + 1}/{self._epochs}  loss {loss:.3f}"
        progress.report(done, self._epochs * self._records, note)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        # The last step of an epoch may spoil the weights after its own loss was taken.
        del epoch
        self._finite("val_loss", logs, "on the held-out split")

    def _finite(self, name: str, logs: Mapping[str, float] | None, where: str) -> float:
        loss = float((logs or {}).get(name, 0.0))
        if not math.isfinite(loss):
            raise PenstockError(
                f"the loss became {loss} in epoch {self._epoch + 1}, {where}; nothing was exported. "
                "Lower train.learning_rate or look for extreme values in the data"
            )
        return loss


def _fit(
    model: keras.Model, reader: Reader, train: list[RecordFile], held_out: list[RecordFile], fit: Train, run: Path
) -> dict[str, Any]:
    """Fits the model, leaves it with the weights of its best epoch, and returns the history."""
    steps, records = reader.steps(train), sum(shard.records for shard in train)
    schedule = keras.optimizers.schedules.CosineDecay(fit.learning_rate, fit.epochs * steps)
    model.compile(
        optimizer=keras.optimizers.Adam(schedule),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy", Records()],
    )
    checkpoint = run / "best.weights.h5"
    callbacks = [
        _Watch(fit.epochs, steps, reader.settings.batch_size, records),
        keras.callbacks.ModelCheckpoint(str(checkpoint), "val_loss", save_best_only=True, save_weights_only=True),
        keras.callbacks.TensorBoard(str(run / "tensorboard"), write_graph=False),
    ]
    history = model.fit(
        reader.training(train),
        steps_per_epoch=steps,
        epochs=fit.epochs,
        validation_data=reader.evaluation(held_out),
        validation_steps=reader.steps(held_out),
        callbacks=callbacks,
        verbose=0,
    ).history
    model.load_weights(str(checkpoint))
    return {"history": history, "best_epoch": min(range(fit.epochs), key=history["val_loss"].__getitem__)}


def _write_history(run: Path, best: dict[str, Any]) -> None:
    plain = {name: [float(value) for value in values] for name, values in best["history"].items()}
    durable.write_bytes(run / HISTORY, orjson.dumps({"best_epoch": best["best_epoch"], "epochs": plain}))


def _label_lookup(transform_graph: str, label: str) -> Any:
    """Returns Transform's own numbering of labels, as a function of a batch of strings."""
    output = tft.TFTransformOutput(transform_graph)

    @tf.autograph.experimental.do_not_convert  # else TFT's own code is converted: five seconds for nothing
    def number(labels: tf.Tensor) -> tf.Tensor:
        return output.transform_raw_features({label: labels})[label]

    return number


def _artifact_of(pattern: str) -> Path:
    # TFX hands over `<artifact>/Split-train/*`.
    return Path(pattern).parent.parent


def _checked_shards(examples: Path, accounts: account.Account, split: str) -> list[RecordFile]:
    """Returns the shards of a split, each compared with the manifest first."""
    checked = []
    for shard in accounts.shards_of(split):
        path = examples / shard.name
        if not path.exists() or path.stat().st_size != shard.bytes or sha256_of(path) != shard.sha256:
            raise BadInput(f"{path}: not the shard that ingest wrote; run again with --force Ingest")
        checked.append(RecordFile(path, shard.records, shard.bytes))
    return [shard for shard in checked if shard.records]


def _require_keras_3() -> None:
    if not keras.__version__.startswith("3."):
        raise PenstockError(f"Keras {keras.__version__} is active, Keras 3 is needed; `penstock doctor` says more")
