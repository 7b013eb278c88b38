"""Records whose label identifies them, one dataset for each way in which pools become batches.

    image     costly to decode: a pool is a batch
    number    small: pools of many batches, permuted and sliced
    text      of many lengths: pools of many batches, sorted, padded and cut
    gzip      numbers in gzip shards: read again in every epoch, where plain ones stay in memory

Record n has the label "n<n>"; the image of record n has one color that encodes n, its text has 1 to 13 words.
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
from components.features.text import TextFeature, tokens
from components.input_pipeline import Reader, RecordFile
from components.input_pipeline.artifacts import ColumnFeature
from components.settings.input import Input

SIZES = (30, 30, 30, 7)  # records per shard
RECORDS = sum(SIZES)
BATCH = 16
LABELS = [f"n{number}" for number in range(RECORDS)]


def image(number: int) -> bytes:
    """Returns an image of one color that encodes a number."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (number, 255 - number, 7)).save(out, "PNG")
    return out.getvalue()


def text(number: int) -> bytes:
    """Returns a text that repeats a number 1 to 13 times."""
    return b" ".join([str(number).encode()] * (1 + number % 13))


def lookup(names: Sequence[str]) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function from names to indices, as Transform fits it; unknown names become -1."""
    numbers = tf.lookup.KeyValueTensorInitializer(list(names), np.arange(len(names)))
    return tf.lookup.StaticHashTable(numbers, default_value=-1).lookup


WORDS = lookup([str(number) for number in range(RECORDS)])


def token_indices(texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the indices of the words."""
    found = tokens(texts)
    return found.with_flat_values(WORDS(found.flat_values))


FEATURES: dict[str, Any] = {
    "image": ImageFeature(8),
    "number": ColumnFeature("int64"),
    "text": TextFeature(token_indices),
}
VALUES: dict[str, Callable[[int], bytes | int]] = {"image": image, "number": int, "text": text}


def example(columns: dict[str, bytes | int]) -> bytes:
    """Returns a serialized tf.train.Example."""
    record = tf.train.Example()
    for name, value in columns.items():
        if isinstance(value, bytes):
            record.features.feature[name].bytes_list.value.append(value)
        else:
            record.features.feature[name].int64_list.value.append(value)
    return record.SerializeToString()


def write_shard(path: Path, kind: str, numbers: Sequence[int]) -> RecordFile:
    """Writes records as ingest does."""
    compression = tf.io.TFRecordOptions("GZIP") if path.suffix == ".gz" else None
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for number in numbers:
            writer.write(example({kind: VALUES[kind](number), "label": LABELS[number].encode(), "id": number}))
    return RecordFile(path, len(numbers), path.stat().st_size)


@dataclass(frozen=True)
class Numbered:
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
        """Returns the model input of each record."""
        found: dict[int, Any] = {}
        for values, labels in data.take(batches).as_numpy_iterator():
            found.update(zip((int(number) for number in labels), values[self.kind], strict=True))
        return found


def numbered(folder: Path, kind: str, suffix: str = "") -> Numbered:
    """Writes the records of one kind."""
    numbers = iter(range(RECORDS))
    files = [
        write_shard(folder / f"{kind}-{index}{suffix}", kind, list(islice(numbers, size)))
        for index, size in enumerate(SIZES)
    ]
    return Numbered(kind, files)


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Numbered]:
    """One dataset of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    return {kind: numbered(folder, kind) for kind in FEATURES} | {"gzip": numbered(folder, "number", ".gz")}


@pytest.fixture(params=[*FEATURES, "gzip"])
def records(request: pytest.FixtureRequest, kinds: dict[str, Numbered]) -> Numbered:
    """Each kind in turn."""
    return kinds[request.param]


@pytest.fixture(scope="session")
def images(kinds: dict[str, Numbered]) -> Numbered:
    """Images."""
    return kinds["image"]


@pytest.fixture(scope="session")
def numbers(kinds: dict[str, Numbered]) -> Numbered:
    """Small records."""
    return kinds["number"]


@pytest.fixture(scope="session")
def texts(kinds: dict[str, Numbered]) -> Numbered:
    """Records of many lengths."""
    return kinds["text"]


@pytest.fixture(scope="session")
def baselines() -> Callable[[Numbered], list[tuple[bytes, tuple[int, ...], bytes]]]:
    """Returns the first 28 training batches (4 epochs) with augmentation, computed once per kind."""
    found: dict[int, list[tuple[bytes, tuple[int, ...], bytes]]] = {}

    def baseline(records: Numbered) -> list[tuple[bytes, tuple[int, ...], bytes]]:
        if id(records) not in found:
            found[id(records)] = records.content(records.reader(augment=True).training(records.files), 28)
        return found[id(records)]

    return baseline


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Sequence[int]], RecordFile]:
    """Writes a shard of some records."""
    return lambda kind, numbers: write_shard(tmp_path / f"own-{kind}", kind, numbers)
