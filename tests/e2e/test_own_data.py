"""A user's own data by flags alone: other names, other types, other shapes, and no file of ours edited.

Each set can be learned in an epoch or three, so what is tested is the way and not the patience.
"""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

KINDS = ("oak", "beech", "ash", "elm", "fir")
TOPICS = {
    "cook": ("stir", "fry", "pan", "salt", "oven", "bake"),
    "sail": ("wind", "mast", "harbour", "rope", "deck", "anchor"),
    "ride": ("pedal", "wheel", "chain", "saddle", "brake", "road"),
}


def write_trees(home: Path, random: np.random.Generator) -> Path:
    """Writes 20,000 rows of a table with five classes, codes, dates and gaps."""
    kinds = random.integers(5, size=20_000)
    girths = random.normal(20 + 15 * kinds, 4).round(2)
    gaps = random.random((20_000, 2)) < 0.02
    with (home / "trees.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["stand", "girth (cm)", "Höhe", "soil.type", "planted", "evergreen?", "species"])
        for row, (kind, girth, gap) in enumerate(zip(kinds, girths, gaps, strict=True)):
            soil = "" if gap[1] else ("clay", "sand", "loam")[(kind + row) % 3]
            day = str(np.datetime64("2001-01-01") + row % 5000)
            cells = ["" if gap[0] else girth, 10 + kind + row % 3, soil, day, "yes" if kind == 4 else "no", KINDS[kind]]
            writer.writerow([f"S{row % 40:03d}", *cells])
    return home / "trees.csv"


def write_notes(home: Path, random: np.random.Generator) -> Path:
    """Writes texts among other columns, as lines of JSON."""
    with (home / "notes.jsonl").open("w") as file:
        for row in range(600):
            topic = list(TOPICS)[row % 3]
            words = random.choice([*TOPICS[topic], "the", "and", "then"], random.integers(4, 30))
            said = " ".join([*words, str(row)])
            file.write(json.dumps({"author": f"a{row % 7}", "said": said, "topic": topic}) + "\n")
    return home / "notes.jsonl"


def write_waves(home: Path, random: np.random.Generator) -> Path:
    """Writes arrays of doubles and a quantity that is to be learned from them."""
    waves = random.normal(size=(1500, 3, 20))
    np.savez(home / "waves.npz", signal=waves, strength=(5 * waves[:, 0].mean(axis=1) + 3).astype(np.float32))
    return home / "waves.npz"


def write_flowers(home: Path, random: np.random.Generator) -> Path:
    """Writes a Parquet table; its label is a whole number."""
    kinds = random.integers(3, size=1500)
    columns = {
        "long": random.normal(4 * kinds, 1),
        "wide": pa.array(random.normal(size=1500), pa.float32()),
        "site": [("north", "south")[row % 2] for row in range(1500)],
        "wild": [bool(row % 3) for row in range(1500)],
        "variety": kinds,
    }
    pq.write_table(pa.table(columns), home / "flowers.parquet")
    return home / "flowers.parquet"


def write_items(home: Path, random: np.random.Generator) -> Path:
    """Writes images, captions and prices; what is right depends on image and caption together."""
    (home / "items" / "photos").mkdir(parents=True)
    with (home / "items" / "items.jsonl").open("w") as file:
        for row in range(400):
            light, told = row % 2, row // 2 % 2
            pixels = random.normal((60, 190)[light], 20, (24, 24, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(home / "items" / "photos" / f"{row}.jpg")
            caption = f"a {('dark', 'light')[told]} thing, number {row}"
            price = round(float(random.normal(10)), 2)
            told_right = ("no", "yes")[int(light == told)]
            file.write(
                json.dumps({"photo": f"photos/{row}.jpg", "caption": caption, "price": price, "fits": told_right})
                + "\n"
            )
    return home / "items" / "items.jsonl"


# Task, who writes the data, what the user says, and what the pushed model then takes and gives.
OWN: dict[str, tuple[str, Callable[..., Path], tuple[str, ...], set[str], set[str]]] = {
    "csv": (
        "tabular", write_trees, ("--label", "species", "--set", "train.epochs=1", "--set", "input.batch_size=256"),
        {"stand", "girth__cm_", "H_he", "soil_type", "planted", "evergreen_"}, set(KINDS),
    ),
    "jsonl": (
        "text", write_notes, ("--set", "ingest.text=said", "--label", "topic", "--set", "train.epochs=3"),
        {"said"}, set(TOPICS),
    ),
    "npz": (
        "tensor", write_waves, ("--label", "strength", "--set", "train.epochs=3"),
        {"signal"}, set(),
    ),
    "parquet": (
        "tabular", write_flowers, ("--label", "variety", "--set", "train.epochs=3"),
        {"long", "wide", "site", "wild"}, {"0", "1", "2"},
    ),
    "mixed jsonl": (
        "multimodal", write_items, ("--label", "fits", "--set", "train.epochs=3"),
        {"image", "caption", "price"}, {"yes", "no"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any, run_all: Callable[..., dict[str, Any]]
) -> dict[str, tuple[Any, Any]]:
    """A run on each, and what it said."""
    home, random = tmp_path_factory.mktemp("own"), np.random.default_rng(5)
    pipelines = {
        name: make_pipeline(write(home, random), home / f"root {name}", task=task)
        for name, (task, write, *_) in OWN.items()
    }
    results = run_all(pipelines, {name: flags for name, (_, _, flags, _, _) in OWN.items()})
    return {name: (pipeline, results[name]) for name, pipeline in pipelines.items()}


@pytest.mark.parametrize("name", OWN)
def test_it_ends_with_a_pushed_model(finished: dict[str, tuple[Any, Any]], name: str) -> None:
    """With exit code 0, and the bars that are set by default."""
    _, result = finished[name]

    assert result.code == 0, result.said
    assert "blessed and pushed as version 1" in result.said


@pytest.mark.parametrize("name", OWN)
def test_the_model_speaks_the_users_words(finished: dict[str, tuple[Any, Any]], name: str) -> None:
    """Columns and classes are called as they were, as far as a signature can; what is no feature is not asked for."""
    import tensorflow as tf

    pipeline, _ = finished[name]
    _, _, _, columns, classes = OWN[name]
    raw = tf.saved_model.load(str(pipeline.root / "serving" / "1")).signatures["raw"]

    assert raw.structured_input_signature[1].keys() == columns
    if classes:
        assert set(pipeline.newest("Transform").facts["classes"]) == classes
        assert raw.structured_outputs.keys() == {"label", "all_classes", "probabilities"}
    else:
        assert raw.structured_outputs.keys() == {"value"}


def test_the_schema_is_left_where_the_user_can_curate_it(finished: dict[str, tuple[Any, Any]]) -> None:
    """And the run says so."""
    pipeline, result = finished["csv"]

    assert str(pipeline.root / "schema.pbtxt") in result.said
    assert 'tag: "date"' in (pipeline.root / "schema.pbtxt").read_text()
