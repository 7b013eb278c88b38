"""The table of edits and the nodes that they rerun is computed, and the architecture page shows it."""

from pathlib import Path

import pytest

from pipelines.docs import reruns


def test_the_architecture_page_has_the_present_table() -> None:
    """Regenerate it with `python -m pipelines.docs.reruns`."""
    page = reruns.PAGE.read_text(encoding="utf-8")

    assert page == reruns.updated(page), "run: python -m pipelines.docs.reruns"


@pytest.mark.parametrize(
    ("file", "nodes"),
    [
        ("components/ingest/sources/csv/csv_rows.py", {"Ingest"}),
        ("components/models/image.py", {"Trainer"}),
        ("components/fitting/text.py", {"Transform"}),
        ("components/serving/pusher.py", {"Pusher"}),
        ("components/evaluation/thresholds.py", {"Evaluator"}),
        ("components/native/decode/resize.h", {"Extractor", "Extract", "Trainer"}),
        ("components/settings/evaluate.py", {"Evaluator"}),
        ("pipelines/orchestration/plan.py", set()),
    ],
)
def test_an_edit_reruns_only_nodes_that_run_the_code(file: str, nodes: set[str]) -> None:
    """Nodes that read their outputs run after them."""
    assert reruns.effects()[Path(file)] == nodes
