"""The Trainer's run_fn: check the shards, read them through the input pipeline, fit, keep the best, export.

examples + transform graph ─► Reader ─► fit (best epoch by held-out loss) ─► SavedModel
                                            └─► model_run: TensorBoard logs, history.json
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import orjson
import tensorflow as tf
from tfx.components.trainer.fn_args_utils import FnArgs

from components import diagnosis, progress, refs
from components import features as modalities
from components.errors import PenstockError, SettingsError
from components.fitting.fitted import Fitted
from components.input_pipeline import Reader, RecordFile, artifacts, probe
from components.input_pipeline.waiting import Meter
from components.models.heads import Classification, Head, Regression, class_weights
from components.pretrained import extractor
from components.records import manifest, verify
from components.records.roles import embedding_column
from components.records.verify import Verified
from components.serving import export
from components.settings.input import Input
from components.settings.train import Train
from components.settings.transform import Transform
from components.storage import durable
from components.tasks import assign

HISTORY = "history.json"


def run_fn(args: FnArgs) -> None:
    """Entry point of the Trainer component."""
    _require_keras_3()
    config = args.custom_config
    examples = _artifact_of(args.train_files[0])
    accounts = manifest.read(examples)
    settings, fit = Input.model_validate(config["input"]), Train.model_validate(config["train"])
    network = _Network.of(args.base_model, config["extract"])
    fitted = Fitted(args.transform_graph_path, Transform.model_validate(config["transform"]), network.inside())
    label, is_class = config["label"], config["kind"] == "class"
    classes = fitted.classes() if is_class else []
    wanted = assign.read(config["parts"])
    reader = Reader(
        features=assign.features(wanted, fitted, settings, accounts),
        label=label,
        label_number=lambda labels: fitted.apply({label: labels})[label],
        settings=settings,
        seed=fit.seed,
        classes=len(classes),
        label_type="string" if is_class else "float32",
        record_id=artifacts.record_id(examples),
    )
    head = _classification(fitted, fit, is_soft=reader.is_soft) if is_class else _regression(fitted, label)
    keras.utils.set_random_seed(fit.seed)
    shards = [accounts.shards_of(split) for split in ("train", "eval")]
    with contextlib.ExitStack() as stack:
        train, held_out = (stack.enter_context(verify.verified(examples, mine, settings)) for mine in shards)
        stack.enter_context(_damage_named(examples, [shard for mine in shards for shard in mine], settings))
        inputs = modalities.keras_inputs(reader.features)
        model = refs.load(config["model"])(inputs, assign.encodings(wanted, inputs, fitted), head)
        history = _fit(model, head, reader, train, held_out, fit, Path(args.model_run_dir))
    durable.write_bytes(Path(args.model_run_dir) / HISTORY, orjson.dumps(history))
    graph = fitted.graph if any(each.part.fit for each in wanted) else None
    export.export(model, reader.features, classes, args.serving_model_dir, graph, network.in_front())


@dataclass(frozen=True)
class _Network:
    """A pretrained network for images: part of the model, or in front of it."""

    path: str = ""
    where: str = ""
    image: str = ""  # column, if records have vectors in the place of images
    digest: str = ""

    @staticmethod
    def of(base_model: str | None, told: Mapping[str, str]) -> "_Network":
        if not base_model or not told:
            return _Network()
        # TFX names the folder in which it expects a model; what is there may be a file.
        return _Network(extractor.path_in(Path(base_model)), told["where"], told["image"], told["digest"])

    def inside(self) -> tuple[Any, bool] | None:
        """Returns the network and whether it learns, if it is to be a part of the model."""
        is_part = self.path and self.where != "beam"
        return (extractor.keras_model(self.path), self.where == "finetune") if is_part else None

    def in_front(self) -> export.Looks | None:
        """Returns what a client's images must go through, if training saw vectors."""
        if not self.path or self.where != "beam":
            return None
        return export.Looks(self.image, embedding_column(self.image), extractor.load(self.path), self.digest)


def _classification(fitted: Fitted, fit: Train, *, is_soft: bool) -> Classification:
    counts = fitted.class_counts()
    if is_soft and fit.class_weights:
        raise SettingsError("train.class_weights: mixup and cutmix blend classes; set them to 0, or class_weights")
    weights = class_weights(counts, fit.class_weights) if fit.class_weights else ()
    return Classification(len(counts), weights, is_soft)


def _regression(fitted: Fitted, label: str) -> Regression:
    mean, deviation = fitted.quantity(label)
    if not deviation > 0:
        raise PenstockError(f"{label}: all values of the training split are {mean:g}; there is nothing to learn")
    return Regression(mean, deviation)


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

    def __init__(self, epochs: int, batch_size: int, records: int, clock: "_InputClock") -> None:
        super().__init__()
        self._epochs, self._batch_size, self._records, self._clock = epochs, batch_size, records, clock
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        del logs
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        loss = self._finite("loss", logs, f"step {batch + 1}")
        done = self._epoch * self._records + min((batch + 1) * self._batch_size, self._records)
        note = "  ".join(filter(None, [f"epoch {self._epoch + 1}/{self._epochs}  loss {loss:.3f}", self._clock.told]))
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


