"""Peak memory of the input pipeline against `input.ram_mb`: records of 100 B to 5 MB, one fresh process each.

    records of one size ─► training batches ─► peak memory minus memory before ─► fraction of ram_mb

python -m benchmarks.memory                   all sizes, with default settings and with the largest shuffle
python -m benchmarks.memory --json peak.json  write every figure

The memory before is that of TensorFlow, loaded and used once; tracing the pipeline counts.
"""

import argparse
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.data import HOME
from pipelines.bench.processes import meter

MARK = "measured:"
_MB = 1 << 20
_SHARDS = 8
_SECONDS = 8.0
_IMAGE = 224


@dataclass(frozen=True)
class Case:
    """Records of one kind and size, and their budget."""

    kind: str  # tensor, text or image
    size: int  # bytes of a record, about
    batch: int
    ram_mb: int
    shuffle_mb: int = 64

    @property
    def records(self) -> int:
        """More records than the budget holds."""
        return max(128, min(400_000, 3 * self.ram_mb * _MB // 2 // self.size))


def cases() -> list[Case]:
    """Returns the cases: each size with default settings, and with the largest shuffle."""
    sizes = [("tensor", 100, 64), ("text", 100, 64), ("tensor", 10_000, 64), ("text", 10_000, 64)]
    sizes += [("image", 10_000, 64), ("tensor", 1_000_000, 16), ("image", 1_000_000, 64)]
    sizes += [("tensor", 5_000_000, 8), ("image", 5_000_000, 16)]
    return [
        Case(kind, size, batch, ram, shuffle)
        for kind, size, batch in sizes
        for ram, shuffle in ((1024, 64), (512, 512))
    ]


def table(found: Sequence[tuple[Case, Mapping[str, float]]]) -> list[str]:
    """Returns Markdown."""
    lines = [
        "| record | batch | ram_mb | shuffle_mb | peak MB above TensorFlow | of the budget |",
        "|---|---|---|---|---|---|",
    ]
    for case, measured in found:
        share = measured["peak_mb"] / case.ram_mb
        word = "" if share <= 1 else " **missed**"
        lines.append(
            f"| {case.kind}, {_told(case.size)} | {case.batch} | {case.ram_mb:,} | {case.shuffle_mb} | "
            f"{measured['peak_mb']:,.0f} | {share:.2f}{word} |"
        )
    return lines


def _told(size: int) -> str:
    for unit, name in ((1_000_000, "MB"), (1000, "KB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def measure(case: Case, seconds: float) -> dict[str, float]:
    """Writes records, reads them in this process, and returns the memory used."""
    import tensorflow as tf

    from components.training.hardware import memory

    tools = HOME / ".tools"
    tools.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tools) as home:
        shards = _write(case, Path(home))
        reader = _reader(case)
        tf.reduce_sum(tf.zeros([8])).numpy()
        gc.collect()
        memory.reset([])
        before = memory.resident_mb("VmRSS")
        batches = iter(reader.training(shards))
        begun, samples = time.perf_counter(), 0
        while time.perf_counter() < begun + seconds:
            samples += meter.touch(next(batches))
        return {"before_mb": before, "peak_mb": memory.resident_mb("VmHWM") - before, "samples": samples}


def _reader(case: Case) -> Any:
    import tensorflow as tf

    from benchmarks.features import vocabulary_lookup
    from components.features.image import ImageFeature
    from components.features.tensor import TensorFeature
    from components.features.text import TextFeature
    from components.input_pipeline import Reader
    from components.native.decode import loader
    from components.settings.input import Augmentation, Input

    settings = Input(
        batch_size=case.batch,
        ram_mb=case.ram_mb,
        shuffle_mb=case.shuffle_mb,
        image_size=_IMAGE,
        augmentation=Augmentation(crop="resized"),
    )
    feature: Any
    if case.kind == "image":
        loader.load()
        feature = ImageFeature(_IMAGE, augmentation=settings.augmentation)
    elif case.kind == "text":
        feature = TextFeature(vocabulary_lookup(lambda tokens: tf.strings.to_hash_bucket_fast(tokens, 1000)))
    else:
        feature = TensorFeature((case.size,), "uint8")
    return Reader({"value": feature}, "label", tf.identity, settings, 1, label_type="int64")


def _write(case: Case, home: Path) -> list[Any]:
    """Writes shards in a separate process, so that the memory for writing does not count."""
    from components.input_pipeline import RecordFile

    command = [sys.executable, "-m", "benchmarks.memory", "--write", str(home), "--case", json.dumps(asdict(case))]
    subprocess.run(command, cwd=HOME, check=True, env=_environment())
    each = case.records // _SHARDS
    return [RecordFile(path, each, path.stat().st_size) for path in sorted(home.iterdir())]


def write(case: Case, home: Path) -> None:
    """Writes shards of records."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(5)
    contents = [_content(case, random) for _ in range(min(16, case.records))]
    for shard in range(_SHARDS):
        with tf.io.TFRecordWriter(str(home / f"{shard}.tfrecord")) as file:
            for number in range(case.records // _SHARDS):
                content = contents[number % len(contents)]
                example = tf.train.Example()
                example.features.feature["value"].bytes_list.value.append(content)
                example.features.feature["label"].int64_list.value.append(number)
                file.write(example.SerializeToString())


def _content(case: Case, random: Any) -> bytes:
    if case.kind == "tensor":
        return bytes(random.bytes(case.size))
    if case.kind == "text":
        words = ("".join(random.choice(list("abcdefgh"), 5)) for _ in range(case.size // 6))
        return " ".join(words).encode()
    from PIL import Image

    side = int((case.size / 1.1) ** 0.5)  # noise at this quality takes 1.1 bytes a pixel
    file = io.BytesIO()
    Image.fromarray(random.integers(0, 256, (side, side, 3), "uint8")).save(file, "JPEG", quality=75)
    return file.getvalue()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(HOME), "TF_CPP_MIN_LOG_LEVEL": "3"}


def run(case: Case, seconds: float = _SECONDS) -> dict[str, float]:
    """Measures in a separate process."""
    command = [sys.executable, "-m", "benchmarks.memory", "--case", json.dumps(asdict(case)), "--seconds", str(seconds)]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False, env=_environment())
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        raise RuntimeError(f"{case} failed:\n{done.stderr[-2000:]}")
    measured: dict[str, float] = json.loads(lines[-1].removeprefix(MARK))
    print(f"{case}: {measured}", file=sys.stderr)
    return measured


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write every figure")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="that records are read for")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        case = Case(**json.loads(arguments.case))
        if arguments.write:
            write(case, arguments.write)
        else:
            print(MARK, json.dumps(measure(case, arguments.seconds)), flush=True)
        return
    found = [(case, run(case, arguments.seconds)) for case in cases()]
    print("\n".join(table(found)))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(case) | measured for case, measured in found], indent=1))


if __name__ == "__main__":
    main()
