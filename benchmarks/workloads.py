"""What is measured against what, on which data, and the bars that Penstock sets itself.

workload ─► contenders (one process each, in turn) ─► medians ─► ratios ─► bars
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
    stored: str = "original"  # which shards it reads
    environment: str = ""  # of a peer; empty: ours
    simulate: bool = False  # also in front of a simulated device
    note: str = ""  # where it does not do the same work

    @property
    def reference(self) -> str:
        """What makes its batches."""
        return f"{_OF}.{self.make}"


@dataclass(frozen=True)
class Bar:
    """A promise: one contender against another."""

    one: str
    other: str
    at_least: float
    figure: str = "rate"  # or: filled (real tokens a second), peak_mb (then: at most)


@dataclass(frozen=True)
class Workload:
    """The same work on the same bytes, done by several."""

    title: str
    data: str  # of benchmarks.data.KINDS
    contenders: tuple[Contender, ...]
    bars: tuple[Bar, ...]
    tokens: bool = False


_FLOAT = "float32 out"
_FULL_DECODE = "decodes all of the picture"

WORKLOADS: Mapping[str, Workload] = {
    "image-crop": Workload(
        "Image, 500 x 375 JPEG: random resized crop to 224 px, flip",
        "image",
        (
            Contender("tutorial", "tutorial:image_crop", 64, note=_FLOAT),
            Contender("tutorial, example 2", "tutorial:image_example_2", 64, note=f"{_FLOAT}; resize and brightness"),
            Contender("pure tf.data", "pure_tfdata:image_crop", 64),
            Contender("torch DataLoader", "torch_loader:image_crop", 64, environment="torch", note=_FULL_DECODE),
            Contender("webdataset", "webdataset_loader:image_crop", 64, environment="torch", note=_FULL_DECODE),
            Contender("grain, threads", "grain_loader:image_crop_threads", 64, environment="grain", note=_FULL_DECODE),
            Contender("grain, workers", "grain_loader:image_crop_workers", 64, environment="grain", note=_FULL_DECODE),
        ),
        (),
    ),
    "image-full": Workload(
        "Image, 500 x 375 JPEG: full decode, resize to 224 px, flip",
        "image",
        (
            Contender("tutorial, example 1", "tutorial:image_example_1", 64, note=f"{_FLOAT}; no flip"),
            Contender("tutorial, example 2", "tutorial:image_example_2", 64, note=f"{_FLOAT}; brightness too"),
            Contender("pure tf.data", "pure_tfdata:image_full", 64),
            Contender("torch DataLoader", "torch_loader:image_full", 64, environment="torch"),
            Contender("webdataset", "webdataset_loader:image_full", 64, environment="torch"),
            Contender("grain, threads", "grain_loader:image_full_threads", 64, environment="grain"),
            Contender("grain, workers", "grain_loader:image_full_workers", 64, environment="grain"),
        ),
        (),
    ),
    "image-128": Workload(
        "Image, 500 x 375 JPEG: resize to 128 px",
        "image",
        (Contender("tutorial", "tutorial:image_128", 64, note=_FLOAT),),
        (),
    ),
    "text": Workload(
        "Text, 60 words in the mean, 50,000 in the vocabulary",
        "text",
        (
            Contender("tutorial, 50 words", "tutorial:text_50", 64, note="cuts longer texts"),
            Contender("tutorial, 256 words", "tutorial:text_256", 64, note="cuts longer texts"),
            Contender("pure tf.data", "pure_tfdata:text_padded", 64),
            Contender("torch DataLoader", "torch_loader:text", 64, environment="torch"),
            Contender("grain", "grain_loader:text", 64, environment="grain"),
        ),
        (),
        tokens=True,
    ),
    "tensor": Workload(
        "Tensor, 28 x 28 uint8",
        "tensor",
        (
            Contender("tutorial", "tutorial:tensor_28", 32),
            Contender("pure tf.data, 32", "pure_tfdata:tensor_28", 32),
            Contender("pure tf.data, 256", "pure_tfdata:tensor_28", 256),
            Contender("raw records, 256", "pure_tfdata:raw_records", 256, note="not parsed: the limit"),
        ),
        (),
    ),
    "tensor64": Workload(
        "Tensor, 64 x 64 x 3 float32",
        "tensor64",
        (
            Contender("tutorial", "tutorial:tensor_64", 32),
            Contender("pure tf.data", "pure_tfdata:tensor_64", 32),
            Contender("raw records", "pure_tfdata:raw_records", 32, note="not parsed: the limit"),
        ),
        (),
    ),
    "table": Workload(
        "Table, 20 features",
        "table",
        (
            Contender("tutorial", "tutorial:table", 256),
            Contender("stock TFXIO", "tfxio:table", 256),
            Contender("pure tf.data", "pure_tfdata:table", 256),
            Contender("raw records", "pure_tfdata:raw_records", 256, note="not parsed: the limit"),
        ),
        (),
    ),
}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "image": ("image-crop", "image-full", "image-128"),
    "text": ("text",),
    "tensor": ("tensor", "tensor64"),
    "table": ("table",),
    "all": tuple(WORKLOADS),
}
