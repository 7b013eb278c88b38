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

TOPICS = {
    "cook": ("stir", "fry", "pan", "salt", "oven", "bake"),
    "sail": ("wind", "mast", "harbour", "rope", "deck", "anchor"),
    "ride": ("pedal", "wheel", "chain", "saddle", "brake", "road"),
}


def write_news(home: Path, random: np.random.Generator) -> Path:
    """Writes a CSV file without a header: class, title and description, every cell quoted."""
    with (home / "news.csv").open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        for row in range(900):
            topic = row % 3
            words = [*list(TOPICS.values())[topic], "the", "and", "then"]
            title, text = (" ".join(random.choice(words, length)) for length in (3, 12))
            writer.writerow([topic + 1, f"{title.capitalize()}, no. {row}", f'"{text}" (AP)'])
    return home / "news.csv"


def write_taxi_trips(home: Path, random: np.random.Generator) -> Path:
    """Writes 3,000 trips with gaps and dates; 20 of them have no payment type, which is the label."""
    with (home / "trips.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Trip Start", "miles", "fare", "tips", "pickup.area", "company", "payment_type"])
        for row in range(3_000):
            card, miles = row % 2, round(float(random.gamma(2, 2)), 1)
            tip = round(float(random.normal(3, 0.5)), 2) if card else 0
            area, company = random.choice(["", "8.0", "32.0"]), random.choice(["", "Blue", "Flash Cab", "Höhn & Co"])
            payment = "" if row % 150 == 7 else ("Cash", "Credit Card")[card]
            start = np.datetime64("2026-03-01T00:00:00") + 977 * row
            writer.writerow([start, "" if row % 40 == 3 else miles, 3 + 2 * miles, tip, area, company, payment])
    return home / "trips.csv"


