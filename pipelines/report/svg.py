"""Small inline SVG: state symbols, legend keys, bars. Every text is shortened and escaped.

No colour is set here. Shapes carry classes, and the page's style sheet colours them for light screens, dark screens and
paper. Inline styles are not used either: the page's security policy forbids them.
"""

import math
from collections.abc import Sequence

from markupsafe import Markup

from pipelines.report.formatting import fit

SERIES = 6  # colours of lines and bars in the style sheet
BAR_HEIGHT = 8
_LARGEST = 1e300  # larger values overflow the arithmetic that places them on an axis

_STATE_SHAPES = {
    "ran": "M5.5 10.5l3 3 6-6.5",
    "cached": "M5.5 8h9M5.5 12.5h9",
    "failed": "M6.5 6.5l7 7M13.5 6.5l-7 7",
    "skipped": "M6 10h8",
    "warning": "M10 5v6.2M10 14v.6",
}


def state_symbol(state: str, tooltip: str = "", label: str = "") -> Markup:
    """Draws the state of a node as a disc with a mark, so that it is readable without colour."""
    return Markup(
        '<svg class="symbol {}" viewBox="0 0 20 20" width="20" height="20" role="img" aria-label="{}">{}'
        '<circle cx="10" cy="10" r="9"/><path d="{}"/></svg>'
    ).format(
        state if state in _STATE_SHAPES else "unknown",
        fit(label or state),
        title(tooltip),
        _STATE_SHAPES.get(state, "M10 10h.01"),
    )


def check_mark(passed: bool, label: str) -> Markup:
    """Draws a tick or a cross with an accessible label."""
    return state_symbol("ran" if passed else "failed", label=label)


def line_key(series: int) -> Markup:
    """Draws the legend key of a line, in its colour and dash pattern."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 24 10" width="24" height="10" aria-hidden="true">'
        '<line class="line s{}" x1="1" y1="5" x2="23" y2="5"/></svg>'
    ).format(series % SERIES)


def bar_key(series: int) -> Markup:
    """Draws the legend key of a bar."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 12 8" width="12" height="8" aria-hidden="true">'
        '<rect class="fill s{}" width="12" height="8" rx="2"/></svg>'
    ).format(series % SERIES)


def bars(shares: Sequence[float], label: str) -> Markup:
    """Draws one thin bar per share (0 to 1), below each other; the width follows the surrounding element."""
    height = BAR_HEIGHT * len(shares) + 2 * max(0, len(shares) - 1)
    shapes = Markup("").join(_bar(value, index) for index, value in enumerate(shares))
    return Markup('<svg class="bars" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        height, fit(label), shapes
    )


def title(text: str) -> Markup:
    """Returns a tooltip, or nothing for an empty text."""
    return Markup("<title>{}</title>").format(fit(text)) if text else Markup("")


def coordinate(value: float) -> str:
    """Returns a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def is_drawable(value: float) -> bool:
    """Whether a value has a place on an axis."""
    return math.isfinite(value) and abs(value) < _LARGEST


def _bar(value: float, index: int) -> Markup:
    y = index * (BAR_HEIGHT + 2)
    percent = 100 * min(1.0, max(0.0, value)) if is_drawable(value) else 0.0
    track = Markup('<rect class="track" y="{}" width="100%" height="{}" rx="2"/>').format(y, BAR_HEIGHT)
    if percent == 0:
        return track
    return track + Markup('<rect class="fill s{}" y="{}" width="{}%" height="{}" rx="2"/>').format(
        index % SERIES, y, coordinate(max(percent, 0.4)), BAR_HEIGHT
    )
