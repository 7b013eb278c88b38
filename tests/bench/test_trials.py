"""Trials in a process of their own."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from components.errors import BadInput, PenstockError
from components.settings.ingest import Ingest
from components.settings.input import Input
from pipelines.bench import trials
from pipelines.bench.child import turns
from pipelines.bench.trials import Figures, Order

SETTINGS = Input(batch_size=8, image_size=32)


def figures(rate: float) -> Figures:
    """Figures of a round."""
    return Figures(rate, 1e6 / rate, 0.0, 0.5, 0.01, 0.02, 700.0)


def test_an_order_travels_as_text() -> None:
    """What a child reads is what the parent meant."""
    order = Order("image", 3, (trials.trial("stored", Path("/a"), SETTINGS, Ingest(store="raw")),), device_rate=9)
    text = json.dumps(asdict(order))

    assert trials.order_of(text) == order


def test_medians_are_taken_figure_by_figure() -> None:
    """Over the rounds."""
    assert trials.median([figures(rate) for rate in (100, 400, 200)]) == figures(200)


def test_every_round_begins_with_another() -> None:
    """So that none is always the first."""
    assert [turns(3, number) for number in range(4)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


@pytest.mark.slow
def test_a_child_measures(artifact: Path) -> None:
    """Training, the tutorial way and images stored smaller, with what is known of the records."""
    tries = [trials.trial(kind, artifact, SETTINGS) for kind in ("training", "tutorial", "decode")]
    tries.append(trials.trial("stored", artifact, SETTINGS, Ingest(store="jpeg", store_side=64)))
    order = Order("image", 3, tuple(tries), rounds=2, warm_up=0.01, seconds=0.05, device_share=0.9)
    found = trials.run(order)

    assert (found.facts.records, found.facts.images) == (40, "image")
    assert [len(rounds) for rounds in found.trials] == [2] * 4
    assert all(each.rate > 0 and each.cpu_us > 0 and each.peak_mb > 100 for rounds in found.trials for each in rounds)
    assert all(0 < each.utilisation <= 1 for rounds in found.trials for each in rounds)


@pytest.mark.slow
def test_a_damaged_shard_is_said(artifact: Path, tmp_path: Path) -> None:
    """The parent gets the child's reason, and no traceback."""
    broken = tmp_path / "broken"
    shutil.copytree(artifact, broken)
    shard = next((broken / "Split-train").iterdir())
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    order = Order("image", 3, (trials.trial("training", broken, SETTINGS),), warm_up=0.5, seconds=0.5)

    with pytest.raises(BadInput, match="corrupted record"):
        trials.run(order)


@pytest.mark.slow
def test_a_child_that_dies_is_said(artifact: Path) -> None:
    """With the end of what it said."""
    order = Order("image", 3, (trials.Trial("training", str(artifact), {"batch_size": "none"}),))

    with pytest.raises(PenstockError, match=r"a process that measures died:\n(.|\n)*batch_size"):
        trials.run(order)
