"""Runs `inspect` in a folder of its own, and writes images, records and artifacts for it."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from components.records import checksum, manifest
from components.records.manifest import Manifest, Shard, SourceTotals
from components.records.quarantine import Quarantined
from pipelines.inspection import inspect

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are shown as they are given, so tests use short relative ones."""
    monkeypatch.chdir(tmp_path)


def inspected(path: Path | str, **request: Any) -> str:
    """Returns the output without trailing spaces."""
    stream = io.StringIO()
    inspect(str(path), stream, **request)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def expected(text: str) -> str:
    """Returns an expected output without its indentation and last line break."""
    lines = text.strip("\n").splitlines()
    return "\n".join(line[4:] for line in lines).rstrip()


def squeezed(text: str) -> str:
    """Returns an output without its alignment, where file sizes depend on library versions."""
    return re.sub(" +", " ", text)


def image_file(colour: tuple[int, int, int], kind: str = "PNG", side: int = 20) -> bytes:
    """Encodes an image of one colour; its size does not depend on the colour."""
    out = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(out, kind, compress_level=0)
    return out.getvalue()


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a fresh interpreter that imports this source tree."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def write_records() -> Callable[..., None]:
    """Writes tf.train.Examples with TensorFlow."""
    import tensorflow as tf

    def write(path: str, rows: list[tuple[str, int]]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(path, "GZIP" if path.endswith(".gz") else "") as writer:
            for label, number in rows:
                feature = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image_file((number, 0, 0))])),
                    "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[label.encode()])),
                    "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString(deterministic=True))

    return write


@pytest.fixture
def artifact(write_records: Callable[..., None]) -> Path:
    """An artifact of two splits and three shards that match its manifest."""
    folder = Path("examples")
    shards = {
        "Split-train/data_tfrecord-00000-of-00002": [("cat", 1), ("dog", 2)],
        "Split-train/data_tfrecord-00001-of-00002": [("cat", 3)],
        "Split-eval/data_tfrecord-00000-of-00001": [("dog", 4)],
    }
    written = []
    for name, rows in shards.items():
        write_records(str(folder / name), rows)
        content = (folder / name).read_bytes()
        split = name.partition("/")[0].removeprefix("Split-")
        written.append(Shard(split, name, len(rows), len(content), checksum.of_bytes(content)))
    reasons = ["too large", "not an image", "not an image"]
    bad = [Quarantined(f"cat/{number}.jpg", reason) for number, reason in enumerate(reasons)]
    counts = {"train": {"cat": 2, "dog": 1}, "eval": {"cat": 0, "dog": 1}}
    made = Manifest(
        data_digest="0" * 64,
        found=7,
        sources=SourceTotals(2, 12_345),
        shards=tuple(written),
        classes=counts,
        quarantined=3,
        changed={"EXIF rotation": 1},
        median_side=20,
        warnings=("1 exact duplicates in 1 groups",),
    )
    manifest.write(folder, made, bad)
    return folder
