"""Workloads: contenders, data, and the targets that Penstock must reach.

workload ─► contenders (one process each, in turn) ─► medians ─► ratios ─► targets
"""

from collections.abc import Mapping
from dataclasses import dataclass

_OF = "benchmarks.contenders"


@dataclass(frozen=True)
class Contender:
    """One line of a table."""

    name: str
    make: str  # module below benchmarks.contenders, and function
    batch: int
    stored: str = "original"  # stored form of its shards
    environment: str = ""  # of a peer; empty: this environment
    simulate: bool = False  # also feed a simulated device
    note: str = ""  # differences in the work

    @property
    def reference(self) -> str:
        """Reference of the function that makes its batches."""
        return f"{_OF}.{self.make}"


@dataclass(frozen=True)
class Target:
    """A minimum or maximum: one contender against another, or a figure by itself."""

    one: str
    other: str  # empty: the figure itself is compared
    limit: float
    figure: str = "rate"  # or: filled (tokens per second), padding, peak_mb
    at_most: bool = False


@dataclass(frozen=True)
class Workload:
    """The same work on the same data for several contenders."""

    title: str
    data: str  # of benchmarks.data.KINDS
    contenders: tuple[Contender, ...]
    targets: tuple[Target, ...]
    tokens: bool = False


_FLOAT = "float32 out"
_FULL_DECODE = "decodes all of the image"
_256 = "stored at 256 px"
_DEVICE = "a step of a device, 20 to 50 ms"
_IN_ORDER, _SHUFFLED = "in order, not parsed", "not parsed"

