"""One tree of settings: typed, frozen, checked at birth.

    defaults in code  ◄  a TOML file  ◄  flags (`--set train.epochs=3`)

A node's cache key holds the sections that the node reads (`pipelines/graph.py`), so a field belongs to the section
of the node whose result it changes. Sizes are megabytes, never records: a budget must hold whatever the record size.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import pydantic

from components.errors import SettingsError

SPLITS = ("train", "eval", "test")
_SMALLEST_PICTURE = 8  # pixels a side
NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class _Section(pydantic.BaseModel):
    """A frozen group of settings that refuses unknown keys."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class Splits(_Section):
    """Fractions of the data, by content hash: the same bytes are always on the same side."""

    train: float = pydantic.Field(0.8, gt=0, lt=1)
    eval: float = pydantic.Field(0.1, gt=0, lt=1)
    test: float = pydantic.Field(0.1, gt=0, lt=1)
    salt: str = pydantic.Field("", description="another value gives another random split")

    @pydantic.model_validator(mode="after")
    def _sums_to_one(self) -> "Splits":
        total = self.train + self.eval + self.test
        if abs(total - 1) > 1e-6:  # noqa: PLR2004 - float noise of three decimal fractions
            raise ValueError(f"train + eval + test must be 1, they are {total:g}")
        return self

    def fractions(self) -> tuple[tuple[str, float], ...]:
        """Returns (split, fraction) in their fixed order."""
        return tuple(zip(SPLITS, (self.train, self.eval, self.test), strict=True))


ColumnType = Literal["int", "float", "bool", "text", "bytes"]


class Ingest(_Section):
    """How raw files become records."""

    splits: Splits = Splits()
    max_bad_fraction: float = pydantic.Field(0.01, ge=0, le=1, description="above it the run stops")
    max_pixels: int = pydantic.Field(50_000_000, gt=0, le=170_000_000, description="larger images are refused unread")
    max_file_mb: int = pydantic.Field(64, gt=0)
    shard_mb: int = pydantic.Field(128, gt=0, description="size that shards aim for")
    min_shards: int = pydantic.Field(8, gt=0, description="so that interleave has something to interleave")
    compression: Literal["none", "gzip"] = pydantic.Field("none", description="of rows; pictures are packed already")
    spans: str = pydantic.Field("all", description="of a {SPAN} pattern: all, latest, last N, or A to B as in 3-7")
    label: str = pydantic.Field("", description="column of the label; empty: one that is called so")
    columns: dict[str, ColumnType] = pydantic.Field(
        {}, description="types of columns, where the inferred ones are wrong"
    )
    unused: tuple[str, ...] = pydantic.Field((), description="columns that no model is to see, such as ids")
    text: str = pydantic.Field("", description="column of the text; empty: one that is called so, or the only one")
    split_by: str = pydantic.Field("", description="column that decides about the split; empty: all but the label")
    images: str = pydantic.Field("", description="column with paths of images; empty: found by what stands in it")
    image_check: Literal["full", "header"] = pydantic.Field("full", description="how far pictures are read at ingest")
    store: Literal["original", "jpeg", "raw"] = pydantic.Field("original", description="as what pictures are stored")
    store_side: int = pydantic.Field(256, ge=8, le=4096, description="shorter side of pictures stored anew, at most")
    store_quality: int = pydantic.Field(90, ge=1, le=100, description="of pictures stored anew as JPEG")
    near_bits: int = pydantic.Field(3, ge=-1, le=8, description="bits of 64 by which near duplicates differ; -1: off")

    @pydantic.field_validator("unused", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any) -> Any:
        return _names(value)


class Gate(_Section):
    """What stops a run before training."""

    min_per_class: int = pydantic.Field(1, ge=0, description="records of every class in every split")


