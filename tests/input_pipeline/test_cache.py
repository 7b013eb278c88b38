"""A cache holds decoded records: every epoch has its own order and its own variations, and nothing is decoded twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import SettingsError
from components.input_pipeline import Position

KINDS = ("memory", "file")


@pytest.mark.parametrize("cache", KINDS)
def test_every_record_is_there_once_an_epoch_in_another_order(world: Any, cache: str) -> None:
    """In the epoch that fills the cache, and in those that are read from it."""
    seen = world.epochs(world.reader(cache=cache).training(world.files), 3)

    assert [sorted(each) for each in seen] == [list(range(97))] * 3
    assert len({tuple(each) for each in seen}) == 3


@pytest.mark.parametrize("cache", KINDS)
def test_records_are_those_without_a_cache(world: Any, cache: str) -> None:
    """The same values under the same labels."""
    kept = world.values(world.reader(cache=cache, batch_size=1).training(world.files), 97)
    plain = world.values(world.reader(batch_size=1).training(world.files), 97)

    assert {n: np.trim_zeros(np.ravel(v)).tolist() for n, v in kept.items()} == {
        n: np.trim_zeros(np.ravel(v)).tolist() for n, v in plain.items()
    }


@pytest.mark.parametrize("cache", KINDS)
def test_variations_come_after_it(images: Any, cache: str) -> None:
    """They are those that records have without a cache, and others in every epoch."""
    data = images.reader(cache=cache, augment=True).training(images.files)
    first, second = images.values(data), images.values(data.skip(7))
    plain = images.values(images.reader(augment=True).training(images.files))

    assert all((first[n] == plain[n]).all() for n in range(97))
    assert sum((first[n] != second[n]).any() for n in range(97)) > 87


@pytest.mark.parametrize("cache", KINDS)
def test_after_the_first_epoch_the_shards_are_not_needed(images: Any, write: Any, cache: str) -> None:
    """They may even be gone."""
    shard = write("image", range(32))
    batches = images.reader(cache=cache).training([shard]).as_numpy_iterator()
    first = [int(n) for _ in range(2) for n in next(batches)[1]]
    next(batches)  # the second epoch has begun
    shard.path.unlink()
    rest = [int(n) for _ in range(5) for n in next(batches)[1]]

    assert sorted(first) == list(range(32))
    assert len(rest) == 80


@pytest.mark.parametrize("cache", KINDS)
def test_a_position_is_found_again(numbers: Any, cache: str) -> None:
    """The batches after it are those of a run that was never stopped."""
    reader = numbers.reader(cache=cache)
    whole = numbers.content(reader.training(numbers.files), 14)

    assert numbers.content(reader.training(numbers.files, Position(1, 3)), 4) == whole[10:14]


def test_a_cache_in_a_file_is_gone_with_its_data_set(numbers: Any, tmp_path: Path) -> None:
    """Nothing is left in the folder that was named."""
    data = numbers.reader(cache="file", cache_directory=str(tmp_path)).training(numbers.files)
    numbers.epochs(data, 2)
    assert list(tmp_path.iterdir())
    del data

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused(numbers: Any, tmp_path: Path) -> None:
    """By name."""
    with pytest.raises(SettingsError, match=r"input\.cache_directory .*/none: no such folder"):
        numbers.reader(cache="file", cache_directory=str(tmp_path / "none")).training(numbers.files)


def test_a_disk_without_room_is_refused(images: Any, tiny_disk: Path) -> None:
    """With what would be needed, before anything is written."""
    with pytest.raises(SettingsError, match=r"decoded records take \d+ MB, .* has 0 MB left"):
        images.reader(cache="file", cache_directory=str(tiny_disk)).training(images.files)

    assert list(tiny_disk.iterdir()) == []


def test_evaluation_is_not_kept(images: Any) -> None:
    """It is read in stored order, and needs no budget for a cache."""
    reader = images.reader(cache="memory", ram_mb=16)

    assert images.epochs(reader.evaluation(images.files), 1) == [list(range(97))]
    assert isinstance(reader.evaluation(images.files), tf.data.Dataset)
