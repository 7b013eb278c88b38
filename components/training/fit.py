"""Fits a model with Keras, keeps the weights of its best epoch, and returns the history."""

from pathlib import Path
from typing import Any

import keras

from components.input_pipeline import Reader, RecordFile, probe
from components.input_pipeline.probe import WaitMeter
from components.models.heads import Head
from components.records.verify import Verified
from components.settings.train import Train
from components.training import optimizer
from components.training.callbacks import InputTimer, ProgressCallback, RecordCount


def fit(
    model: keras.Model, head: Head, reader: Reader, train: Verified, evaluation: Verified, settings: Train, run: Path
) -> dict[str, Any]:
    """Fits the model, restores the weights of its best epoch by validation loss, and returns the history."""
    files, eval_files = _files(train), _files(evaluation)
    steps, meter = reader.steps(files), WaitMeter()
    records = sum(file.records for file in files)
    seen = min(records, steps * reader.settings.batch_size)
    model.compile(
        optimizer=optimizer.make(settings, steps),
        loss=head.loss(),
        metrics=[*head.metrics(), RecordCount()],
    )
    checkpoint = run / "best.weights.h5"
    timer = InputTimer(meter, seen, lambda waiting, rate: probe.explain(reader, files, waiting, rate))
    history = model.fit(
        meter.watch(reader.training(files)),
        steps_per_epoch=steps,
        epochs=settings.epochs,
        validation_data=reader.evaluation(eval_files),
        validation_steps=reader.evaluation_steps(eval_files),
        callbacks=[
            ProgressCallback(settings.epochs, reader.settings.batch_size, seen, timer),
            timer,
            keras.callbacks.ModelCheckpoint(str(checkpoint), "val_loss", save_best_only=True, save_weights_only=True),
            keras.callbacks.TensorBoard(str(run / "tensorboard"), write_graph=False),
        ],
        verbose=0,
    ).history
    model.load_weights(str(checkpoint))
    return {
        "best_epoch": min(range(settings.epochs), key=history["val_loss"].__getitem__),
        "epochs": {name: [float(value) for value in values] for name, values in history.items()},
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


def _files(verified: Verified) -> list[RecordFile]:
    return [RecordFile(Path(shard.name), shard.records, shard.bytes) for shard in verified.shards]