class Extract(_Section):
    """A pretrained network that looks at the pictures."""

    model: str = pydantic.Field(
        "", description="SavedModel or KerasHub preset folder, .keras file, or name of a Keras application or preset"
    )
    sha256: str = pydantic.Field("", description="of that model; another one is refused")
    where: Literal["beam", "frozen", "finetune"] = pydantic.Field(
        "beam", description="beam: once for every record, before training; frozen, finetune: part of the trained model"
    )
    batch_size: int = pydantic.Field(64, gt=0, description="pictures that it sees at once on Beam")

    @pydantic.field_validator("model")
    @classmethod
    def _is_a_path(cls, model: str) -> str:
        if reason := not_a_path(model):
            raise ValueError(reason)
        return model


class Transform(_Section):
    """What is fitted on the training split, and goes into the served model."""

    split: Literal["words", "characters"] = pydantic.Field("words", description="what a token of a text is")
    lower: bool = pydantic.Field(True, description="upper case is lower case")
    ngrams: int = pydantic.Field(1, ge=1, le=5, description="up to so many neighbours make a token together, too")
    vocabulary: int = pydantic.Field(20_000, gt=0, description="most frequent tokens that are told apart")
    min_count: int = pydantic.Field(2, gt=0, description="tokens that are rarer are unknown")
    unknown_buckets: int = pydantic.Field(1, gt=0, le=1 << 20, description="kinds of unknown tokens, by their hash")
    categories: int = pydantic.Field(1000, gt=0, description="most frequent values of a column that are told apart")
    numbers: Literal["zscore", "buckets"] = pydantic.Field(
        "zscore", description="zscore: deviations from the mean; buckets: which of equally full ones"
    )
    buckets: int = pydantic.Field(16, ge=2, le=1000, description="of each column of numbers, if they are wanted")
    moments: Literal["none", "all", "channel", "element"] = pydantic.Field(
        "none", description="of tensors: mean and variance are fitted over all values, by channel or by element"
    )


class Augmentation(_Section):
    """How pictures are varied in training. Nought, or none, leaves a variation out."""

    crop: Literal["none", "shift", "random", "resized"] = pydantic.Field(
        "shift",
        description="none: the whole picture; shift: by up to an eighth; random: a part of the model's size; "
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
    mixup: float = pydantic.Field(0, ge=0, le=10, description="alpha; two pictures and their labels are blended")
    cutmix: float = pydantic.Field(0, ge=0, le=10, description="alpha; a part is cut from another, labels are blended")

    @property
    def mixes(self) -> bool:
        """Whether labels become blends of two."""
        return self.mixup > 0 or self.cutmix > 0


class Input(_Section):
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
        15, ge=0, le=19, description="how far decoding of pictures gives way to the training loop; 0: not at all"
    )
    autotune: bool = pydantic.Field(False, description="tf.data chooses parallelism and buffers, within ram_mb")
    cache: Literal["none", "memory", "file"] = pydantic.Field(
        "none", description="keeps decoded records after the first epoch; varied anew in each"
    )
    cache_directory: str = pydantic.Field("", description="of `file`; empty: the system's for temporary files")
    image_size: int = pydantic.Field(0, ge=0, le=1024, description="side in pixels; 0: the data's median, 32 to 160")
    image_fit: Literal["stretch", "center"] = pydantic.Field(
        "stretch", description="stretch: the whole picture; center: its largest square"
    )
    antialias: bool = pydantic.Field(True, description="smooth pictures that shrink; false is faster")
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
    def _is_a_picture(cls, size: int) -> int:
        if 0 < size < _SMALLEST_PICTURE:
            raise ValueError(f"expected 0 or at least {_SMALLEST_PICTURE}")
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


class Train(_Section):
    """How the model is fitted."""

    epochs: int = pydantic.Field(12, gt=0)
    learning_rate: float = pydantic.Field(3e-3, gt=0, allow_inf_nan=False)
    seed: int = 17
    class_weights: float = pydantic.Field(
        0, ge=0, le=1, description="0: every record counts the same; 1: every class does; 0.5 is half way"
    )


