"""Trains a model with the loop, gives it the weights of its best epoch, and returns the history."""

from functools import partial
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from components import progress, refs
from components.input_pipeline import Reader, RecordFile, probe
from components.input_pipeline.probe import WaitMeter
from components.models.heads import Head
from components.records.verify import Verified
from components.settings.train import Train
from components.training import loop, memory, optimizer
from components.training.callbacks import InputTimer, ProgressCallback, TensorBoardLog
from components.training.checkpoint import Checkpoints
from components.training.stopping import Best


def fit(
    model: keras.Model,
    head: Head,
    reader: Reader,
    train: Verified,
    evaluation: Verified,
    settings: Train,
    checkpoints: Checkpoints,
    run: Path,
) -> dict[str, Any]:
    """Trains the model, gives it the weights of its best epoch, and returns the history."""
    files, eval_files = _files(train), _files(evaluation)
    steps, evaluation_steps, meter = reader.steps(files), reader.evaluation_steps(eval_files), WaitMeter()
    records = sum(file.records for file in files)
    size = reader.settings.batch_size
    seen = min(records, steps * size)
    compile_model(model, head, settings, steps)
    timer = InputTimer(meter, seen, lambda waiting, rate: probe.explain(reader, files, waiting, rate))
    best = Best(settings.best_by, settings.patience)
    memory.reset()
    if checkpoints.found:
        progress.say(f"Trainer: {checkpoints.found.note}")
    state = loop.train(
        loop.Job(
            model=model,
            batches=lambda start: _prefetched(meter.watch(reader.training(files, start)), settings),
            steps=steps,
            epochs=settings.epochs,
            evaluation=reader.evaluation(eval_files),
            evaluation_steps=evaluation_steps,
            step=partial(refs.load(settings.step), model) if settings.step else None,
            steps_per_call=settings.steps_per_call,
        ),
        best,
        [
            timer,
            ProgressCallback(settings.epochs, steps, evaluation_steps, size, timer),
            TensorBoardLog(run / "tensorboard", timer),
        ],
        checkpoints,
    )
    best.assign(model)
    return {
        "best_epoch": best.epoch,
        "epochs": state.history,
        "learning_rate": state.learning_rate,
        "resumed": state.resumed,
        "steps_per_call": {"last": state.steps_per_call, "chosen": not settings.steps_per_call},
        "memory": memory.peaks(),
        "precision": model.dtype_policy.name,
        "batch": {"size": size, "accumulate": settings.accumulate, "effective": size * settings.accumulate},
        # Records that no epoch reads: those of damaged shards, and of a last batch that is dropped.
        "unread": {"train": train.lost + records - seen, "eval": evaluation.lost},
        "input": {
            "decoders": {key: getattr(each, "decoder", "tensorflow") for key, each in reader.features.items()},
            "lost": {
                "train": [damage.to_dict() for damage in train.damages],
                "eval": [damage.to_dict() for damage in evaluation.damages],
            },
            **timer.to_dict(),
        },
    }


def compile_model(model: keras.Model, head: Head, settings: Train, steps: int) -> None:
    """Compiles a model as the settings say; `steps` are those of an epoch."""
    model.compile(
        optimizer=optimizer.make(settings, steps, scaled=model.dtype_policy.name == "mixed_float16"),
        loss=head.loss(),
        metrics=head.metrics(),
        jit_compile=settings.xla,
        auto_scale_loss=False,  # our optimizer does it
    )


def _prefetched(data: tf.data.Dataset, settings: Train) -> tf.data.Dataset:
    gpus = tf.config.list_logical_devices("GPU")
    if len(gpus) != 1 or not settings.prefetch_to_device:  # strategies copy batches to their devices themselves
        return data
    return data.apply(tf.data.experimental.prefetch_to_device(gpus[0].name, settings.prefetch_to_device))


def _files(verified: Verified) -> list[RecordFile]:
    return [RecordFile(Path(shard.name), shard.records, shard.bytes) for shard in verified.shards]
