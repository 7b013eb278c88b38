"""Settings of the input pipeline."""

from typing import Literal

import pydantic

from components.settings.section import NOT_IN_KEY, LocalPath, Names, Numbers, Section

_SMALLEST_IMAGE = 8  # pixels per side


class Augmentation(Section):
    """How images are augmented in training. 0 or none turns an augmentation off."""

    crop: Literal["none", "shift", "random", "resized"] = pydantic.Field(
        "shift",
        description="none: the whole image; shift: move it by up to 1/8 of its side; random: crop a part of the "
        "model's input size; resized: crop a part of any size and resize it",
    )
    crop_area: float = pydantic.Field(
        0.08, gt=0, le=1, description="minimum fraction of the area that a resized crop keeps (0–1)"
    )
    crop_ratio: float = pydantic.Field(
        4 / 3, ge=1, le=10, description="maximum stretch of width or height by a resized crop (1–10)"
    )
    flip: float = pydantic.Field(0, ge=0, le=1, description="probability of a horizontal flip (0–1)")
    flip_vertical: float = pydantic.Field(0, ge=0, le=1, description="probability of a vertical flip (0–1)")
    brightness: float = pydantic.Field(
        0.1, ge=0, le=1, description="maximum change of brightness, as a fraction of the value range (0–1)"
    )
    contrast: float = pydantic.Field(0.1, ge=0, lt=1, description="maximum relative change of contrast (0–1)")
    saturation: float = pydantic.Field(0, ge=0, le=1, description="maximum relative change of saturation (0–1)")
    hue: float = pydantic.Field(
        0, ge=0, le=0.5, description="maximum change of hue, as a fraction of the colour circle (0–0.5)"
    )
    erase: float = pydantic.Field(0, ge=0, le=1, description="probability of erasing a rectangle (0–1)")
    erase_area: float = pydantic.Field(0.2, gt=0, le=1, description="maximum fraction of the area that is erased (0–1)")
    mixup: float = pydantic.Field(
        0, ge=0, le=10, description="alpha of mixup, which blends two images and their labels (0–10)"
    )
    cutmix: float = pydantic.Field(
        0, ge=0, le=10, description="alpha of CutMix, which pastes a part of another image and blends the labels (0–10)"
    )

    @property
    def mixes(self) -> bool:
        """Whether labels become mixtures of two classes."""
        return self.mixup > 0 or self.cutmix > 0