WORKLOADS: Mapping[str, Workload] = {
    "image-crop": Workload(
        "Image, 500 x 375 JPEG: random resized crop to 224 px, flip, batches of 64",
        "image",
        (
            Contender("tutorial", "tutorial:image_crop", 64, note=_FLOAT),
            Contender(
                "tutorial, example 2", "tutorial:image_example_2", 64, note=f"{_FLOAT}; resize, flip, brightness"
            ),
            Contender("pure tf.data", "pure_tfdata:image_crop", 64),
            Contender("torch DataLoader", "torch_loader:image_crop", 64, environment="torch", note=_FULL_DECODE),
            Contender("webdataset", "webdataset_loader:image_crop", 64, environment="torch", note=_FULL_DECODE),
            Contender("grain, threads", "grain_loader:image_crop_threads", 64, environment="grain", note=_FULL_DECODE),
            Contender("grain, workers", "grain_loader:image_crop_workers", 64, environment="grain", note=_FULL_DECODE),
            Contender("C limit", "limit:image_crop", 64, note="no resize, no batches"),
            Contender("ours", "ours:image_crop", 64),
            Contender("ours, 128", "ours:image_crop", 128, simulate=True, note=_DEVICE),
            Contender("ours, fastest order", "ours:image_crop_fastest", 64),
            Contender("ours, plain", "ours:image_crop_plain", 64, note="without the native op"),
            Contender("ours, 256 px", "ours:image_crop", 64, "jpeg256", note=_256),
            Contender("ours, 256 px, 128", "ours:image_crop", 128, "jpeg256", simulate=True, note=f"{_256}; {_DEVICE}"),
            Contender("ours, 256 px, random crop", "ours:image_random_crop", 64, "jpeg256", note=f"{_256}; no resize"),
            Contender("ours, raw, random crop", "ours:image_random_crop", 64, "raw256", note=f"{_256}, raw; no resize"),
        ),
        (
            Target("ours", "tutorial", 2.0),
            Target("ours", "torch DataLoader", 1.25),
            Target("ours", "C limit", 0.7),
            Target("ours", "tutorial", 0.7, "peak_mb", at_most=True),
            Target("ours", "ours, fastest order", 0.9),
            Target("ours, plain", "tutorial", 1.2),
            Target("ours, 256 px", "tutorial", 1.5),
            Target("ours, 256 px", "ours", 1.5),
            Target("ours, 256 px, random crop", "tutorial", 2.5),
            Target("ours, 256 px, random crop", "pure tf.data", 2.5),
            Target("ours, 256 px, random crop", "ours", 2.5),
            Target("ours, raw, random crop", "tutorial", 4.0),
        ),
    ),
    "image-full": Workload(
        "Image, 500 x 375 JPEG: full decode, resize to 224 px, flip, batches of 64",
        "image",
        (
            Contender("tutorial, example 1", "tutorial:image_example_1", 64, note=f"{_FLOAT}; no flip"),
            Contender("tutorial, example 2", "tutorial:image_example_2", 64, note=f"{_FLOAT}; brightness too"),
            Contender("pure tf.data", "pure_tfdata:image_full", 64),
            Contender("torch DataLoader", "torch_loader:image_full", 64, environment="torch"),
            Contender("webdataset", "webdataset_loader:image_full", 64, environment="torch"),
            Contender("grain, threads", "grain_loader:image_full_threads", 64, environment="grain"),
            Contender("grain, workers", "grain_loader:image_full_workers", 64, environment="grain"),
            Contender("ours", "ours:image_full", 64),
            Contender("ours, 128", "ours:image_full", 128, simulate=True, note=_DEVICE),
            Contender("ours, plain", "ours:image_full_plain", 64, note="without the native op"),
            Contender("ours, defaults", "ours:image_defaults", 64, note="antialias, shift, brightness, contrast"),
        ),
        (
            Target("ours", "torch DataLoader", 1.2),
            Target("ours", "tutorial, example 2", 2.0),
            Target("ours", "tutorial, example 2", 0.7, "peak_mb", at_most=True),
        ),
    ),
    "image-128": Workload(
        "Image, 500 x 375 JPEG: resize to 128 px, batches of 32",
        "image",
        (
            Contender("tutorial", "tutorial:image_128", 32, note=_FLOAT),
            Contender("ours", "ours:image_128", 32),
        ),
        (Target("ours", "tutorial", 1.0),),
    ),
    "image-32": Workload(
        "Image, digits of 32 x 32 px, PNG and JPEG: flip, brightness, batches of 64",
        "digits",
        (
            Contender("tutorial", "tutorial:image_32", 64, note=_FLOAT),
            Contender("ours", "ours:image_32", 64),
            Contender("ours, defaults", "ours:image_32_defaults", 64, note="shift, brightness, contrast"),
        ),
        (Target("ours", "tutorial", 1.0), Target("ours, defaults", "tutorial", 1.0)),
    ),
    "text": Workload(
        "Text, 60 words in the mean, vocabulary of 50,000, batches of 64",
        "text",
        (
            Contender("tutorial, 256 words", "tutorial:text_256", 64, note="cuts longer texts"),
            Contender("tutorial, 50 words", "tutorial:text_50", 64, note="cuts longer texts"),
            Contender("pure tf.data", "pure_tfdata:text_padded", 64),
            Contender("torch DataLoader", "torch_loader:text", 64, environment="torch"),
            Contender("grain", "grain_loader:text", 64, environment="grain"),
            Contender("ours", "ours:text", 64),
            Contender("ours, 8,192", "ours:text", 8_192, simulate=True, note=_DEVICE),
            Contender("ours, fastest order", "ours:text_fastest", 64),
        ),
        (
            Target("ours", "tutorial, 256 words", 11.0, "filled"),
            Target("ours", "", 0.06, "padding", at_most=True),
            Target("ours", "ours, fastest order", 0.9),
        ),
        tokens=True,
    ),
    "tensor": Workload(
        "Tensor, 28 x 28 uint8",
        "tensor",
        (
            Contender("tutorial, 32", "tutorial:tensor_28", 32),
            Contender("tutorial, 256", "tutorial:tensor_28", 256),
            Contender("pure tf.data, 32", "pure_tfdata:tensor_28", 32),
            Contender("pure tf.data, 256", "pure_tfdata:tensor_28", 256),
            Contender("raw records, 256", "pure_tfdata:raw_records", 256, note=_IN_ORDER),
            Contender("raw records, shuffled, 256", "pure_tfdata:raw_shuffled", 256, note=_SHUFFLED),
            Contender("ours, 32", "ours:tensor_28", 32),
            Contender("ours, 256", "ours:tensor_28", 256),
            Contender("ours, 32,768", "ours:tensor_28", 32_768, simulate=True, note=_DEVICE),
        ),
        (
            Target("ours, 32", "tutorial, 32", 2.5),
            Target("ours, 256", "tutorial, 32", 10.0),
            Target("ours, 256", "raw records, 256", 0.85),
        ),
    ),
    "tensor64": Workload(
        "Tensor, 64 x 64 x 3 float32, batches of 32",
        "tensor64",
        (
            Contender("tutorial", "tutorial:tensor_64", 32),
            Contender("pure tf.data", "pure_tfdata:tensor_64", 32),
            Contender("raw records", "pure_tfdata:raw_records", 32, note=_IN_ORDER),
            Contender("ours", "ours:tensor_64", 32),
        ),
        (Target("ours", "tutorial", 1.5),),
    ),
    "table": Workload(
        "Table, 20 features, batches of 256",
        "table",
        (
            Contender("tutorial", "tutorial:table", 256),
            Contender("stock TFXIO", "tfxio:table", 256),
            Contender("pure tf.data", "pure_tfdata:table", 256),
            Contender("raw records", "pure_tfdata:raw_records", 256, note=_IN_ORDER),
            Contender("raw records, shuffled", "pure_tfdata:raw_shuffled", 256, note=_SHUFFLED),
            Contender("ours", "ours:table", 256),
            Contender("ours, 32,768", "ours:table", 32_768, simulate=True, note=_DEVICE),
        ),
        (Target("ours", "tutorial", 18.0), Target("ours", "stock TFXIO", 6.0)),
    ),
}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "image": ("image-crop", "image-full", "image-128", "image-32"),
    "text": ("text",),
    "tensor": ("tensor", "tensor64"),
    "table": ("table",),
    "all": tuple(WORKLOADS),
}
