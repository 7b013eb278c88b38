"""Distance and runs tell a good shuffle from none."""

from typing import Any

import numpy as np
import pytest

from components.input_pipeline import quality

MANY = 20_000
SORTED = np.arange(MANY) // (MANY // 10)  # ten classes, one after another


def test_stored_order_is_no_shuffle() -> None:
    """Nothing moved, and labels stand as they were sorted."""
    found = quality.measure(range(MANY), SORTED)

    assert found.distance == 0
    assert found.runs < 0.001


def test_a_perfect_shuffle_moves_a_third_and_mixes_labels() -> None:
    """By a permutation of all."""
    found = quality.measure(np.random.default_rng(1).permutation(MANY), SORTED)

    assert found.distance == pytest.approx(1 / 3, abs=0.01)
    assert found.runs == pytest.approx(1, abs=0.01)


def test_a_small_buffer_is_found_out() -> None:
    """A hundred records held of twenty thousand leave sorted labels together."""
    windows = np.random.default_rng(1).permuted(np.arange(MANY).reshape(-1, 100), axis=1).reshape(-1)
    found = quality.measure(windows, SORTED)

    assert found.distance < 0.01
    assert found.runs < 0.2


def test_one_class_is_one_run() -> None:
    """There is nothing to mix."""
    assert quality.measure([2, 0, 1], ["a", "a", "a"]).runs == 1


@pytest.mark.parametrize("kind", ["number", "image"])
def test_an_epoch_of_ours_is_well_shuffled(worlds: Any, kind: str) -> None:
    """With room for all records: as far as chance allows with ninety-seven of them."""
    world = worlds[kind]
    labels = np.arange(97) // 10
    seen = world.epochs(world.reader().training(world.files), 20)
    found = [quality.measure(each, labels) for each in seen]

    assert np.mean([each.distance for each in found]) == pytest.approx(1 / 3, abs=0.03)
    assert np.mean([each.runs for each in found]) == pytest.approx(1, abs=0.05)
