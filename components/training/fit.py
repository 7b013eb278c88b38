"""Trains a model with the loop, gives it the weights of its best epoch, and returns the history."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from components import progress
from components.input_pipeline import Reader, RecordFile, probe
from components.input_pipeline.probe import WaitMeter
from components.models.heads import Head
from components.records.verify import Verified
from components.settings.train import Train
from components.storage.location import location
from components.training import loop, optimizer, process
from components.training.callbacks import InputTimer, ProgressCallback, TensorBoardLog
from components.training.checkpoint import Checkpoints
from components.training.hardware import memory, precision
from components.training.hardware.devices import Devices, choose
from components.training.own_step import OwnStep
from components.training.stopping import Best


def fit(
    model: keras.Model,
    head: Head,
    reader: Reader,
    train: Verified,
    evaluation: Verified,
    settings: Train,
    checkpoints: Checkpoints,
    args: Any,
    devices: Devices | None = None,
) -> dict[str, Any]:
    """Trains the model, gives it the weights of its best epoch, and returns the history.

    Args:
        model: not compiled; with its initial weights.
        head: loss and metrics.
        reader: reads both splits.
        train: shards of the train split.
        evaluation: shards of the eval split.
        settings: how to train.
        checkpoints: of this training.
        args: of the Trainer's run_fn.
        devices: where to train; default: what `train.devices` and TF_CONFIG name.
    """
    if devices is None and process.is_needed(settings):
        history, weights = process.train(args)
        for variable, value in zip(model.variables, weights, strict=True):
            variable.assign(value)
        return history
    devices = devices or choose(settings.devices)
    with devices.scope():
        return _fit(model, head, reader, train, evaluation, settings, checkpoints, devices, args)


def _fit(
    model: keras.Model,
    head: Head,
    reader: Reader,
    train: Verified,
    evaluation: Verified,
    settings: Train,
    checkpoints: Checkpoints,
    devices: Devices,
    args: Any,
) -> dict[str, Any]:
    files, eval_files, shares = _files(train), _files(evaluation), devices.shares
    is_chosen = not args.custom_config["input"]["batch_size"]
    batch = shares.batch(reader.settings.batch_size, scaled=settings.scale_learning_rate, chosen=is_chosen)
    reader = replace(reader, settings=reader.settings.model_copy(update={"batch_size": batch.worker}))
    steps, evaluation_steps = shares.steps(reader, files), shares.evaluation_steps(reader, eval_files)
    records, seen, meter = sum(file.records for file in files), shares.records(reader, files), WaitMeter()
    settings = settings.model_copy(update={"learning_rate": settings.learning_rate * batch.scale})
    trained = devices.replicate(model)
    compile_model(trained, head, settings, steps, devices)
    timer = InputTimer(meter, seen, lambda waiting, rate: probe.explain(reader, files, waiting, rate))
    best = Best(settings.best_by, settings.patience)
    memory.reset(devices.names)
    if devices.strategy and devices.is_chief:
        progress.say(f"Trainer: {devices.note(batch)}")
    if checkpoints.found and devices.is_chief:
        progress.say(f"Trainer: {checkpoints.found.note}")
    state = loop.train(
        loop.TrainingJob(
            model=trained,
            batches=lambda start: _prefetched(shares.training(reader, files, start), settings, devices),
            steps=steps,
            epochs=settings.epochs,
            evaluation=shares.evaluation(reader, eval_files),
            evaluation_steps=evaluation_steps,
            step=OwnStep(settings.step, trained) if settings.step else None,
            steps_per_call=settings.steps_per_call,
            devices=devices,
            batch_size=batch.size,
            meter=meter,
        ),
        best,
        [
            timer,
            ProgressCallback(settings.epochs, steps, evaluation_steps, batch.size, timer),
            TensorBoardLog(Path(args.model_run_dir) / "tensorboard", timer),
        ]
        if devices.is_chief
        else [],
        checkpoints,
    )
    best.assign(model)
    return {
        "best_epoch": best.epoch,
        "epochs": state.history,
        "learning_rate": state.learning_rate,
        "resumed": state.resumed,
        "steps_per_call": {"last": state.steps_per_call, "chosen": not settings.steps_per_call},
        "memory": memory.peaks(devices.names),
        "precision": model.dtype_policy.name,
        "batch": {**batch.to_dict(), "accumulate": settings.accumulate, "effective": batch.size * settings.accumulate},
        "devices": devices.to_dict(),
        # Records that no epoch reads: those of damaged shards, and of a last batch that is dropped.
        "unread": {"train": train.lost + records - seen, "eval": evaluation.lost},
        "input": {
            "decoders": {key: getattr(each, "decoder", "tensorflow") for key, each in reader.features.items()},
            "lost": {
                "train": [damage.to_dict() for damage in train.damages],
                "eval": [damage.to_dict() for damage in evaluation.damages],
            },
            **(timer.to_dict() if devices.is_chief else {}),
        },
    }


def compile_model(model: keras.Model, head: Head, settings: Train, steps: int, devices: Devices) -> None:
    """Compiles a model as the settings say, without XLA on several devices; `steps` are those of an epoch."""
    model.compile(
        optimizer=optimizer.make(settings, steps, scaled=precision.is_float16(model)),
        loss=head.loss(),
        metrics=head.metrics(),
        jit_compile=settings.xla and not devices.strategy,  # it cannot compile sums over devices
        auto_scale_loss=False,  # our optimizer does it
    )


def _prefetched(data: tf.data.Dataset, settings: Train, devices: Devices) -> tf.data.Dataset:
    (device, *others), count = devices.names, settings.prefetch_to_device
    if others or devices.strategy or not device.startswith("GPU") or not count:
        return data
    return data.apply(tf.data.experimental.prefetch_to_device(f"/{device}", count))


def _files(verified: Verified) -> list[RecordFile]:
    return [RecordFile(location(shard.name), shard.records, shard.bytes) for shard in verified.shards]
