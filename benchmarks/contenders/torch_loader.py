"""torch's DataLoader with two workers, reading files; runs in the environment of `benchmarks/locks/torch.txt`."""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
from torch.utils.data import DataLoader, Dataset  # type: ignore[import-not-found,unused-ignore]

from benchmarks.contenders import BenchData, simplejpeg_ops

_WORKERS = 2
_POOL = 50  # batches sorted by length together


class Images(Dataset):  # type: ignore[misc,unused-ignore]
    """One file per sample."""

    def __init__(self, home: Path, work: Callable[[bytes, random.Random], Any]) -> None:
        """Lists the files."""
        self._files = sorted(str(path) for path in home.glob("*/*.jpg"))
        self._work = work

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        with open(self._files[index], "rb") as file:  # noqa: PTH123 - a Path costs as much as a small image's header
            content = file.read()
        return torch.from_numpy(self._work(content, random)), int(self._files[index].split("/")[-2][-1])  # type: ignore[arg-type]


class Texts(Dataset):  # type: ignore[misc,unused-ignore]
    """One line per sample, as word indices."""

    def __init__(self, raw: Path) -> None:
        """Reads all texts into memory."""
        self._numbers = {word: number for number, word in enumerate((raw / "words.list").read_text().split(), 2)}
        rows = [json.loads(line) for line in (raw / "texts.jsonl").read_text().splitlines()]
        self._texts = [row["text"] for row in rows]
        self._labels = [row["label"] for row in rows]
        self.lengths = np.array([text.count(" ") + 1 for text in self._texts])

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        number = self._numbers.get
        return torch.tensor([number(word, 1) for word in self._texts[index].split()]), self._labels[index]


class Bucketed:
    """Batches of texts of similar length: a shuffled pool, sorted, cut into batches, in random order."""

    def __init__(self, lengths: Any, batch: int) -> None:
        """Stores the lengths of the texts."""
        self._lengths, self._batch = lengths, batch

    def __len__(self) -> int:
        return len(self._lengths) // self._batch

    def __iter__(self) -> Iterator[list[int]]:
        order = np.random.default_rng().permutation(len(self._lengths))
        for start in range(0, len(order), self._batch * _POOL):
            pool = order[start : start + self._batch * _POOL]
            pool = pool[np.argsort(self._lengths[pool])]
            batches = [pool[at : at + self._batch].tolist() for at in range(0, len(pool), self._batch)]
            random.shuffle(batches)
            yield from batches


def image_full(stored: BenchData, batch: int) -> Iterable[Any]:
    """Decode, resize, flip."""
    return _endless(_images(stored, batch, simplejpeg_ops.full))


def image_crop(stored: BenchData, batch: int) -> Iterable[Any]:
    """Random resized crop, flip."""
    return _endless(_images(stored, batch, simplejpeg_ops.crop))


def text(stored: BenchData, batch: int) -> Iterable[Any]:
    """Texts bucketed by length."""
    texts = Texts(stored.raw)
    loader = DataLoader(
        texts,
        batch_sampler=Bucketed(texts.lengths, batch),
        num_workers=_WORKERS,
        collate_fn=_pad,
        prefetch_factor=4,
        persistent_workers=True,
    )
    return _endless(loader)


def _images(stored: BenchData, batch: int, work: Callable[[bytes, random.Random], Any]) -> Any:
    return DataLoader(
        Images(stored.raw / "files", work),
        batch_size=batch,
        shuffle=True,
        num_workers=_WORKERS,
        prefetch_factor=4,
        persistent_workers=True,
    )


def _pad(rows: list[tuple[Any, int]]) -> tuple[Any, Any]:
    ids = torch.nn.utils.rnn.pad_sequence([row[0] for row in rows], batch_first=True)
    return ids, torch.tensor([row[1] for row in rows])


def _endless(loader: Iterable[Any]) -> Iterator[Any]:
    while True:
        yield from loader
