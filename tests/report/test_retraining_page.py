"""The sections of the page about a retraining."""

from dataclasses import replace

from pipelines.report import page, sections
from pipelines.report.facts import RunFacts, SliceFacts
from pipelines.report.lineage import LineageStep
from tests.report.conftest import EVIL, measure, plain
from tests.report.html_page import Page

HUGE = "x" * 10_000_000


def test_the_newest_span(facts: RunFacts) -> None:
    """D6: what differs most comes first, and what a person wrote is escaped; an accepted finding is named as one."""
    text = "<script>alert(1)</script>"
    base = {"threshold": 0.2, "setting": "s", "detail": text, "records": [text], "kind": "drift", "column": text}
    measures = [
        {**base, "id": "drift:a", "value": 0.1, "open": False},
        {**base, "id": f"drift:{text}", "value": 0.5, "open": True},
        {**base, "id": "drift:c", "value": 0.3, "open": False},
    ]
    acceptance = {"finding": "drift:c", "who": text, "because": text, "when": text}
    drift = {"spans": [text], "model": text, "measures": measures, "accepted": [acceptance], "notes": [text]}
    html = page.render(replace(facts, drift=drift))

    assert "<script" not in html
    assert "span" in Page(html).sections()
    assert "drift:c was accepted by &lt;script&gt;" in html
    assert [each["id"] for each in sections.drift_rows(replace(facts, drift=drift))] == [
        f"drift:{text}", "drift:c", "drift:a",
    ]  # fmt: skip


def test_a_retraining(retrained: RunFacts) -> None:
    """Gates, lineage, what is new, and the candidate against the live model come before the details."""
    shown = Page(page.render(retrained))

    assert shown.sections()[:5] == ["pipeline", "gates", "lineage", "span", "against"]
    assert "slices" not in shown.sections()


def test_a_retraining_in_words(retrained: RunFacts) -> None:
    """What the charts show is there as text: who accepted what, values on both sides, deciles, lineage."""
    text = plain(retrained)

    assert "All gates passed." in text
    assert "drift:age accepted by ana@host at 2025-11-14T09:00:00: a new tariff" in text
    assert "family new 0.0 % 50.0 %" in text
    assert "old gone 25.0 % 0.0 %" in text
    assert "Deciles of age Records below Live model's data New spans 10 % 1.000 3.000" in text
    assert "all test records 0.9000 1.000 -0.1000 0.2000 chance 30 yes" in text
    assert "length = short 1.000 1.000 +0.0000 0.05000 evaluate.max_slice_drop 25 yes" in text
    assert "examples 3 made in this run 90 records span s6, span s7 14 Nov 2025, 09:26" in text


def test_markup_in_a_retraining(retrained: RunFacts) -> None:
    """D6: names of columns, values, spans, slices and people are escaped and shortened wherever they are shown."""
    for text in (EVIL, HUGE):
        rows = [measure(f"drift:{text}", 0.3, (0.5,), (0.6,), (text,), detail=text, setting=text, records=[text])]
        accepted = [{"finding": f"drift:{text}", "who": text, "because": text, "when": text}]
        step = LineageStep(text, text, "made", text, (text,), text)
        evil = replace(
            retrained,
            drift={"spans": [text], "model": text, "measures": rows, "accepted": accepted, "notes": [text]},
            slices=(SliceFacts(text, text, 0.5, 9, -0.2, 0.1, text, passed=False),),
            gate_problems=(text,),
            lineage=(step, replace(step, key="model", made_from=(text,))),
        )
        html = page.render(evil)

        assert len(html) < 200_000
        assert "<script" not in html
        Page(html)