class Input(Section):
    """How records are read, batched and augmented for training."""

    batch_size: int = pydantic.Field(
        0,
        ge=0,
        description="records per training batch, over all devices and workers; 0: chosen from the training records: 32 "
        "below 1,000 of them, then 64, 128 from 256,000 and 256 from 1,000,000 on, fewer if a batch would exceed 1/16 "
        "of ram_mb",
    )
    last_batch: Literal["keep", "drop"] = pydantic.Field(
        "keep", description="last partial batch of an epoch: keep it, or drop it for static shapes"
    )
    order: Literal["exact", "fastest"] = pydantic.Field(
        "exact", description="exact: the same batches in every run; fastest: batches as they become ready"
    )
    ram_mb: int = pydantic.Field(
        1024, ge=16, description="memory budget of the input pipeline in MB: shuffle buffer, cache and batches"
    )
    shuffle_mb: int = pydantic.Field(
        64, gt=0, description="shuffle buffer in MB; all records are shuffled if they fit into 1/8 of ram_mb"
    )
    interleave: int = pydantic.Field(4, gt=0, description="number of shards read at the same time")
    prefetch: int = pydantic.Field(
        4, gt=0, description="number of batches prepared ahead of training; at least 16 if batches are small"
    )
    parallel: int = pydantic.Field(
        0, ge=0, le=1024, description="number of batches processed in parallel; 0: one per CPU core"
    )
    nice: int = pydantic.Field(
        15,
        ge=0,
        le=19,
        description="niceness of the threads that decode images (0–19); 0: same priority as training",
        json_schema_extra=NOT_IN_KEY,
    )
    autotune: bool = pydantic.Field(False, description="let tf.data choose parallelism and buffer sizes, within ram_mb")
    cache: Literal["none", "memory", "file"] = pydantic.Field(
        "none", description="where decoded records are kept after the first epoch; augmentation still differs per epoch"
    )
    cache_directory: LocalPath = pydantic.Field(
        "",
        description="folder of the file cache; empty: the system's folder for temporary files",
        json_schema_extra=NOT_IN_KEY,
    )
    image_size: int = pydantic.Field(
        0,
        ge=0,
        le=1024,
        description="side of the model's input in pixels (8–1024); 0: the median of the data, limited to 32–160",
    )
    image_fit: Literal["stretch", "center"] = pydantic.Field(
        "stretch", description="stretch: resize the whole image to a square; center: use its largest centred square"
    )
    antialias: bool = pydantic.Field(True, description="use antialiasing when images are made smaller; false is faster")
    dct_shrink: bool = pydantic.Field(
        False,
        description="in training, decode JPEGs that are three times too large at reduced size: faster, less exact",
    )
    normalise: Literal["model", "unit", "symmetric", "imagenet"] = pydantic.Field(
        "model",
        description="model: pass bytes, the model's first layer scales them; unit: floats in 0–1; symmetric: floats in "
        "-1–1; imagenet: z-score with ImageNet's mean and deviation",
    )
    max_tokens: int = pydantic.Field(
        512, gt=0, le=1 << 20, description="maximum tokens per text; longer texts are truncated"
    )
    truncate: Literal["end", "start"] = pydantic.Field("end", description="which end of a long text is removed")
    pad_to: Numbers = pydantic.Field(
        (), description="lengths that batches of text are padded to; empty: the longest text of the batch"
    )
    pool_batches: int = pydantic.Field(
        100, gt=0, le=4096, description="number of batches of text that are sorted by length together (1–4096)"
    )
    augment: bool = pydantic.Field(
        True, description="augment images in training; false: train on the images that evaluation sees"
    )
    augmentation: Augmentation = Augmentation()
    maps: Names = pydantic.Field(
        (), description="functions applied to training batches after augmentation, as package.module:function"
    )
    copy_shards: Literal["auto", "always", "never"] = pydantic.Field(
        "auto",
        description="with a root on an object store: copy the shards to local disk before training (always), read them "
        "from the store in every epoch (never), or copy them if they fit (auto)",
        json_schema_extra=NOT_IN_KEY,
    )
    on_bad: Literal["stop", "skip"] = pydantic.Field(
        "stop", description="stop: a damaged shard ends the run; skip: its unreadable records are left out"
    )
    max_bad_fraction: float = pydantic.Field(
        0.01,
        ge=0,
        le=1,
        description="with on_bad = skip, fraction of unreadable records above which the run stops (0–1)",
    )

    @pydantic.field_validator("image_size")
    @classmethod
    def _is_large_enough(cls, size: int) -> int:
        if 0 < size < _SMALLEST_IMAGE:
            raise ValueError(f"expected 0, or at least {_SMALLEST_IMAGE}")
        return size

    @pydantic.field_validator("maps")
    @classmethod
    def _are_references(cls, maps: tuple[str, ...]) -> tuple[str, ...]:
        for ref in maps:
            if ":" not in ref:
                raise ValueError(f"{ref!r}: expected package.module:function")
        return maps

    @pydantic.field_validator("pad_to")
    @classmethod
    def _rise(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if any(length < 1 for length in lengths) or list(lengths) != sorted(set(lengths)):
            raise ValueError("expected increasing lengths of 1 or more, such as 64,128,256")
        return lengths

    @pydantic.model_validator(mode="after")
    def _pads_all(self) -> "Input":
        if self.pad_to and self.pad_to[-1] < self.max_tokens:
            raise ValueError(f"pad_to ends at {self.pad_to[-1]}, but max_tokens is {self.max_tokens}: add it to pad_to")
        return self
