"""Benchmark of the native op against libjpeg-turbo alone and TensorFlow's ops, on the same images and boxes in memory.

    C, partial decode, no resize ┐
    native op                    ├─ in turn, round after round ─► images per second, CPU time per image
    TensorFlow's ops             ┘

Boxes are those of a random resized crop: 8 to 100 % of the area, sides in a ratio of 3:4 to 4:3.
On a busy machine, compare CPU time.

    python -m benchmarks.native_limit --images 512 --rounds 7
"""

import argparse
import os
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import images
from components.native import build
from components.native.decode import loader

_SIZE = (224, 224)
_BATCH = 64
_SCALE, _RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
_SOURCE = Path(__file__).with_suffix(".cc")


@dataclass(frozen=True)
class Work:
    """The images and boxes of all contenders."""

    contents: Sequence[bytes]
    boxes: NDArray[np.int32]
    flips: NDArray[np.bool_]


@dataclass(frozen=True)
class Time:
    """Duration and CPU time."""

    images: int
    seconds: float
    cpu_seconds: float


def work_of(count: int) -> Work:
    """Returns images and boxes, the same in every run."""
    contents = [image.content for image in images.images(range(count))]
    random = np.random.default_rng(7)
    ops = _ops()
    boxes = [_box(random, height, width) for height, width, _ in ops.shapes(contents).numpy()]
    return Work(contents, np.array(boxes, np.int32), random.random(count) < 0.5)  # noqa: PLR2004 - a coin


def _box(random: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    while True:
        area, ratio = height * width * random.uniform(*_SCALE), np.exp(random.uniform(*np.log(_RATIO)))
        tall, wide = round((area / ratio) ** 0.5), round((area * ratio) ** 0.5)
        if 0 < tall <= height and 0 < wide <= width:
            return int(random.integers(height - tall + 1)), int(random.integers(width - wide + 1)), tall, wide


def limit(program: Path, file: Path, threads: int) -> Time:
    """Runs the C program once."""
    words = [str(program), str(file), str(threads), "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    count, seconds, cpu = done.stdout.split()
    return Time(int(count), float(seconds), float(cpu))


def build_limit(home: Path) -> Path:
    """Compiles the C program against the libjpeg that the op is linked with."""
    program, packages = home / "native_limit", Path(np.__file__).parents[1]
    words = ["g++", "-std=c++17", "-O3", *build.jpeg_headers(packages), str(_SOURCE), "-o", str(program)]
    subprocess.run([*words, *build.jpeg_link(packages, home), "-lpthread"], check=True)
    return program


def write_limit(work: Work, file: Path) -> None:
    """Writes images and boxes as the C program reads them."""
    with file.open("wb") as stream:
        for content, box in zip(work.contents, work.boxes, strict=True):
            stream.write(struct.pack("<5i", len(content), *box) + content + bytes(-len(content) % 4))


def drain(data: Any, count: int) -> Time:
    """Reads batches of a repeated dataset, after one to warm up."""
    batches = iter(data)
    next(batches)
    begun, cpu, seen = time.perf_counter(), time.process_time(), 0
    while seen < count:
        seen += int(next(batches).shape[0])
    return Time(seen, time.perf_counter() - begun, time.process_time() - cpu)


def native(work: Work, threads: int, how: loader.DecodeOptions) -> Any:
    """Whole batches by the op."""
    ops, data = _ops(), _source(work).batch(_BATCH, drop_remainder=True)
    decode = lambda contents, boxes, flips: ops.decode_crop_resize(contents, boxes, flips, _SIZE, how)[0]  # noqa: E731
    return _fixed(data.map(decode, num_parallel_calls=threads).prefetch(2))


def tensorflow_own(work: Work, threads: int, *, antialias: bool) -> Any:
    """One image at a time by TensorFlow's fused decode and crop, and its resize."""
    import tensorflow as tf

    def decode(content: tf.Tensor, box: tf.Tensor, flip: tf.Tensor) -> tf.Tensor:
        part = tf.io.decode_and_crop_jpeg(content, box, channels=3)
        pixels = tf.cast(tf.round(tf.image.resize(part, _SIZE, antialias=antialias)), tf.uint8)
        return tf.cond(flip, lambda: tf.reverse(pixels, [1]), lambda: pixels)

    data = _source(work).map(decode, num_parallel_calls=threads, deterministic=False)
    return _fixed(data.batch(_BATCH, drop_remainder=True).prefetch(2))


def _source(work: Work) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((list(work.contents), work.boxes, work.flips)).repeat()


def _fixed(data: Any) -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return data.with_options(options)


def _ops() -> loader.Ops:
    ops = loader.load()
    if ops is None:
        raise SystemExit(f"no native op: {loader.why_not()}")
    return ops


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    work, threads = work_of(arguments.images), arguments.threads
    with tempfile.TemporaryDirectory() as home:
        program, file = build_limit(Path(home)), Path(home, "images")
        write_limit(work, file)
        datasets = {
            "native, bilinear": native(work, threads, loader.DecodeOptions()),
            "native, antialias": native(work, threads, loader.DecodeOptions(antialias=True)),
            "TensorFlow, bilinear": tensorflow_own(work, threads, antialias=False),
            "TensorFlow, antialias": tensorflow_own(work, threads, antialias=True),
        }
        contenders: dict[str, Callable[[], Time]] = {"C, no resize": lambda: limit(program, file, threads)}
        contenders |= {name: lambda data=data: drain(data, arguments.images) for name, data in datasets.items()}  # type: ignore[misc]
        times: dict[str, list[Time]] = {name: [] for name in contenders}
        for _ in range(arguments.rounds):
            for name, run in contenders.items():
                times[name].append(run())
    show(work, times)


def show(work: Work, times: dict[str, list[Time]]) -> None:
    """Prints medians and their ratio to the limit."""
    size = statistics.mean(map(len, work.contents))
    print(f"{len(work.contents)} JPEGs of {size / 1024:.0f} KB, random resized crop to {_SIZE[0]} x {_SIZE[1]}")
    print(f"{'':<28}{'images/s':>12}{'CPU-µs':>9}{'limit CPU / CPU':>17}")
    cpu = {name: statistics.median(run.cpu_seconds / run.images for run in runs) for name, runs in times.items()}
    for name, runs in times.items():
        rate = statistics.median(run.images / run.seconds for run in runs)
        print(f"{name:<28}{rate:>12,.0f}{cpu[name] * 1e6:>9,.0f}{cpu['C, no resize'] / cpu[name]:>17.2f}")


if __name__ == "__main__":
    main()
