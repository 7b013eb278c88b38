"""A run as the page sees it: three classes, four epochs, one file set aside."""

from io import BytesIO

import pytest
from PIL import Image

from pipelines.orchestration.outcome import NodeFacts
from pipelines.report.facts import Bar, LedgerRow, QuarantinedFile, RunFacts, SampleImage


def encode(kind: str, side: int = 8) -> bytes:
    """Returns a grey image in the given format."""
    buffer = BytesIO()
    Image.new("L", (side, side), 128).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def facts() -> RunFacts:
    """A run that went well, with something in every section."""
    return RunFacts(
        pipeline="digits",
        task="image",
        started="2025-11-14T09:26:53Z",
        seconds=78.4,
        outcome="blessed and pushed as version 3",
        exit_code=0,
        nodes=(
            NodeFacts("Ingest", "ran", 6.42, "no earlier result for this data", 90),
            NodeFacts("Schema", "cached", 0.02, "up to date"),
            NodeFacts("Trainer", "ran", 31.9, "its input changed", 60),
        ),
        ledger=(LedgerRow("Ingest", 91, 90, 1), LedgerRow("Trainer", 60, 60, 0)),
        quarantined=(QuarantinedFile("data/2/scan.jpg", "truncated JPEG"),),
        quarantine_path="runs/ingest/5/quarantine.jsonl",
        warnings=("2 files have the same content under two labels",),
        records={"train": 60, "eval": 30},
        class_counts={"train": {"0": 20, "1": 21, "2": 19}, "eval": {"0": 10, "1": 9, "2": 11}},
        samples=(SampleImage("0", encode("PNG")), SampleImage("1", encode("JPEG"))),
        curves={"loss": {"train": (2.0, 1.0, 0.5, 0.25), "eval": (1.8, 0.9, 0.6, 0.7)}},
        best_epoch=2,
        metrics={"accuracy": 0.9, "macro_f1": 0.89},
        bars=(Bar("accuracy", 0.9, "at least 0.6", True),),
        classes=("0", "1", "2"),
        confusion=((10, 0, 0), (0, 8, 1), (0, 2, 9)),
        blessed=True,
        model_path="serving/digits/3",
        model_version="3",
    )
