"""The lineage of a model, from the metadata to the drawing."""

from dataclasses import replace
from typing import Any

import pytest

from components.records.manifest import Manifest, Shard, SourceTotals
from components.serving.live import LiveModel, LivePointer, Move
from components.storage.location import location
from pipelines.orchestration.metadata.store import Artifact, Execution
from pipelines.report import lineage
from pipelines.report.facts import RunFacts
from pipelines.report.lineage_chart import lineage_chart
from tests.report.conftest import draw, parse, texts

PLACES = {"Ingest": "examples", "Transform": "transform_graph", "Trainer": "model", "Evaluator": "evaluation"}


class Inputs:
    """Metadata in which training started from a model, and compared the candidate with it."""

    def inputs(self, execution: int) -> dict[str, Artifact]:
        """Returns the base or the baseline model."""
        return {{13: "base_model", 14: "baseline_model"}.get(execution, ""): _artifact(7, "model")}


def _artifact(number: int, name: str, **properties: Any) -> Artifact:
    return Artifact(number, name, location(f"/root/{number}"), True, properties)


def _ingested(spans: int) -> Manifest:
    shards = tuple(Shard("train", f"Split-train/data_tfrecord-s{at}-0-of-1", 10, 1, "") for at in range(1, spans + 1))
    return Manifest("", 10 * spans, SourceTotals(), shards, {"train": {}}, 2, {}, 0, ())


def _pointer(folder: str) -> LivePointer:
    return LivePointer("p", (Move("push", folder, "2026-11-01T00:00:00", "", "", LiveModel(7, "m")),))


def steps(nodes: int = 5, spans: int = 2, **pushed: Any) -> tuple[lineage.LineageStep, ...]:
    """Returns the lineage of a run that came to its n-th node; Ingest was up to date."""
    names = ["Ingest", "Transform", "Trainer", "Evaluator", "Pusher"][:nodes]
    used = {name: Execution(11 + at, name, "COMPLETE", {}, None, pushed) for at, name in enumerate(names)}
    outputs = {
        name: {PLACES[name]: _artifact(21 + at, PLACES[name])} for at, name in enumerate(names) if name in PLACES
    }
    outputs["Pusher"] = {"pushed_model": _artifact(25, "pushed_model")}
    store: Any = Inputs()
    return lineage.steps(
        store, used, outputs, set(names) - {"Ingest"}, _pointer("/s/2"),
        ingested=_ingested(spans), new_spans=("s2",), shown={"model": ["4 epochs"]},
    )  # fmt: skip


def test_from_spans_to_version() -> None:
    """Each step has what it was made from; the base is an input of the model, the baseline one of the evaluation."""
    found = steps(pushed=True, version="3", destination="/s/3")

    assert [(step.name, step.state, step.id, step.made_from) for step in found] == [
        ("span s1", "earlier", "", ()),
        ("span s2", "kept", "", ()),
        ("examples", "kept", "21", ("span s1", "span s2")),
        ("transform", "made", "22", ("examples",)),
        ("base model", "earlier", "7", ()),
        ("model", "made", "23", ("transform", "base")),
        ("baseline model", "earlier", "7", ()),
        ("evaluation", "made", "24", ("model", "baseline")),
        ("version 3", "made", "25", ("evaluation",)),
    ]
    assert found[5].details == ("4 epochs",)
    assert (found[4].details, found[-1].details) == (("version 2",), ("version 2 is live",))


def test_a_run_that_stopped() -> None:
    """The chart ends with the first step that was not made."""
    assert [(step.name, step.state) for step in steps(nodes=1)][-2:] == [("examples", "kept"), ("transform", "missing")]


def test_a_model_that_is_not_pushed() -> None:
    """The version is missing, and the live one stays."""
    last = steps(pushed=False)[-1]

    assert (last.name, last.state, last.details) == ("not pushed", "missing", ("version 2 stays live",))


def test_many_spans_are_one_step() -> None:
    """The newest seven spans have a step each, the older ones one together."""
    found = steps(spans=40)

    assert (found[0].name, found[0].details) == ("33 older spans", ("330 records",))
    assert [step.name for step in found[1:8]] == [f"span s{at}" for at in range(34, 41)]


@pytest.mark.parametrize("spans", [1, 3, 40])
def test_the_drawing(spans: int) -> None:
    """No two boxes overlap, all are within the drawing, and each link has an arrow."""
    found = steps(spans=spans, pushed=True, version="3", destination="/s/3")
    chart = lineage_chart(found)
    assert chart is not None
    boxes = [(box.x, box.y, box.right, box.y + box.height) for box in chart.boxes]

    assert len(chart.arrows) == sum(len(step.made_from) for step in found)
    assert all(x >= 0 and y >= 0 and right <= chart.width and low <= chart.height for x, y, right, low in boxes)
    assert not [
        (one, two)
        for one in boxes
        for two in boxes
        if one != two and one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]
    ]


def test_the_drawing_in_words(retrained: RunFacts) -> None:
    """A screen reader hears every step, and what it was made from."""
    chart = lineage_chart(retrained.lineage)
    drawn = parse(draw("lineage_drawing", chart, template="retraining.html.j2"))

    assert drawn.findtext("desc") == (
        "span s6; span s7; examples (artifact 3) from span s6, span s7; base model (artifact 2); "
        "model (artifact 5) from examples, base; not pushed from model"
    )
    assert texts(drawn)[:2] == ["span s6", "40 records"]
    assert lineage_chart(replace(retrained, lineage=()).lineage) is None
