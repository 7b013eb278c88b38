"""The layout of a lineage: steps from left to right, base and baseline below; drawn by retraining.html.j2."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.report.lineage import BASE, BASELINE, LineageStep

WIDTH, GAP, TOP = 143, 36, 4
_SPAN, _STEP, _BELOW = 46, 114, 80  # heights
_SPACE = 8  # between spans
_DROP = 34  # from the main row to the one below it
_LETTERS = 20  # that fit a line of a box


@dataclass(frozen=True)
class Box:
    """Where a step is drawn."""

    step: LineageStep
    x: float
    y: float
    height: float

    @property
    def middle(self) -> float:
        """The y coordinate of its middle."""
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        """Its right end."""
        return self.x + WIDTH


@dataclass(frozen=True)
class Arrow:
    """A line between two boxes, as an SVG path, and its head."""

    line: str
    head: str


@dataclass(frozen=True)
class LineageChart:
    """Boxes, arrows and a description in words."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: float
    height: float
    description: str
    letters: int = _LETTERS
    box_width: float = WIDTH


def lineage_chart(steps: Sequence[LineageStep]) -> LineageChart | None:
    """Returns the layout of a lineage; None without steps."""
    if not steps:
        return None
    sources = [step for step in steps if not step.made_from and step.key not in (BASE, BASELINE)]
    chain = [step for step in steps if step.made_from]
    below = [step for step in steps if step.key in (BASE, BASELINE)]
    stack = len(sources) * (_SPAN + _SPACE) - _SPACE
    top = TOP + max(0.0, (stack - _STEP) / 2)
    first = TOP + max(0.0, (_STEP - stack) / 2)
    boxes = {step.key: Box(step, 1, first + at * (_SPAN + _SPACE), _SPAN) for at, step in enumerate(sources)}
    boxes |= {step.key: Box(step, 1 + (at + 1) * (WIDTH + GAP), top, _STEP) for at, step in enumerate(chain)}
    for step in below:
        child = next(each for each in chain if step.key in each.made_from)
        boxes[step.key] = Box(step, boxes[child.key].x, top + _STEP + _DROP, _BELOW)
    arrows = [_arrow(boxes[parent], boxes[step.key]) for step in chain for parent in step.made_from]
    return LineageChart(
        tuple(boxes.values()),
        tuple(arrows),
        max(box.right for box in boxes.values()) + 1,
        max(box.y + box.height for box in boxes.values()) + TOP,
        _description(steps),
    )


def _arrow(start: Box, end: Box) -> Arrow:
    if start.step.key in (BASE, BASELINE):
        x, bottom = end.x + WIDTH / 2, end.y + end.height
        return Arrow(f"M{x:g} {start.y:g}V{bottom + 7:g}", f"M{x:g} {bottom + 1:g}l5 8h-10z")
    x, bend = end.x, (end.x - start.right) / 2
    curve = f"C{start.right + bend:g} {start.middle:g} {x - bend:g} {end.middle:g} {x - 7:g} {end.middle:g}"
    return Arrow(f"M{start.right:g} {start.middle:g}{curve}", f"M{x - 1:g} {end.middle:g}l-8 5v-10z")


def _description(steps: Sequence[LineageStep]) -> str:
    """Returns the description of the chart."""
    said = (
        f"{step.name}{f' (artifact {step.id})' if step.id else ''}"
        + (f" from {', '.join(step.made_from)}" if step.made_from else "")
        for step in steps
    )
    return "; ".join(said)
