"""A cache holds decoded records; every epoch has its own order and augmentation, and nothing is decoded twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.errors import SettingsError
from components.input_pipeline import Position

pytestmark = pytest.mark.slow

KINDS = ("memory", "file")


@pytest.mark.parametrize("cache", KINDS)
@pytest.mark.parametrize("kind", ["number", "text"])
def test_cached_records_are_those_without_a_cache(kinds: Any, kind: str, cache: str) -> None:
    """In the epoch that fills the cache and in the next one: every record once, in another order, equal values."""
    records = kinds[kind]
    data = records.reader(cache=cache).training(records.files)
    batches = list(data.take(14).as_numpy_iterator())
    epochs = [[int(n) for _, labels in batches[start : start + 7] for n in labels] for start in (0, 7)]
    cached = {
        int(n): np.trim_zeros(np.ravel(v)).tolist() for b, ls in batches for n, v in zip(ls, b[kind], strict=True)
    }
    plain = records.values(records.reader().evaluation(records.files))

    assert [sorted(epoch) for epoch in epochs] == [list(range(97))] * 2
    assert epochs[0] != epochs[1]
    assert cached == {n: np.trim_zeros(np.ravel(value)).tolist() for n, value in plain.items()}


@pytest.mark.slow
@pytest.mark.parametrize("cache", KINDS)
def test_augmentation_comes_after_the_cache(images: Any, cache: str) -> None:
    """It equals that without a cache, and differs in every epoch."""
    data = images.reader(cache=cache, augment=True).training(images.files)
    first, second = images.values(data), images.values(data.skip(7))
    plain = images.values(images.reader(augment=True).training(images.files))

    assert all((first[n] == plain[n]).all() for n in range(97))
    assert sum((first[n] != second[n]).any() for n in range(97)) > 87


@pytest.mark.parametrize("cache", KINDS)
def test_after_the_first_epoch_the_shards_are_not_read(images: Any, write: Any, cache: str) -> None:
    """They may even be deleted."""
    shard = write("image", range(32))
    batches = images.reader(cache=cache).training([shard]).as_numpy_iterator()
    first = [int(n) for _ in range(2) for n in next(batches)[1]]
    next(batches)  # the second epoch has started
    shard.path.unlink()
    rest = [int(n) for _ in range(5) for n in next(batches)[1]]

    assert sorted(first) == list(range(32))
    assert len(rest) == 80


@pytest.mark.parametrize("cache", KINDS)
def test_training_resumes_at_a_position(numbers: Any, cache: str) -> None:
    """The batches after it are those of a run that was never stopped."""
    reader = numbers.reader(cache=cache)
    whole = numbers.content(reader.training(numbers.files), 14)

    assert numbers.content(reader.training(numbers.files, Position(1, 3)), 4) == whole[10:14]


def test_a_cache_file_is_deleted_with_its_dataset(numbers: Any, tmp_path: Path) -> None:
    """Nothing is left in the given folder."""
    data = numbers.reader(cache="file", cache_directory=str(tmp_path)).training(numbers.files)
    numbers.epochs(data, 2)
    assert list(tmp_path.iterdir())
    del data

    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_rejected(numbers: Any, tmp_path: Path) -> None:
    """By name."""
    with pytest.raises(SettingsError, match=r"input\.cache_directory .*/none: no such folder; create it"):
        numbers.reader(cache="file", cache_directory=str(tmp_path / "none")).training(numbers.files)


def test_a_full_disk_is_rejected(images: Any, tiny_disk: Path) -> None:
    """With the size that is needed, before anything is written."""
    with pytest.raises(SettingsError, match=r"decoded records need \d+ MB, .* has 0 MB free"):
        images.reader(cache="file", cache_directory=str(tiny_disk)).training(images.files)

    assert list(tiny_disk.iterdir()) == []


def test_evaluation_is_not_cached(images: Any) -> None:
    """It needs no budget for a cache."""
    reader = images.reader(cache="memory", ram_mb=16)

    assert images.epochs(reader.evaluation(images.files), 1) == [list(range(97))]