class _InputClock(keras.callbacks.Callback):
    """Takes the time of each epoch's training, how much of it was spent waiting for batches, and finds out why."""

    def __init__(self, meter: Meter, records: int, explain: Callable[[float, float], str]) -> None:
        super().__init__()
        self._meter, self._records, self._explain, self._begun = meter, records, explain, 0.0
        self.seconds: list[float] = []
        self.waited: list[float] = []
        self.told = ""  # of the epoch before, once one has waited for its input
        self._reason = ""

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        del epoch, logs
        self._meter.take()
        self._begun = time.perf_counter()

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
        # Training of the epoch is over when the held-out records are looked at.
        del logs
        self.seconds.append(time.perf_counter() - self._begun)
        self.waited.append(self._meter.take())
        share = self.waited[-1] / self.seconds[-1]
        if share >= diagnosis.BOUND and not self._reason:  # once: stages cost the same in every epoch
            self._reason = self._explain(share, self._records / self.seconds[-1])
        self.told = diagnosis.renewed(self._reason, share) if self._reason else ""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, one an epoch, and what they say of all of them."""
        return {
            "verdict": diagnosis.renewed(self._reason, sum(self.waited) / sum(self.seconds)),
            "seconds": self.seconds,
            "waited": self.waited,
            "records_per_second": [self._records / seconds for seconds in self.seconds],
        }


def _fit(
    model: keras.Model, head: Head, reader: Reader, train: Verified, held_out: Verified, fit: Train, run: Path
) -> dict[str, Any]:
    """Fits the model, leaves it with the weights of its best epoch, and returns the history."""
    files, eval_files = _files(train), _files(held_out)
    steps, meter = reader.steps(files), Meter()
    records = sum(file.records for file in files)
    seen = min(records, steps * reader.settings.batch_size)
    schedule = keras.optimizers.schedules.CosineDecay(fit.learning_rate, fit.epochs * steps)
    model.compile(
        optimizer=keras.optimizers.Adam(schedule),
        loss=head.loss(),
        metrics=[*head.metrics(), Records()],
    )
    checkpoint = run / "best.weights.h5"
    clock = _InputClock(meter, seen, lambda waiting, rate: probe.explain(reader, files, waiting, rate))
    callbacks = [
        _Watch(fit.epochs, reader.settings.batch_size, seen, clock),
        clock,
        keras.callbacks.ModelCheckpoint(str(checkpoint), "val_loss", save_best_only=True, save_weights_only=True),
        keras.callbacks.TensorBoard(str(run / "tensorboard"), write_graph=False),
    ]
    history = model.fit(
        meter.watch(reader.training(files)),
        steps_per_epoch=steps,
        epochs=fit.epochs,
        validation_data=reader.evaluation(eval_files),
        validation_steps=reader.evaluation_steps(eval_files),
        callbacks=callbacks,
        verbose=0,
    ).history
    model.load_weights(str(checkpoint))
    decoders = {key: getattr(feature, "decoder", "tensorflow") for key, feature in reader.features.items()}
    lost = {"train": [bad.to_dict() for bad in train.damages], "eval": [bad.to_dict() for bad in held_out.damages]}
    return {
        "best_epoch": min(range(fit.epochs), key=history["val_loss"].__getitem__),
        "epochs": {name: [float(value) for value in values] for name, values in history.items()},
        # What an epoch does not see: records of damaged shards, and those of a last batch that is dropped.
        "unread": {"train": train.lost + records - seen, "eval": held_out.lost},
        "input": {"decoders": decoders, "lost": lost, **clock.to_dict()},
    }


def _files(verified: Verified) -> list[RecordFile]:
    return [RecordFile(Path(shard.name), shard.records, shard.bytes) for shard in verified.shards]


@contextlib.contextmanager
def _damage_named(examples: Path, shards: list[manifest.Shard], settings: Input) -> Iterator[None]:
    """Says which shard it was and where, when one is damaged while it is read."""
    try:
        yield
    except tf.errors.DataLossError:
        with verify.verified(examples, shards, settings.model_copy(update={"on_bad": "stop"})):
            raise


def _artifact_of(pattern: str) -> Path:
    # TFX hands over `<artifact>/Split-train/*`.
    return Path(pattern).parent.parent


def _require_keras_3() -> None:
    if not keras.__version__.startswith("3."):
        raise PenstockError(f"Keras {keras.__version__} is active, Keras 3 is needed; `penstock doctor` says more")
