"""A run with three classes, four epochs and one quarantined file; helpers to read SVG."""

import xml.etree.ElementTree as ET
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from components.records.ledger import Entry
from components.records.quarantine import Quarantined
from pipelines.orchestration.outcome import NodeFacts
from pipelines.report import page
from pipelines.report.facts import RunFacts, SampleImage, Threshold, TrainingFacts

EVIL = "<script>alert(1)</script>"


def draw(macro: str, *arguments: Any) -> str:
    """Draws with a macro of charts.html.j2."""
    template = page._environment().get_template("charts.html.j2")
    return str(getattr(template.module, macro)(*arguments))


def parse(svg: str) -> ET.Element:
    """Parses a chart; fails if it is not well formed."""
    return ET.fromstring(svg)  # noqa: S314 - our own output


def texts(chart: ET.Element) -> list[str]:
    """Returns the visible texts of a chart, without tooltips."""
    return [
        "".join(part for part in (text.text, *(child.tail for child in text)) if part) for text in chart.iter("text")
    ]


def encode(kind: str, side: int = 8) -> bytes:
    """Returns a grey image in the given format."""
    buffer = BytesIO()
    Image.new("L", (side, side), 128).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def facts() -> RunFacts:
    """A successful run with something to show in every section."""
    return RunFacts(
        pipeline="digits",
        task="image",
        started="2025-11-14T09:26:53Z",
        seconds=78.4,
        outcome="blessed and pushed as version 3",
        exit_code=0,
        nodes=(
            NodeFacts("Ingest", "ran", 6.42, "first run", 90),
            NodeFacts("Schema", "cached", 0.02, "up to date"),
            NodeFacts("Trainer", "ran", 31.9, "upstream Ingest changed", 60, 860.4, "3 texts cut"),
        ),
        ledger=(Entry("Ingest", 91, 90, 1), Entry("Trainer", 60, 60, 0)),
        quarantined=(Quarantined("data/2/scan.jpg", "truncated JPEG"),),
        quarantine_path="runs/ingest/5/quarantine.jsonl",
        warnings=("2 files have the same content but different labels",),
        records={"train": 60, "eval": 30},
        class_counts={"train": {"0": 20, "1": 21, "2": 19}, "eval": {"0": 10, "1": 9, "2": 11}},
        samples=(SampleImage("0", encode("PNG")), SampleImage("1", encode("JPEG"))),
        curves={"loss": {"train": (2.0, 1.0, 0.5, 0.25), "eval": (1.8, 0.9, 0.6, 0.7)}},
        best_epoch=2,
        samples_per_second=860.4,
        training=TrainingFacts(
            samples_per_second=(700.0, 800.0, 850.0, 900.0),
            waiting=(0.4, 0.3, 0.2, 0.1),
            learning_rate=(0.003, 0.002, 0.001, 0.0),
            details=(("batch size", "32, chosen from the data"), ("resumed", "at epoch 3, step 118")),
        ),
        metrics={"accuracy": 0.9, "macro_f1": 0.89},
        thresholds=(Threshold("accuracy", 0.9, "at least 0.6", True),),
        slices=(("length", "long", 0.8, 5), ("length", "short", 1.0, 25)),
        classes=("0", "1", "2"),
        confusion=((10, 0, 0), (0, 8, 1), (0, 2, 9)),
        blessed=True,
        model_path="serving/digits/3",
        model_version="3",
        live_version=4,
    )
