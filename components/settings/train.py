"""Settings of the Trainer."""

from typing import Literal

import pydantic

from components.settings.section import NOT_IN_KEY, LocalPath, Section


class Train(Section):
    """How the model is trained."""

    epochs: int = pydantic.Field(12, gt=0, description="number of epochs")
    learning_rate: float = pydantic.Field(
        3e-3, gt=0, allow_inf_nan=False, description="highest learning rate of the optimizer (Adam)"
    )
    schedule: Literal["cosine", "constant"] = pydantic.Field(
        "cosine", description="learning rate after warm-up: cosine: falls to 0 by the last step; constant: stays"
    )
    warmup: float = pydantic.Field(
        0,
        ge=0,
        lt=1,
        description="fraction of all steps in which the learning rate rises linearly to its highest (0 to below 1)",
    )
    weight_decay: float = pydantic.Field(
        0,
        ge=0,
        allow_inf_nan=False,
        description="decoupled weight decay, as in AdamW, of kernels; biases, normalization and embeddings are not "
        "decayed; 0: off, common values are 0.01–0.1",
    )
    clip_norm: float = pydantic.Field(
        0, ge=0, allow_inf_nan=False, description="maximum global norm of the gradients; 0: off, a common value is 1"
    )
    accumulate: int = pydantic.Field(
        1,
        ge=1,
        description="training steps per update of the weights; the effective batch is this many times "
        "input.batch_size; an epoch's last update may have fewer",
    )
    label_smoothing: float = pydantic.Field(
        0, ge=0, lt=1, description="fraction of a label's weight that is spread over all classes (0 to below 1); 0: off"
    )
    precision: Literal["float32", "mixed"] = pydantic.Field(
        "float32",
        description="mixed: layers compute in 16 bits on GPUs: bfloat16 from compute capability 8.0 on, float16 with "
        "loss scaling on 7.x; other devices compute in float32, where they are faster; weights and the exported model "
        "are float32 in any case",
    )
    xla: bool = pydantic.Field(
        False,
        description="compile training and evaluation steps with XLA, on one device only; on CPUs tables train faster "
        "with it, images and texts slower; texts also need input.pad_to",
    )
    prefetch_to_device: int = pydantic.Field(
        0,
        ge=0,
        le=64,
        description="number of batches copied to the GPU ahead of the step that uses them, with one GPU; 0: none",
        json_schema_extra=NOT_IN_KEY,
    )
    devices: str = pydantic.Field(
        "auto",
        pattern=r"^(auto|all|one|cpu|cpu:[1-9][0-9]?)$",
        description="auto or all: every GPU of this machine, each with a part of every batch, or the CPU if there is "
        "none; one: the first GPU, or the CPU; cpu: the CPU; cpu:2: the CPU as 2 devices, to try out several",
    )
    workers: int = pydantic.Field(
        0,
        ge=0,
        description="number of workers that TF_CONFIG must list, or the run stops; 0: as many as it lists",
        json_schema_extra=NOT_IN_KEY,
    )
    scale_learning_rate: bool = pydantic.Field(
        False,
        description="multiply both input.batch_size and learning_rate by the number of devices of all workers; false: "
        "input.batch_size is divided among them; the result on several GPUs is then that of one, apart from "
        "dropout and rounding",
    )
    seed: int = pydantic.Field(17, description="seed of weights, shuffling, dropout and augmentation")
    class_weights: float = pydantic.Field(
        0,
        ge=0,
        le=1,
        description="0: every record has the same weight; 1: every class has; values between interpolate; above 0 "
        "accuracy may be lower, so evaluate.min_accuracy may need a lower value",
    )
    best_by: str = pydantic.Field(
        "val_loss",
        description="value of the history that decides which epoch is exported; for classes: loss, accuracy, val_loss "
        "or val_accuracy; for a numeric label: loss, mae, rmse, val_loss, val_mae or val_rmse; the highest accuracy or "
        "the lowest other value is the best; val_ means the eval split",
    )
    patience: int = pydantic.Field(
        0, ge=0, description="number of epochs without a better train.best_by after which training stops; 0: never"
    )
    step: str = pydantic.Field(
        "",
        description="own training step `package.module:function`, called with the model and a batch; returns a dict of "
        "logs; default: Keras's train_step",
    )
    steps_per_call: int = pydantic.Field(
        0,
        ge=0,
        description="number of training steps per call from Python; 0: as many as fit into 0.2 s, at most 32",
        json_schema_extra=NOT_IN_KEY,
    )
    checkpoint_seconds: float = pydantic.Field(
        60,
        ge=0,
        description="time between checkpoints within an epoch (seconds); every epoch ends with one too",
        json_schema_extra=NOT_IN_KEY,
    )
    keep_checkpoints: bool = pydantic.Field(
        False, description="keep the last checkpoint after a successful training", json_schema_extra=NOT_IN_KEY
    )
    warm_start: LocalPath = pydantic.Field(
        "none",
        min_length=1,
        description="model whose weights training starts from. none: random weights; live: the latest live model "
        "of this pipeline that was not trained on this very data; else the folder of a model that Penstock pushed or "
        "exported, such as serving/1",
    )

    cold_every: int = pydantic.Field(
        0,
        ge=0,
        description="`penstock retrain` starts from random weights after so many trainings that descend from one "
        "another; 0: never, apart from the first",
        json_schema_extra=NOT_IN_KEY,
    )

    cold_check: int = pydantic.Field(
        0,
        ge=0,
        description="`penstock retrain` also trains from random weights once in so many trainings, and goes on with "
        "that model if the one with a warm start is worse on the newest span; 0: never; costs one more training each "
        "time",
        json_schema_extra=NOT_IN_KEY,
    )

    @pydantic.field_validator("step")
    @classmethod
    def _is_reference(cls, step: str) -> str:
        if step and not all(step.partition(":")):
            raise ValueError("expected package.module:function")
        return step