def write_houses(home: Path, random: np.random.Generator) -> Path:
    """Writes a table of houses with gaps; the label is a price."""
    income, rooms = random.gamma(4, 1, 2_000), random.integers(200, 6_000, 2_000)
    shore = random.choice(["INLAND", "NEAR BAY", "<1H OCEAN"], 2_000)
    price = 40_000 * income + 60_000 * (shore != "INLAND") + random.normal(0, 8_000, 2_000) + 50_000
    columns = {
        "longitude": random.uniform(-124, -114, 2_000).round(2),
        "median_income": income.round(4),
        "total_rooms": rooms,
        "total_bedrooms": pa.array([None if row % 90 == 5 else int(n) // 5 for row, n in enumerate(rooms)]),
        "ocean_proximity": shore,
        "median_house_value": price.round(),
    }
    pq.write_table(pa.table(columns), home / "houses.parquet")
    return home / "houses.parquet"


def write_many_classes(home: Path, random: np.random.Generator) -> Path:
    """Writes 1,000 classes of images: 5 of 150 images, and 995 of two or three."""
    for kind in range(1_000):
        folder = home / "things" / f"thing {kind:03d}"
        folder.mkdir(parents=True)
        colour = random.integers(256, size=3)
        for image in range(150 if kind < 5 else 2 + kind % 2):
            pixels = random.normal(colour, 6, (12, 12, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{image}.png")
    return home / "things"


def write_reviews(home: Path, random: np.random.Generator) -> Path:
    """Writes texts as JSON lines in which any value may be null or missing, the label too."""
    with (home / "reviews.jsonl").open("w") as file:
        for row in range(900):
            topic = list(TOPICS)[row % 3]
            words = random.choice([*TOPICS[topic], "the", "and", "then"], random.integers(4, 30))
            review: dict[str, str | None] = {
                "author": f"a{row % 7}",
                "note": " ".join([*words, str(row)]),
                "topic": topic,
            }
            if row % 200 == 11:
                review["topic"] = None
            if row % 90 == 4:
                review["author"] = None
            if row % 90 == 5:
                del review["author"]
            file.write(json.dumps(review) + "\n")
    return home / "reviews.jsonl"


def write_waves(home: Path, random: np.random.Generator) -> Path:
    """Writes arrays of doubles and a number to predict from them."""
    waves = random.normal(size=(1500, 3, 20))
    np.savez(home / "waves.npz", signal=waves, strength=(5 * waves[:, 0].mean(axis=1) + 3).astype(np.float32))
    return home / "waves.npz"


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
    unlabelled: int  # records without a label, which are quarantined


DATA_SETS = {
    "csv without a header": DataSet(
        "text", write_news,
        ("--label", "column_1", "--set", "ingest.text=column_2,column_3", "--set", "train.epochs=3"),
        {"column_2_column_3"}, {"1", "2", "3"}, 0,
    ),
    "csv with gaps and dates": DataSet(
        "tabular", write_taxi_trips, ("--label", "payment_type", "--set", "train.epochs=2"),
        {"Trip_Start", "miles", "fare", "tips", "pickup_area", "company"}, {"Cash", "Credit Card"}, 20,
    ),
    "parquet, regression": DataSet(
        "tabular", write_houses, ("--label", "median_house_value", "--set", "train.epochs=6"),
        {"longitude", "median_income", "total_rooms", "total_bedrooms", "ocean_proximity"}, set(), 0,
    ),
    "images of 1,000 classes": DataSet(
        "image", write_many_classes,
        ("--set", "ingest.splits.stratify=true", "--set", "gate.min_per_class=0", "--set", "train.epochs=3"),
        {"image"}, {f"thing {kind:03d}" for kind in range(1_000)}, 0,
    ),
    "jsonl with nulls": DataSet(
        "text", write_reviews,
        ("--set", "ingest.text=note", "--label", "topic", "--set", "train.epochs=3", "--set", "input.max_tokens=20"),
        {"note"}, set(TOPICS), 5,
    ),
    "npz": DataSet(
        "tensor", write_waves, ("--label", "strength", "--set", "train.epochs=3"),
        {"signal"}, set(), 0,
    ),
    "jsonl with images": DataSet(
        "multimodal", write_items, ("--label", "fits", "--set", "train.epochs=3"),
        {"image", "caption", "price"}, {"yes", "no"}, 0,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class FirstRun:
    """A first run on a data set, and its result."""

    data_set: DataSet
    pipeline: Any
    result: Any


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.all) for name in DATA_SETS])
def first_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any) -> FirstRun:
    """A first run on each data set."""
    home, data_set = tmp_path_factory.mktemp("own"), DATA_SETS[request.param]
    data = data_set.write(home, np.random.default_rng(5))
    pipeline = make_pipeline(data, home / f"root {request.param}", task=data_set.task)
    return FirstRun(data_set, pipeline, pipeline.run(*data_set.flags))


@pytest.fixture(scope="module")
def fitted_reviews(tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any) -> FirstRun:
    """A first run on the texts with nulls, up to Transform."""
    home, data_set = tmp_path_factory.mktemp("own"), DATA_SETS["jsonl with nulls"]
    data = data_set.write(home, np.random.default_rng(5))
    pipeline = make_pipeline(data, home / "root", task=data_set.task)
    return FirstRun(data_set, pipeline, pipeline.run(*data_set.flags, "--to", "Transform"))


def test_run_ends_with_a_pushed_model(first_run: FirstRun) -> None:
    """The exit code is 0, with the default metric thresholds."""
    assert first_run.result.code == 0, first_run.result.output
    assert "blessed and pushed as version 1" in first_run.result.output


def test_no_other_record_is_quarantined(first_run: FirstRun) -> None:
    """Than those without a label."""
    assert_unlabelled(first_run)


def test_records_without_a_label_are_quarantined(fitted_reviews: FirstRun) -> None:
    """A17: with their line and the reason; no other record is."""
    assert fitted_reviews.result.code == 0, fitted_reviews.result.output
    assert_unlabelled(fitted_reviews)


def assert_unlabelled(first_run: FirstRun) -> None:
    """Compares the quarantine with the records that have no label."""
    listed = (first_run.pipeline.root / "quarantine.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in listed]

    assert len({(entry["path"], entry["position"]) for entry in found}) == first_run.data_set.unlabelled
    assert {entry["reason"] for entry in found} <= {"no label"}


def test_a_csv_file_without_a_header_is_noticed(tmp_path: Path, make_pipeline: Any) -> None:
    """A17: the run says how it read the first line."""
    data_set = DATA_SETS["csv without a header"]
    data = data_set.write(tmp_path, np.random.default_rng(5))
    result = make_pipeline(data, tmp_path / "root", task=data_set.task).run(*data_set.flags, "--to", "Ingest")

    assert result.code == 0, result.output
    assert "first line of news.csv read as data: '1' is a number" in result.output


def test_model_uses_the_names_of_the_data(first_run: FirstRun) -> None:
    """Inputs and classes have the data's names, as far as a signature allows; other columns are not inputs."""
    import tensorflow as tf

    pipeline, expected = first_run.pipeline, first_run.data_set
    raw = tf.saved_model.load(str(pipeline.root / "serving" / "1")).signatures["raw"]
    outputs = {"label", "all_classes", "probabilities"} if expected.classes else {"value"}

    assert raw.structured_input_signature[1].keys() == expected.inputs
    assert raw.structured_outputs.keys() == outputs
    assert set(pipeline.newest("Transform").facts.get("classes", ())) == expected.classes


@pytest.mark.all
@pytest.mark.parametrize("first_run", ["csv with gaps and dates"], indirect=True)
def test_inferred_schema_is_a_file_that_the_user_can_edit(first_run: FirstRun) -> None:
    """The run prints its path."""
    schema = first_run.pipeline.root / "schema.pbtxt"

    assert str(schema) in first_run.result.output
    assert 'tag: "date"' in schema.read_text()


def test_truncated_texts_are_shown(fitted_reviews: FirstRun) -> None:
    """A11: counted per split, in the line of Transform, the summary and the report."""
    note = r"\d+ texts cut to input\.max_tokens = 20 \(train \d+, eval \d+, test \d+\)"

    assert re.search(rf"^✓ Transform .*; {note}$", fitted_reviews.result.output, re.MULTILINE)
    assert re.search(rf"^  warning +{note}$", fitted_reviews.result.output, re.MULTILINE)
    assert re.search(note, (fitted_reviews.pipeline.root / "report.html").read_text())
