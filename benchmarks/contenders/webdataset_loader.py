"""webdataset on tar archives with two workers; runs in the environment of `benchmarks/locks/torch.txt`."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import webdataset as wds  # type: ignore[import-not-found,unused-ignore]

from benchmarks.contenders import BenchData, simplejpeg_ops

_WORKERS = 2


def image_full(stored: BenchData, batch: int) -> Iterable[Any]:
    """Decode, resize, flip."""
    return _images(stored, batch, simplejpeg_ops.full)


def image_crop(stored: BenchData, batch: int) -> Iterable[Any]:
    """Random resized crop, flip."""
    return _images(stored, batch, simplejpeg_ops.crop)


def _images(stored: BenchData, batch: int, work: Callable[[bytes, Any], Any]) -> Iterable[Any]:
    tars = sorted(str(path) for path in (stored.raw / "tars").glob("*.tar"))
    dataset = wds.WebDataset(tars, resampled=True, shardshuffle=False)  # resampled: shards drawn at random, no end
    dataset = dataset.shuffle(1000)
    dataset = dataset.to_tuple("jpg", "cls")
    dataset = dataset.map_tuple(lambda content: work(content, random), int)
    dataset = dataset.batched(batch)
    return wds.WebLoader(dataset, batch_size=None, num_workers=_WORKERS, prefetch_factor=4, persistent_workers=True)
