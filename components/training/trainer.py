"""The Trainer's run_fn: verifies the shards, reads them through the input pipeline, fits the model and exports it.

examples + transform graph ─► Reader ─► loop, checkpoints ─► best epoch ─► SavedModel
                                          └─► model_run: TensorBoard logs, history.json
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import orjson
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.components.trainer.fn_args_utils import FnArgs

from components import cuda, refs
from components import features as modalities
from components.errors import PenstockError, SettingsError
from components.fitting.fitted import Fitted
from components.input_pipeline import Reader, artifacts
from components.input_pipeline.budget import DataSize
from components.models import heads, joined
from components.models.heads import Classification, Regression, class_weights
from components.models.names import AxisNames
from components.pretrained.artifacts import model_path
from components.pretrained.load import keras_model, load
from components.records import manifest, verify
from components.records.roles import embedding_column
from components.serving import export, proof, reading
from components.settings.input import Input
from components.settings.train import Train
from components.settings.transform import Transform
from components.storage import durable, tensorflow_s3
from components.storage.location import Location, location
from components.tasks import assign
from components.training.base import exported_weights, warm_start
from components.training.checkpoint import Checkpoints, set_threads
from components.training.fit import fit
from components.training.hardware import precision
from components.training.hardware.devices import Devices

HISTORY = "history.json"
PROOF = "proof.json"
# Records over all epochs up to which the proof's process starts before training: it saves up to 2 s, and holds 0.4 GB.
_SHORT = 500_000


def run_fn(args: FnArgs) -> None:
    """Entry point of the Trainer component."""
    train(args)


def train(args: FnArgs, devices: Devices | None = None) -> tuple[dict[str, Any], keras.Model]:
    """Trains and exports; returns the history and the model. With given devices, which others share, only trains."""
    _require_keras_3()
    cuda.prepare()  # for runners other than ours
    config = args.custom_config
    examples = _examples_folder(args.train_files[0])
    if not isinstance(examples, Path):
        tensorflow_s3.enable()  # in this process: workers have one of their own
    ingested = manifest.read(examples)
    settings, training = Input.model_validate(config["input"]), Train.model_validate(config["train"])
    checkpoints = _checkpoints(config, training, writes=devices is None or devices.is_chief)
    extract = config["extract"]  # empty without a pretrained model
    pretrained = model_path(Path(config["pretrained_model"])) if extract else ""
    fitted = Fitted(
        args.transform_graph_path, Transform.model_validate(config["transform"]), _image_encoder(pretrained, extract)
    )
    label, is_class = config["label"], config["kind"] == "class"
    classes = fitted.classes() if is_class else []
    parts = assign.read(config["parts"])
    reader = Reader(
        features=assign.features(parts, fitted, settings, ingested),
        label=label,
        label_number=lambda labels: fitted.apply({label: labels})[label],
        settings=settings,
        seed=training.seed,
        classes=len(classes),
        label_type="string" if is_class else "float32",
        record_id=artifacts.record_id(examples),
    ).sized(_size(ingested.shards_of("train")))
    head = (
        _classification(fitted, training, is_soft=reader.is_soft) if is_class else _regression(fitted, training, label)
    )
    keras.utils.set_random_seed(training.seed)
    shards = [ingested.shards_of(split) for split in ("train", "eval")]
    with contextlib.ExitStack() as stack:
        stack.callback(checkpoints.close)
        train, evaluation = (stack.enter_context(verify.verified(examples, each, settings)) for each in shards)
        stack.enter_context(_damage_located(examples, [shard for each in shards for shard in each]))
        inputs = modalities.keras_inputs(reader.features)

        def build() -> keras.Model:
            return refs.load(config["model"])(inputs, assign.encodings(parts, inputs, fitted), head)

        with precision.scope(precision.policy(training)):
            model = build()
        names = {**assign.names(parts, fitted), **joined.names(model), **heads.names(classes)}
        warm = _warm_start(model, names, args, ingested.splits) if training.warm_start != "none" else None
        is_short = devices is None and training.epochs * ingested.records["train"] <= _SHORT
        alone = stack.enter_context(proof.fresh_process()) if is_short else None
        history = fit(model, head, reader, train, evaluation, training, checkpoints, args, devices)
        if devices is not None:
            return history, model
        model = precision.in_float32(model, build)
        history["batch"]["chosen"] = not settings.batch_size
        durable.write_bytes(Path(args.model_run_dir) / HISTORY, orjson.dumps({**history, "warm_start": warm}))
        alone = alone or stack.enter_context(proof.fresh_process())
        embedding = _image_embedding(pretrained, extract)
        # Only where it is needed: a model that reads files is not accepted as a pretrained model.
        graph = fitted.graph if any(each.part.fit for each in parts) else None
        export.export(model, reader.features, classes, args.serving_model_dir, graph, embedding)
        digest = extract.get("digest", "")
        exported_weights.write_names(Path(args.serving_model_dir), names, digest, ingested.splits)
        columns = [column for each in parts for column in each.columns]
        reading.of_training(
            export.client_arguments(reader.features, embedding), columns, ingested, _inferred_schema(examples),
            config["kind"], classes, config.get("ingest", {}),
        ).write(Path(args.serving_model_dir))  # fmt: skip
        raw = export.raw_columns(reader.features, embedding)
        quantity = head if isinstance(head, Regression) else None
        proven = proof.prove(model, reader, evaluation, classes, quantity, args.serving_model_dir, raw, alone)
    durable.write_bytes(Path(args.model_run_dir) / PROOF, orjson.dumps(proven))
    return history, model


def _checkpoints(config: Mapping[str, Any], settings: Train, *, writes: bool) -> Checkpoints:
    """Returns the checkpoints of this training, and prepares to continue from the one that there is."""
    folder = config.get("checkpoints")  # plain TFX runners do not set it
    checkpoints = Checkpoints(Path(folder) if folder else None, settings.checkpoint_seconds, writes=writes)
    if checkpoints.found:
        set_threads(checkpoints.found.header["threads"])
    return checkpoints


def _warm_start(
    model: keras.Model, names: Mapping[str, AxisNames], args: FnArgs, splits: Mapping[str, Any]
) -> dict[str, Any]:
    """Assigns the weights of the base model, if there is one, and returns what was done."""
    if not args.base_model:
        return {"base": ""}
    given, digest = args.custom_config["train"]["warm_start"], args.custom_config["extract"].get("digest", "")
    done = warm_start.start(model, names, Path(args.base_model), digest, splits)
    return {"base": str(Path(args.base_model).parent) if given == "live" else given, **done}


def _image_encoder(pretrained: str, extract: Mapping[str, Any]) -> tuple[Any, bool] | None:
    """Returns the pretrained model and whether it is fine-tuned, if it is part of the trained model."""
    if extract.get("where") not in ("frozen", "finetune"):
        return None
    return keras_model(pretrained, trusted=extract["trusted"]), extract["where"] == "finetune"


def _image_embedding(pretrained: str, extract: Mapping[str, Any]) -> export.ImageEmbedding | None:
    """Returns how the served model embeds images, if it was trained on embeddings."""
    if extract.get("where") != "beam":
        return None
    model = load(pretrained, trusted=extract["trusted"])
    return export.ImageEmbedding(extract["image"], embedding_column(extract["image"]), model, extract["digest"])


def _classification(fitted: Fitted, settings: Train, *, is_soft: bool) -> Classification:
    counts = fitted.class_counts()
    if is_soft and settings.class_weights:
        raise SettingsError(
            f"train.class_weights is {settings.class_weights}, and mixup or cutmix mixes classes; "
            "expected one of them: set train.class_weights to 0, or input.augmentation.mixup and .cutmix"
        )
    weights = class_weights(counts, settings.class_weights) if settings.class_weights else ()
    return Classification(len(counts), weights, is_soft, settings.label_smoothing)


def _regression(fitted: Fitted, settings: Train, label: str) -> Regression:
    for name in ("class_weights", "label_smoothing"):
        if value := getattr(settings, name):
            raise SettingsError(
                f"train.{name} is {value}, and the label {label!r} is a number; expected a label with classes: "
                f"set train.{name} to 0"
            )
    mean, deviation = fitted.quantity(label)
    if not deviation > 0:
        raise PenstockError(
            f"label {label!r}: all values of the training split are {mean:g}; expected values that differ"
        )
    return Regression(mean, deviation)


@contextlib.contextmanager
def _damage_located(examples: Location, shards: list[manifest.Shard]) -> Iterator[None]:
    """Names the shard and the offset if a shard turns out to be damaged during training."""
    try:
        yield
    except tf.errors.DataLossError:
        verify.check(examples, shards)
        raise


def _size(shards: list[manifest.Shard]) -> DataSize:
    return DataSize(sum(shard.records for shard in shards), sum(shard.bytes for shard in shards))


def _inferred_schema(examples: Location) -> schema_pb2.Schema:
    """Returns the schema that Ingest inferred from a table; an empty one for class folders."""
    file = examples / "schema.pbtxt"
    return text_format.Parse(file.read_bytes() if file.is_file() else b"", schema_pb2.Schema())


def _examples_folder(pattern: str) -> Location:
    return location(pattern).parent.parent  # TFX passes `<artifact>/Split-train/*`


def _require_keras_3() -> None:
    if not keras.__version__.startswith("3."):
        raise PenstockError(f"Keras {keras.__version__} is active, expected Keras 3; run `penstock doctor`")
