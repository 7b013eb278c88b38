"""Settings of the input pipeline."""

from typing import Any, Literal

import pydantic

from components.settings.names import not_a_path
from components.settings.section import Section

_SMALLEST_IMAGE = 8  # pixels per side


class Augmentation(Section):
    """How images are varied in training. Nought, or none, leaves a variation out."""

    crop: Literal["none", "shift", "random", "resized"] = pydantic.Field(
        "shift",
        description="none: the whole image; shift: by up to an eighth; random: a part of the model's size; "
        "resized: a part of any size",
    )
    crop_area: float = pydantic.Field(0.08, gt=0, le=1, description="least part of the area that `resized` keeps")
    crop_ratio: float = pydantic.Field(4 / 3, ge=1, le=10, description="most that `resized` stretches width or height")
    flip: float = pydantic.Field(0, ge=0, le=1, description="probability of a mirror, left to right")
    flip_vertical: float = pydantic.Field(0, ge=0, le=1, description="probability of a mirror, top to bottom")
    brightness: float = pydantic.Field(0.1, ge=0, le=1, description="most that is added or taken, of the range")
    contrast: float = pydantic.Field(0.1, ge=0, lt=1, description="most that contrast gains or loses")
    saturation: float = pydantic.Field(0, ge=0, le=1, description="most that saturation gains or loses")
    hue: float = pydantic.Field(0, ge=0, le=0.5, description="most that colours turn, of the colour circle")
    erase: float = pydantic.Field(0, ge=0, le=1, description="probability that a rectangle is painted over")
    erase_area: float = pydantic.Field(0.2, gt=0, le=1, description="largest part of the area that is painted over")
    mixup: float = pydantic.Field(0, ge=0, le=10, description="alpha; two images and their labels are blended")
    cutmix: float = pydantic.Field(0, ge=0, le=10, description="alpha; a part is cut from another, labels are blended")

    @property
    def mixes(self) -> bool:
        """Whether labels become blends of two."""
        return self.mixup > 0 or self.cutmix > 0


class Input(Section):
    """How records reach the device. The batch size is set here and nowhere else."""

    batch_size: int = pydantic.Field(64, gt=0)
    last_batch: Literal["keep", "drop"] = pydantic.Field(
        "keep", description="what is left over of an epoch; drop: shapes are static, some records are not seen"
    )
    order: Literal["exact", "fastest"] = pydantic.Field(
        "exact", description="exact: the same batches in every run; fastest: what is ready first comes first"
    )
    ram_mb: int = pydantic.Field(1024, ge=16, description="all that the pipeline holds: shuffle, cache, batches")
    shuffle_mb: int = pydantic.Field(
        64, gt=0, description="records held for shuffling; all, if small and an eighth of ram_mb will do"
    )
    interleave: int = pydantic.Field(4, gt=0, description="shards read at once")
    prefetch: int = pydantic.Field(
        4, gt=0, description="batches ready before they are asked for; small ones 16 at least"
    )
    parallel: int = pydantic.Field(0, ge=0, le=1024, description="batches in the making at once; 0: one a core")
    nice: int = pydantic.Field(
        15, ge=0, le=19, description="how far decoding of images gives way to the training loop; 0: not at all"
    )
    autotune: bool = pydantic.Field(False, description="tf.data chooses parallelism and buffers, within ram_mb")
    cache: Literal["none", "memory", "file"] = pydantic.Field(
        "none", description="keeps decoded records after the first epoch; varied anew in each"
    )
    cache_directory: str = pydantic.Field("", description="of `file`; empty: the system's for temporary files")
    image_size: int = pydantic.Field(0, ge=0, le=1024, description="side in pixels; 0: the data's median, 32 to 160")
    image_fit: Literal["stretch", "center"] = pydantic.Field(
        "stretch", description="stretch: the whole image; center: its largest square"
    )
    antialias: bool = pydantic.Field(True, description="smooth images that shrink; false is faster")
    dct_shrink: bool = pydantic.Field(
        False, description="in training, decode JPEGs of three times the size at a fraction: faster, less exact"
    )
    normalise: Literal["model", "unit", "symmetric", "imagenet"] = pydantic.Field(
        "model",
        description="model: bytes, its first layer scales; else floats, by range or by ImageNet's moments",
    )
    max_tokens: int = pydantic.Field(512, gt=0, le=1 << 20, description="longer texts are cut")
    truncate: Literal["end", "start"] = pydantic.Field("end", description="which end of a long text is cut off")
    pad_to: tuple[int, ...] = pydantic.Field((), description="lengths that texts are padded to; empty: the longest's")
    pool_batches: int = pydantic.Field(100, gt=0, le=4096, description="batches parsed and sorted by length together")
    augment: bool = pydantic.Field(True, description="false: training sees records as evaluation does")
    augmentation: Augmentation = Augmentation()
    maps: tuple[str, ...] = pydantic.Field(
        (), description="functions for batches in training, after augmentation, as package.module:function"
    )
    on_bad: Literal["stop", "skip"] = pydantic.Field("stop", description="what a damaged shard does")
    max_bad_fraction: float = pydantic.Field(0.01, ge=0, le=1, description="of records; `skip` stops above it")

    @pydantic.field_validator("image_size")
    @classmethod
    def _is_a_image(cls, size: int) -> int:
        if 0 < size < _SMALLEST_IMAGE:
            raise ValueError(f"expected 0 or at least {_SMALLEST_IMAGE}")
        return size

    @pydantic.field_validator("maps", "pad_to", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any) -> Any:
        # A flag has no lists: --set input.pad_to=64,128
        return tuple(filter(None, value.split(","))) if isinstance(value, str) else value

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
            raise ValueError("expected rising lengths, 1 or more, such as 64,128,256")
        return lengths

    @pydantic.field_validator("cache_directory")
    @classmethod
    def _is_a_path(cls, directory: str) -> str:
        if reason := not_a_path(directory):
            raise ValueError(reason)
        return directory

    @pydantic.model_validator(mode="after")
    def _pads_all(self) -> "Input":
        if self.pad_to and self.pad_to[-1] < self.max_tokens:
            raise ValueError(f"pad_to ends at {self.pad_to[-1]}, max_tokens is {self.max_tokens}: add it to pad_to")
        return self
