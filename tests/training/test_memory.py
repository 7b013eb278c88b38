"""The memory of a whole training: the Trainer's run_fn in a process of its own, on more data than it may hold."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.records import checksum, image_format, manifest
from components.settings.input import Input
from components.training import trainer
from components.training.hardware import memory
from pipelines.config import HOME
from tests.training.test_trainer import arguments, fit_labels

SIDE, RECORDS = 592, 64  # a shard has 67 MB of raw pixels
CLASSES = ("bright", "dark")


def write(home: Path, megabytes: int) -> None:
    """Writes raw images; all shards of a split are links to one file, which takes a moment instead of a minute."""
    pixels = np.random.default_rng(1).integers(0, 256, (SIDE, SIDE, 3), "uint8")
    shards = []
    for split, count in (("train", megabytes // 67 + 1), ("eval", 1)):
        folder = home / "examples" / f"Split-{split}"
        folder.mkdir(parents=True)
        names = [f"data_tfrecord-{index:05d}-of-{count:05d}" for index in range(count)]
        with tf.io.TFRecordWriter(str(folder / names[0])) as writer:
            for number in range(RECORDS):
                writer.write(_record(image_format.as_ppm(Image.fromarray(pixels)), CLASSES[number % 2], number))
        content = (folder / names[0]).read_bytes()
        for name in names:
            if name != names[0]:
                os.link(folder / names[0], folder / name)
            shards.append(
                manifest.Shard(split, f"Split-{split}/{name}", RECORDS, len(content), checksum.of_bytes(content))
            )
    classes = {split: dict.fromkeys(CLASSES, 1) for split in ("train", "eval")}
    found = sum(shard.records for shard in shards)
    manifest.write(
        home / "examples",
        manifest.Manifest("", found, manifest.SourceTotals(), tuple(shards), classes, 0, {}, 32, ()),
        (),
    )


def _record(image: bytes, label: str, number: int) -> bytes:
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[label.encode()])),
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def train(home: Path, ram_mb: int) -> None:
    """What the process runs: prints the memory of the libraries, and the peak, in MB."""
    libraries = memory.resident_mb("VmRSS")
    args = arguments(home, home, epochs=3)
    args.custom_config["input"] = Input(batch_size=16, ram_mb=ram_mb, shuffle_mb=ram_mb, image_size=32).model_dump(
        mode="json"
    )
    trainer.run_fn(args)
    print(json.dumps({"libraries": libraries, "peak": memory.resident_mb("VmHWM")}))


def test_only_the_gpus_of_this_worker_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow lists those of other workers too, and knows nothing about their memory."""
    asked: list[str] = []
    monkeypatch.setattr(tf.config.experimental, "reset_memory_stats", asked.append)
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda _: {"peak": 3 << 20})
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda _: pytest.fail("lists all workers' devices"))
    memory.reset(["GPU:1"])

    assert asked == ["GPU:1"]
    assert memory.peaks(["GPU:1"])["devices"] == {"GPU:1": 3.0}
    assert memory.peaks(["CPU:0"])["devices"] == {}


@pytest.mark.all
@pytest.mark.parametrize(("ram_mb", "is_whole"), [(512, False), (2048, True)])
def test_a_training_stays_within_its_budget(tmp_path: Path, ram_mb: int, *, is_whole: bool) -> None:
    """B12: three epochs over 1.5 times as much data, with the largest shuffle; 2 GB are for TensorFlow and TFX too."""
    write(tmp_path, 3 * ram_mb // 2)
    fit_labels(tmp_path)
    command = [sys.executable, "-c", f"from {__name__} import train, Path; train(Path({str(tmp_path)!r}), {ram_mb})"]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    measured = json.loads(done.stdout.splitlines()[-1])

    assert measured["peak"] - (0 if is_whole else measured["libraries"]) <= 1.2 * ram_mb
