"""grain, with threads and with two worker processes; runs in the environment of `benchmarks/locks/grain.txt`."""

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import grain  # type: ignore[import-not-found,unused-ignore]
import numpy as np

from benchmarks.contenders import BenchData, simplejpeg_ops

_CORES = 2


def image_full_threads(stored: BenchData, batch: int) -> Iterable[Any]:
    """Decode, resize, flip."""
    return _images(stored, simplejpeg_ops.full).batch(batch)


def image_full_workers(stored: BenchData, batch: int) -> Iterable[Any]:
    """Decode, resize, flip."""
    return _in_workers(_images(stored, simplejpeg_ops.full).batch(batch))


def image_crop_threads(stored: BenchData, batch: int) -> Iterable[Any]:
    """Random resized crop, flip."""
    return _images(stored, simplejpeg_ops.crop).batch(batch)


def image_crop_workers(stored: BenchData, batch: int) -> Iterable[Any]:
    """Random resized crop, flip."""
    return _in_workers(_images(stored, simplejpeg_ops.crop).batch(batch))


def text(stored: BenchData, batch: int) -> Iterable[Any]:
    """Texts padded to the longest of a batch; the order of records is shuffled."""
    numbers = {word: number for number, word in enumerate((stored.raw / "words.list").read_text().split(), 2)}
    rows = [json.loads(line) for line in (stored.raw / "texts.jsonl").read_text().splitlines()]

    def work(row: dict[str, Any]) -> tuple[Any, int]:
        return np.array([numbers.get(word, 1) for word in row["text"].split()]), row["label"]

    dataset = grain.MapDataset.stored(rows).seed(1).shuffle().repeat().map(work)
    return _in_workers(dataset.to_iter_dataset().batch(batch, batch_fn=_pad))


def _images(stored: BenchData, work: Callable[[bytes, Any], Any]) -> Any:
    files = sorted(str(path) for path in (stored.raw / "files").glob("*/*.jpg"))

    def load(path: str) -> tuple[Any, int]:
        with open(path, "rb") as file:  # noqa: PTH123 - as in the torch loader
            return work(file.read(), random), int(path.split("/")[-2][-1])

    dataset = grain.MapDataset.stored(files).seed(1).shuffle().repeat().map(load)
    return dataset.to_iter_dataset(grain.ReadOptions(num_threads=_CORES, prefetch_buffer_size=256))


def _in_workers(dataset: Any) -> Any:
    return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=_CORES, per_worker_buffer_size=4))


def _pad(rows: list[tuple[Any, int]]) -> tuple[Any, Any]:
    padded = np.zeros((len(rows), max(len(row[0]) for row in rows)), np.int64)
    for index, (ids, _) in enumerate(rows):
        padded[index, : len(ids)] = ids
    return padded, np.array([row[1] for row in rows])
