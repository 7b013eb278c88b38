"""State symbols and bars as inline SVG."""

import math
import xml.etree.ElementTree as ET

import pytest

from tests.report.conftest import EVIL, draw, parse


def test_bars() -> None:
    """Bars are drawn below each other in the colours of their series."""
    assert draw("bars", [0.5, 0.0, 0.0001], 'cat "tabby"') == (
        '<svg class="bars" width="100%" height="28" role="img" aria-label="cat &#34;tabby&#34;">'
        '<rect class="track" y="0" width="100%" height="8" rx="2"/>'
        '<rect class="fill s0" y="0" width="50%" height="8" rx="2"/>'
        '<rect class="track" y="10" width="100%" height="8" rx="2"/>'
        '<rect class="track" y="20" width="100%" height="8" rx="2"/>'
        '<rect class="fill s2" y="20" width="0.4%" height="8" rx="2"/>'
        "</svg>"
    )


def test_a_bar_of_nan() -> None:
    """A NaN is an empty bar."""
    assert "fill" not in draw("bars", [math.nan], "x")


@pytest.mark.parametrize("state", ["ran", "cached", "failed", "skipped", "warning", EVIL])
def test_state_symbol(state: str) -> None:
    """Every state has its own mark, its name as label, and its reason as tooltip."""
    symbol = parse(draw("state_symbol", state, "because"))
    others = {draw("state_symbol", other) for other in ("ran", "cached", "failed", "skipped", "warning")} - {
        draw("state_symbol", state)
    }

    assert symbol.attrib["aria-label"] == state
    assert symbol.findtext("title") == "because"
    assert symbol.find("path") is not None
    assert not any(f'd="{_path(symbol)}"' in other for other in others)


@pytest.mark.parametrize(
    "drawn",
    [draw("bars", [0.5], EVIL), draw("state_symbol", EVIL, EVIL), draw("check_mark", True, EVIL)],
    ids=["bars", "state", "check"],
)
def test_markup_in_labels(drawn: str) -> None:
    """Markup in a label is shown as text."""
    assert "<script" not in drawn
    assert parse(drawn).tag == "svg"


def _path(symbol: ET.Element) -> str:
    path = symbol.find("path")
    return "" if path is None else path.attrib["d"]