class Evaluate(_Section):
    """The bars that a model must pass to be blessed."""

    min_accuracy: float = pydantic.Field(0.6, ge=0, le=1)
    min_explained: float = pydantic.Field(
        0.3, ge=0, le=1, description="of a quantity: squared correlation of what is predicted with what is right"
    )
    max_drop: float = pydantic.Field(0.01, ge=0, le=1, description="below the model that is blessed now")
    slices: tuple[str, ...] = pydantic.Field((), description="columns whose values are looked at one by one as well")

    @pydantic.field_validator("slices", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any) -> Any:
        return _names(value)


class Push(_Section):
    """Where blessed models go."""

    directory: str = pydantic.Field("", description="empty: <root>/serving")

    @pydantic.field_validator("directory")
    @classmethod
    def _is_a_path(cls, directory: str) -> str:
        if reason := not_a_path(directory):
            raise ValueError(reason)
        return directory


class Settings(_Section):
    """All settings of one pipeline."""

    ingest: Ingest = Ingest()
    gate: Gate = Gate()
    extract: Extract = Extract()
    transform: Transform = Transform()
    input: Input = Input()
    train: Train = Train()
    evaluate: Evaluate = Evaluate()
    push: Push = Push()

    def section(self, name: str) -> dict[str, Any]:
        """Returns one section as plain values, as it goes into cache keys and node parameters."""
        section: _Section = getattr(self, name)
        return section.model_dump(mode="json")


def load(overlays: Iterable[Mapping[str, Any]] = ()) -> Settings:
    """Returns the defaults with each overlay laid over them, in order."""
    merged: dict[str, Any] = {}
    for overlay in overlays:
        merged = _merge(merged, overlay)
    _refuse_unknown(Settings, merged, ())
    try:
        return Settings.model_validate(merged)
    except pydantic.ValidationError as error:
        raise SettingsError(_explain(error)) from None


def parse_flag(text: str) -> dict[str, Any]:
    """Turns `train.epochs=3` into `{"train": {"epochs": "3"}}`; types are checked by `load`."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise SettingsError(f"--set {text}: expected SECTION.KEY=VALUE, such as train.epochs=3")
    nested: Any = value
    for key in reversed(path.strip().split(".")):
        nested = {key: nested}
    overlay: dict[str, Any] = nested
    return overlay


def read_file(path: Path) -> dict[str, Any]:
    """Reads a TOML settings file; one table a section of a task, as in `[image.train] epochs = 3`."""
    import tomli

    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror}") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path}: not valid TOML: {error}") from None


def check_name(name: str) -> str:
    """Returns `name` if it is safe as a pipeline name and a folder name."""
    if not NAME.fullmatch(name):
        raise SettingsError(
            f"pipeline name {name!r}: expected a lower-case letter, then letters, digits, - or _ (63 at most)"
        )
    return name


def not_a_path(text: str) -> str | None:
    """Returns why `text` is no plain path of this machine, if so."""
    if "\0" in text:
        return "a path cannot hold a NUL"
    return "expected a plain path of this machine, not an address" if "://" in text else None


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Returns a hint for a misspelt name: the nearest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


def _names(value: Any) -> Any:
    """Returns names that a flag gives with commas between them; what is a list already is left alone."""
    return tuple(filter(None, value.split(","))) if isinstance(value, str) else value


def _merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in overlay.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _refuse_unknown(section: type[_Section], values: Mapping[str, Any], path: tuple[str, ...]) -> None:
    for key, value in values.items():
        where = ".".join((*path, key))
        if key not in section.model_fields:
            raise SettingsError(f"unknown setting {where!r}: {nearest(key, section.model_fields)}")
        inner = section.model_fields[key].annotation
        if isinstance(inner, type) and issubclass(inner, _Section):
            if not isinstance(value, Mapping):
                raise SettingsError(f"setting {where!r} is a section: expected {where}.KEY, got {value!r}")
            _refuse_unknown(inner, value, (*path, key))


def _explain(error: pydantic.ValidationError) -> str:
    lines = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        lines.append(f"setting {where}: {item['msg']} (got {item['input']!r})")
    return "\n".join(lines)
