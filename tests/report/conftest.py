"""A run with three classes, four epochs and one quarantined file; helpers to read SVG."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from components.records.ledger import Entry
from components.records.quarantine import Quarantined
from pipelines.orchestration.outcome import NodeFacts
from pipelines.report import page
from pipelines.report.facts import RunFacts, SampleImage, SliceFacts, Threshold, TrainingFacts
from pipelines.report.lineage import LineageStep
from tests.report.html_page import Page

EVIL = "<script>alert(1)</script>"


def plain(facts: RunFacts) -> str:
    """Returns the visible text with single spaces."""
    return " ".join(Page(page.render(facts)).text.split())


def draw(macro: str, *arguments: Any, template: str = "charts.html.j2") -> str:
    """Draws with a macro of a template."""
    return str(getattr(page.environment().get_template(template).module, macro)(*arguments))


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
        slices=(SliceFacts("length", "long", 0.8, 5), SliceFacts("length", "short", 1.0, 25)),
        classes=("0", "1", "2"),
        confusion=((10, 0, 0), (0, 8, 1), (0, 2, 9)),
        blessed=True,
        model_path="serving/digits/3",
        model_version="3",
        live_version=4,
    )


def measure(name: str, value: float, live: Any = (), new: Any = (), names: Any = (), **changes: Any) -> dict[str, Any]:
    """Returns a comparison of the Gate; its threshold is 0.2."""
    kind, column = name.split(":")
    return {
        "id": name, "kind": kind, "column": column, "value": value, "threshold": 0.2, "setting": "gate.limit",
        "detail": f"detail of {column}", "records": [], "open": value > 0.2,
        "distributions": {"names": names, "live": live, "new": new}, **changes,
    }  # fmt: skip


@pytest.fixture
def retrained(facts: RunFacts) -> RunFacts:
    """A retraining: a number and a category that moved, a baseline model, and a lineage."""
    measures = [
        measure("drift:age", 0.3, tuple(range(1, 10)), tuple(range(3, 12)), open=False),
        measure("drift:plan", 0.1, (0.75, 0.25, 0.0), (0.5, 0.0, 0.5), ("basic", "old", "family")),
        measure("missing:age", 0.0),
    ]
    accepted = [{"finding": "drift:age", "who": "ana@host", "because": "a new tariff", "when": "2025-11-14T09:00:00"}]
    return replace(
        facts,
        nodes=tuple(NodeFacts(name, "ran", 1.0, "") for name in ("Ingest", "Gate", "Trainer", "Evaluator", "Pusher")),
        drift={"spans": ["s7"], "model": "m", "measures": measures, "accepted": accepted, "notes": []},
        thresholds=(
            Threshold("accuracy", 0.9, "at least 0.6", True),
            Threshold("accuracy change against the baseline", -0.1, "at least -0.2", True),
        ),
        compared=SliceFacts("", "", 0.9, 30, -0.1, 0.2, "what chance explains, above evaluate.max_drop = 0.01", True),
        slices=(
            SliceFacts("length", "long", 0.8, 5, 0.2, 0.4, "what chance explains, above x", True),
            SliceFacts("length", "short", 1.0, 25, 0.0, 0.05, "evaluate.max_slice_drop", True),
        ),
        lineage=(
            LineageStep("span s6", "span s6", "earlier", details=("40 records",)),
            LineageStep("span s7", "span s7", "made", details=("50 records, new",)),
            LineageStep(
                "examples", "examples", "made", "3", ("90 records",), "2025-11-14T09:26:53", ("span s6", "span s7")
            ),
            LineageStep("base", "base model", "earlier", "2", ("version 2",)),
            LineageStep("model", "model", "made", "5", (), "2025-11-14T09:27:00", ("examples", "base")),
            LineageStep("version", "not pushed", "missing", made_from=("model",)),
        ),
    )  # fmt: skip
