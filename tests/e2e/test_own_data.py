"""A user's own data, described by flags alone: other names, other types and other shapes than the samples.

Each data set can be learned in one to three epochs: the tests are about the way from raw data to a pushed model.
"""

import csv
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
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
    """Writes 4,000 rows of a table with five classes, codes, dates and missing values."""
    kinds = random.integers(5, size=4_000)
    girths = random.normal(20 + 15 * kinds, 4).round(2)
    gaps = random.random((4_000, 2)) < 0.02
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
    """Writes texts and other columns as JSON lines."""
    with (home / "notes.jsonl").open("w") as file:
        for row in range(600):
            topic = list(TOPICS)[row % 3]
            words = random.choice([*TOPICS[topic], "the", "and", "then"], random.integers(4, 30))
            note = " ".join([*words, str(row)])
            file.write(json.dumps({"author": f"a{row % 7}", "note": note, "topic": topic}) + "\n")
    return home / "notes.jsonl"


def write_waves(home: Path, random: np.random.Generator) -> Path:
    """Writes arrays of doubles and a number to predict from them."""
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
    """Writes images, captions and prices; the label depends on image and caption together."""
    (home / "items" / "photos").mkdir(parents=True)
    with (home / "items" / "items.jsonl").open("w") as file:
        for row in range(400):
            light, claimed = row % 2, row // 2 % 2
            pixels = random.normal((60, 190)[light], 20, (24, 24, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(home / "items" / "photos" / f"{row}.jpg")
            item = {
                "photo": f"photos/{row}.jpg",
                "caption": f"a {('dark', 'light')[claimed]} thing, number {row}",
                "price": round(float(random.normal(10)), 2),
                "fits": ("no", "yes")[int(light == claimed)],
            }
            file.write(json.dumps(item) + "\n")
    return home / "items" / "items.jsonl"


@dataclass(frozen=True)
class DataSet:
    """Data of a user: how it is written and described, and what the pushed model takes and returns."""

    task: str
    write: Callable[[Path, np.random.Generator], Path]
    flags: tuple[str, ...]
    inputs: set[str]
    classes: set[str]  # none if the label is a number


DATA_SETS = {
    "csv": DataSet(
        "tabular", write_trees, ("--label", "species", "--set", "train.epochs=3"),
        {"stand", "girth__cm_", "H_he", "soil_type", "planted", "evergreen_"}, set(KINDS),
    ),
    "jsonl": DataSet(
        "text", write_notes,
        ("--set", "ingest.text=note", "--label", "topic", "--set", "train.epochs=3", "--set", "input.max_tokens=20"),
        {"note"}, set(TOPICS),
    ),
    "npz": DataSet(
        "tensor", write_waves, ("--label", "strength", "--set", "train.epochs=3"),
        {"signal"}, set(),
    ),
    "parquet": DataSet(
        "tabular", write_flowers, ("--label", "variety", "--set", "train.epochs=3"),
        {"long", "wide", "site", "wild"}, {"0", "1", "2"},
    ),
    "mixed jsonl": DataSet(
        "multimodal", write_items, ("--label", "fits", "--set", "train.epochs=3"),
        {"image", "caption", "price"}, {"yes", "no"},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class FirstRun:
    """A first run on a data set, and its result."""

    data_set: DataSet
    pipeline: Any
    result: Any


@pytest.fixture(scope="module", params=DATA_SETS)
def first_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any) -> FirstRun:
    """A first run on each data set."""
    home, data_set = tmp_path_factory.mktemp("own"), DATA_SETS[request.param]
    data = data_set.write(home, np.random.default_rng(5))
    pipeline = make_pipeline(data, home / f"root {request.param}", task=data_set.task)
    return FirstRun(data_set, pipeline, pipeline.run(*data_set.flags))


def test_run_ends_with_a_pushed_model(first_run: FirstRun) -> None:
    """The exit code is 0, with the default metric thresholds."""
    assert first_run.result.code == 0, first_run.result.output
    assert "blessed and pushed as version 1" in first_run.result.output


def test_model_uses_the_names_of_the_data(first_run: FirstRun) -> None:
    """Inputs and classes have the data's names, as far as a signature allows; other columns are not inputs."""
    import tensorflow as tf

    pipeline, expected = first_run.pipeline, first_run.data_set
    raw = tf.saved_model.load(str(pipeline.root / "serving" / "1")).signatures["raw"]
    outputs = {"label", "all_classes", "probabilities"} if expected.classes else {"value"}

    assert raw.structured_input_signature[1].keys() == expected.inputs
    assert raw.structured_outputs.keys() == outputs
    assert set(pipeline.newest("Transform").facts.get("classes", ())) == expected.classes


@pytest.mark.parametrize("first_run", ["csv"], indirect=True)
def test_inferred_schema_is_a_file_that_the_user_can_edit(first_run: FirstRun) -> None:
    """The run prints its path."""
    schema = first_run.pipeline.root / "schema.pbtxt"

    assert str(schema) in first_run.result.output
    assert 'tag: "date"' in schema.read_text()


@pytest.mark.parametrize("first_run", ["jsonl"], indirect=True)
def test_truncated_texts_are_shown(first_run: FirstRun) -> None:
    """A11: counted per split, in the line of Transform, the summary and the report."""
    note = r"\d+ texts cut to input\.max_tokens = 20 \(train \d+, eval \d+, test \d+\)"

    assert re.search(rf"^✓ Transform .*; {note}$", first_run.result.output, re.MULTILINE)
    assert re.search(rf"^  warning +{note}$", first_run.result.output, re.MULTILINE)
    assert re.search(note, (first_run.pipeline.root / "report.html").read_text())
