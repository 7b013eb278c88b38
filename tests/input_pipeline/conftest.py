"""Records whose label tells which one they are, in all shapes that a stream of batches can have.

    image   costly to decode: a pool is a batch
    number    small: pools of many batches, mixed and sliced
    text      of many lengths: pools of many batches, sorted, padded and cut
    packed    numbers in gzip shards: these are read anew for each epoch, where the others are held

Record n has the label "n<n>"; a image of n is of one colour that spells n, a text of n has 1 to 13 words.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.features.image import ImageFeature
from components.features.text import TextFeature, looked_up
from components.ingest.write.encode_record import example_parts
from components.input_pipeline import Reader, RecordFile
from components.input_pipeline.artifacts import ColumnFeature
from components.settings.input import Input

SIZES = (30, 30, 30, 7)  # records of each shard
RECORDS = sum(SIZES)
BATCH = 16
LABELS = [f"n{number}" for number in range(RECORDS)]


def image(number: int) -> bytes:
    """Returns a image of one colour that spells a number."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (number, 255 - number, 7)).save(out, "PNG")
    return out.getvalue()


def text(number: int) -> bytes:
    """Returns a text that spells a number, of some length."""
    return b" ".join([str(number).encode()] * (1 + number % 13))


def lookup(names: Sequence[str]) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a numbering of names, as Transform fits one: what it has not seen is -1."""
    numbers = tf.lookup.KeyValueTensorInitializer(list(names), np.arange(len(names)))
    return tf.lookup.StaticHashTable(numbers, default_value=-1).lookup


WORDS = lookup([str(number) for number in range(RECORDS)])
FEATURES: dict[str, Any] = {
    "image": ImageFeature(8),
    "number": ColumnFeature("int64"),
    "text": TextFeature(looked_up(WORDS)),
}
VALUES: dict[str, Callable[[int], bytes | int]] = {"image": image, "number": int, "text": text}


def write_shard(path: Path, kind: str, numbers: Sequence[int]) -> RecordFile:
    """Writes records as ingest does."""
    compression = tf.io.TFRecordOptions("GZIP") if path.suffix == ".gz" else None
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for number in numbers:
            columns = {kind: VALUES[kind](number), "label": LABELS[number].encode(), "id": number}
            writer.write(b"".join(example_parts(columns)))
    return RecordFile(path, len(numbers), path.stat().st_size)


@dataclass(frozen=True)
class World:
    """Ninety-seven records of one kind in four shards, numbered in stored order."""

    kind: str
    files: list[RecordFile]
    batch: int = BATCH
    records: int = RECORDS
    steps: int = 7  # the last batch has one record

    def reader(self, seed: int = 5, labels: Sequence[str] = LABELS, **settings: Any) -> Reader:
        """Returns a reader of these records."""
        chosen = Input(**{"batch_size": BATCH, "augment": False, **settings})
        feature = FEATURES[self.kind]
        if isinstance(feature, ImageFeature):
            feature = ImageFeature(8, augmentation=chosen.augmentation)
        return Reader({self.kind: feature}, "label", lookup(labels), chosen, seed, len(labels), record_id="id")

    def epochs(self, data: tf.data.Dataset, count: int, steps: int = 7) -> list[list[int]]:
        """Returns the records of each epoch, in order, by their labels."""
        batches = data.take(count * steps).as_numpy_iterator()
        return [[int(number) for _, labels in islice(batches, steps) for number in labels] for _ in range(count)]

    def content(self, data: tf.data.Dataset, batches: int = 7) -> list[tuple[bytes, tuple[int, ...], bytes]]:
        """Returns the bytes of each batch."""
        return [
            (values[self.kind].tobytes(), values[self.kind].shape, labels.tobytes())
            for values, labels in data.take(batches).as_numpy_iterator()
        ]

    def values(self, data: tf.data.Dataset, batches: int = 7) -> dict[int, Any]:
        """Returns what the model sees of each record."""
        found: dict[int, Any] = {}
        for values, labels in data.take(batches).as_numpy_iterator():
            found.update(zip((int(number) for number in labels), values[self.kind], strict=True))
        return found


def make_world(folder: Path, kind: str, suffix: str = "") -> World:
    """Writes the records of one kind."""
    numbers = iter(range(RECORDS))
    files = [
        write_shard(folder / f"{kind}-{index}{suffix}", kind, list(islice(numbers, size)))
        for index, size in enumerate(SIZES)
    ]
    return World(kind, files)


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, World]:
    """One of each kind."""
    folder = tmp_path_factory.mktemp("worlds")
    return {kind: make_world(folder, kind) for kind in FEATURES} | {"packed": make_world(folder, "number", ".gz")}


@pytest.fixture(params=[*FEATURES, "packed"])
def world(request: pytest.FixtureRequest, worlds: dict[str, World]) -> World:
    """Each kind in turn."""
    return worlds[request.param]


@pytest.fixture(scope="session")
def images(worlds: dict[str, World]) -> World:
    """Images."""
    return worlds["image"]


@pytest.fixture(scope="session")
def numbers(worlds: dict[str, World]) -> World:
    """Small records."""
    return worlds["number"]


@pytest.fixture(scope="session")
def texts(worlds: dict[str, World]) -> World:
    """Records of many lengths."""
    return worlds["text"]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Sequence[int]], RecordFile]:
    """Writes a shard of one's own."""
    return lambda kind, numbers: write_shard(tmp_path / f"own-{kind}", kind, numbers)
