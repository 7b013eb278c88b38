"""The limit of libjpeg-turbo with two threads: rows of the boxes decoded in C, no resize, no output.

It makes no batches, so it returns its figures itself.
"""

import io
import os
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from benchmarks import native_limit
from benchmarks.contenders import BenchData, boxes
from pipelines.bench.processes import meter

_THREADS = 2
_SECONDS = 8.0


def image_crop(stored: BenchData, batch: int) -> dict[str, Any]:
    """Decodes boxes of a random resized crop."""
    del batch
    contents = [path.read_bytes() for path in sorted((stored.raw / "files").glob("*/*.jpg"))]
    with tempfile.TemporaryDirectory() as home:
        program, file = native_limit.build_limit(Path(home)), Path(home, "images")
        native_limit.write_limit(_work(contents), file)
        native_limit.limit(program, file, _THREADS)
        return _figures(program, file)


def _work(contents: list[bytes]) -> native_limit.Work:
    random = Random(7)
    sizes = [Image.open(io.BytesIO(content)).size for content in contents]
    drawn = [boxes.draw(height, width, random) for width, height in sizes]
    return native_limit.Work(contents, np.array(drawn, np.int32), np.zeros(len(contents), bool))


def _figures(program: Path, file: Path) -> dict[str, Any]:
    begun, busy, times = time.perf_counter(), meter.busy_seconds(), []
    while time.perf_counter() < begun + _SECONDS:
        times.append(native_limit.limit(program, file, _THREADS))
    passed, busy = time.perf_counter() - begun, meter.busy_seconds() - busy
    images, seconds = sum(each.images for each in times), sum(each.seconds for each in times)
    cpu = sum(each.cpu_seconds for each in times)
    reading = passed - seconds  # the file into memory: untimed, and our own work
    others = max(0.0, busy - cpu - reading) / passed / (os.cpu_count() or 1)
    unknown = dict.fromkeys(("first_batch", "peak_mb", "wait_p50", "wait_p99", "filled", "padding"), float("nan"))
    return {"rate": images / seconds, "cpu_us": 1e6 * cpu / images, "others": others, **unknown, "look": {}}
