"""The page: complete, escaped, bounded in size, without sections that have no facts."""

import base64
import hashlib
import math
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from components.records.ledger import Entry
from components.records.quarantine import Quarantined
from pipelines.orchestration.outcome import NodeFacts
from pipelines.report import page, sections
from pipelines.report.facts import RunFacts, SampleImage, SliceFacts, Threshold
from tests.report.conftest import EVIL

HUGE = "x" * 10_000_000
VOID = {"meta", "img", "br", "wbr", "link", "input", "hr"}
EMPTY = RunFacts(pipeline="digits", task="image", started="?", seconds=0.4, outcome="failed", exit_code=4)
SECTIONS = [
    "pipeline", "time", "ledger", "quarantine", "warnings", "classes", "samples", "curves", "training",
    "thresholds", "slices", "confusion",
]  # fmt: skip


class Page(HTMLParser):
    """The elements and the visible text of a page; fails if an element is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects an element."""
        self.elements.append((tag, dict(attrs)))
        self.text += "" if tag == "wbr" else " "
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects an SVG element that closes itself."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Checks that elements close in order."""
        assert self._open.pop() == tag
        self.text += " "

    def handle_data(self, data: str) -> None:
        """Collects visible text."""
        if "style" not in self._open and "title" not in self._open:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Returns the attributes of all elements of one kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def sections(self) -> list[str | None]:
        """Returns the anchors of the sections, in order."""
        return [attributes.get("id") for attributes in self.all("section")]


def evil_facts(facts: RunFacts, text: str) -> RunFacts:
    """Returns the run with one text in every place that takes a text."""
    return replace(
        facts,
        pipeline=text,
        task=text,
        started=text,
        outcome=text,
        nodes=(NodeFacts(text, text, 1.0, text, 1), NodeFacts(text, "failed", 1.0, text)),
        ledger=(Entry(text, 1, 1, 0),),
        quarantined=(Quarantined(text, text, text),),
        quarantine_reasons={text: 1},
        quarantine_path=text,
        warnings=(text,),
        class_counts={text: {text: 1}, "eval": {text: 1, "b": 2}},
        samples=(SampleImage(text, facts.samples[0].content), SampleImage(text, text[:100].encode())),
        curves={text: {text: (1.0, math.nan)}},
        metrics={text: 1.0},
        thresholds=(Threshold(text, 1.0, text, True),),
        slices=(SliceFacts(text, text, 0.5, 9, -0.2, 0.1, passed=False),),
        classes=(text,) * 3,
        model_path=text,
        model_version=text,
    )


def test_full_run(facts: RunFacts) -> None:
    """A run with all facts has every section, in order."""
    shown = Page(page.render(facts))

    assert shown.sections() == SECTIONS
    assert [link["href"] for link in shown.all("a")] == [f"#{anchor}" for anchor in SECTIONS]


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
    assert "<p>drift:c was accepted by &lt;script&gt;" in html
    assert [each["id"] for each in sections.drift_rows(replace(facts, drift=drift))] == [
        f"drift:{text}", "drift:c", "drift:a",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("missing", "gone"),
    [
        ({"nodes": ()}, ["pipeline", "time"]),
        ({"ledger": ()}, ["ledger"]),
        ({"ledger": (), "quarantined": ()}, ["ledger", "quarantine"]),
        ({"warnings": ()}, ["warnings"]),
        ({"class_counts": {}}, ["classes"]),
        ({"class_counts": {"train": {}}}, ["classes"]),
        ({"samples": ()}, ["samples"]),
        ({"curves": {}}, ["curves"]),
        ({"curves": {"loss": {"train": ()}}}, ["curves"]),
        ({"thresholds": ()}, ["thresholds"]),
        ({"slices": ()}, ["slices"]),
        ({"confusion": (), "classes": ()}, ["confusion"]),
    ],
)
def test_missing_facts(facts: RunFacts, missing: dict[str, Any], gone: list[str]) -> None:
    """A section without facts is left out."""
    shown = Page(page.render(replace(facts, **missing)))

    assert shown.sections() == [section for section in SECTIONS if section not in gone]


def test_header_alone() -> None:
    """A run that failed at once has only a header."""
    shown = Page(page.render(EMPTY))

    assert shown.sections() == []
    assert shown.all("table") == shown.all("nav") == []
    assert " ".join(shown.text.split()) == (
        "Penstock run digits Failed failed Task image Started ? Duration 0.4 s Exit code 4 "
        "Generated by Penstock. This file is self-contained: no scripts, no external resources."
    )


@pytest.mark.parametrize(
    "text", [EVIL, f'"{EVIL}', f"'>{EVIL}", f"</style></title>{EVIL}", "<img src=x onerror=alert(1)>", "{{ 7 * 7 }}"]
)
def test_markup_in_facts(facts: RunFacts, text: str) -> None:
    """D6: markup in any fact is shown as text."""
    shown = Page(page.render(evil_facts(facts, text)))
    plain = Page(page.render(evil_facts(facts, "plain text/of some length")))

    assert text in shown.text
    assert shown.all("script") == []
    assert len(shown.all("img")) == 1
    assert {tag for tag, _ in shown.elements} <= {tag for tag, _ in plain.elements}
    assert not any(name.startswith("on") for _, attributes in shown.elements for name in attributes)


def test_no_external_resources(facts: RunFacts) -> None:
    """D6: nothing refers to anything outside the file."""
    html = page.render(facts)
    shown = Page(html)
    addresses = [
        value or ""
        for _, attributes in shown.elements
        for name, value in attributes.items()
        if name in {"src", "href", "srcset", "xlink:href", "action", "data", "poster", "style"}
    ]

    assert [address for address in addresses if not address.startswith(("#", "data:image/"))] == []
    assert re.findall(r"url\(|@import|https?:", html) == []
    assert {tag for tag, _ in shown.elements} & {"script", "link", "iframe", "object", "embed", "base", "form"} == set()


def test_policy(facts: RunFacts) -> None:
    """The policy allows only the page's own style sheet and data images."""
    html = page.render(facts)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policies = [meta["content"] for meta in Page(html).all("meta") if meta.get("http-equiv")]

    assert policies == [
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    ]


def test_huge_texts(facts: RunFacts) -> None:
    """D6: texts of ten megabytes keep the page below one megabyte."""
    html = page.render(evil_facts(facts, HUGE))

    assert len(html.encode()) < 1_000_000
    assert Page(html).sections() == SECTIONS


def test_many_facts(facts: RunFacts) -> None:
    """Very many facts keep the page below one megabyte."""
    many = replace(
        facts,
        nodes=facts.nodes * 1000,
        ledger=facts.ledger * 1000,
        quarantined=facts.quarantined * 10_000,
        warnings=facts.warnings * 10_000,
        samples=facts.samples * 1000,
        thresholds=facts.thresholds * 1000,
        slices=facts.slices * 1000,
        metrics={f"metric {index}": 0.5 for index in range(1000)},
        curves={f"metric {index}": {"train": (1.0, 0.5) * 5000} for index in range(100)},
        classes=tuple(f"class {index}" for index in range(400)),
        confusion=tuple(tuple(7 for _ in range(400)) for _ in range(400)),
        class_counts={"train": {f"class {index}": index + 1 for index in range(400)}},
    )

    assert len(page.render(many).encode()) < 1_000_000


def test_odd_names(facts: RunFacts, tmp_path: Path) -> None:
    """Names that are not valid text are escaped."""
    odd = os.fsdecode(b"data/caf\xe9\x00.jpg")
    page.write(replace(facts, quarantined=(Quarantined(odd, "odd\u202ename"),)), tmp_path / "report.html")
    shown = Page((tmp_path / "report.html").read_text("utf-8"))

    assert "data/caf\\udce9\\x00.jpg" in shown.text
    assert "odd\\u202ename" in shown.text


def test_headline(facts: RunFacts) -> None:
    """Metrics with their thresholds, counts, and the model."""
    assert (
        "accuracy 0.9000 at least 0.6 macro f1 0.8900 records 90 train 60, eval 30 quarantined 1 "
        "model version 3 serving/digits/3 Pipeline" in _plain(facts)
    )


def test_ledger(facts: RunFacts) -> None:
    """Rows that do not add up are marked."""
    rows = (Entry("Ingest", 91, 90, 1), Entry("Transform", 90, 87, 0), Entry("Trainer", 60, 61, 0))
    html = page.render(replace(facts, ledger=rows))
    marks = [label for label in _labels(html) if "out + quarantined" in label]

    assert "Ingest 91 90 1 Transform 90 87 0 3 missing Trainer 60 61 0 1 too many" in _plain(
        replace(facts, ledger=rows)
    )
    assert marks == ["in = out + quarantined", "in ≠ out + quarantined", "in ≠ out + quarantined"]


def test_quarantine(facts: RunFacts) -> None:
    """A long quarantine shows the first records, the total, and where the full list is."""
    many = replace(facts, quarantined=facts.quarantined * 30, ledger=(Entry("Ingest", 500, 419, 81),))
    shown = Page(page.render(many))

    assert "81 records quarantined. Full list: runs/ingest/5/quarantine.jsonl" in _plain(many)
    assert "and 61 more" in _plain(many)
    assert shown.text.count("data/2/scan.jpg") == 20


def test_quarantine_shows_positions_and_counts_reasons(facts: RunFacts) -> None:
    """A12: the line of a row, and how many records have the same reason."""
    row = Quarantined("rows.csv", "no label", "line 12")
    shown = _plain(replace(facts, quarantined=(row,), quarantine_reasons={"no label": 7, "truncated JPEG": 1}))

    assert "Reason Records no label 7 truncated JPEG 1 Path Position Reason rows.csv line 12 no label" in shown


def test_many_classes(facts: RunFacts) -> None:
    """Of many classes, the largest are shown."""
    counts = {f"class {index:03d}": index + 1 for index in range(200)}
    many = replace(facts, class_counts={"train": counts})
    table = sections.balance(many)

    assert table is not None
    assert [row.name for row in table.rows] == [f"class {index:03d}" for index in range(199, 169, -1)]
    assert (table.left, table.left_records) == (170, sum(range(1, 171)))
    assert "The 30 largest classes, and 170 more with 14,535 records." in _plain(many)


def test_matrix_or_pairs(facts: RunFacts) -> None:
    """Up to thirty classes are a matrix; more are a list of pairs."""

    def confusion(size: int) -> RunFacts:
        matrix = tuple(tuple(5 if row == column else row % 3 for column in range(size)) for row in range(size))
        return replace(facts, confusion=matrix, classes=tuple(f"class {index}" for index in range(size)))

    matrix, pairs = page.render(confusion(30)), page.render(confusion(31))

    assert "Confusion matrix of 30 classes" in " ".join(_labels(matrix))
    assert "Confusion matrix" not in " ".join(_labels(pairs))
    assert "The most frequent confusions of 31 classes." in Page(pairs).text
    assert len(Page(pairs).all("tr")) - len(Page(page.render(replace(facts, confusion=()))).all("tr")) == 21


def test_unnamed_classes(facts: RunFacts) -> None:
    """Classes without a name have their number."""
    assert "2 1 2 18.2 %" in _plain(replace(facts, classes=()))


def test_no_confusions(facts: RunFacts) -> None:
    """A perfect model has a sentence instead of an empty table."""
    assert "All records were predicted correctly." in _plain(replace(facts, confusion=((3, 0), (0, 4))))


def test_nan_curves(facts: RunFacts) -> None:
    """A curve without finite values says so."""
    text = _plain(replace(facts, curves={"loss": {"train": (math.nan, math.nan)}}, best_epoch=None))

    assert "Values at the last epoch. A cross marks an epoch with a NaN or infinite value." in text
    assert "loss train NaN No epoch has a finite value." in text


def test_best_epoch(facts: RunFacts) -> None:
    """The best epoch is counted from 1; the rate is that of training."""
    text = _plain(facts)

    assert "Values at the best epoch (3). loss train 0.5000 eval 0.6000" in text
    assert "Trainer 31.9 s · 60 records · 860 samples per second 3 texts cut upstream Ingest changed" in text


def test_training(facts: RunFacts) -> None:
    """Throughput, share of waiting and learning rate per epoch, and a table of details."""
    text = _plain(facts)

    assert "Training Training processed 860 samples per second. samples per second train 850" in text
    assert "share of waiting for input train 0.2000" in text
    assert "learning rate train 0.001000" in text
    assert "Detail Value batch size 32, chosen from the data resumed at epoch 3, step 118 Metric thresholds" in text


def test_headings(facts: RunFacts) -> None:
    """Headings go down one step at a time."""
    levels = [int(tag[1]) for tag, _ in Page(page.render(facts)).elements if re.fullmatch(r"h[1-6]", tag)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_accessible(facts: RunFacts) -> None:
    """Tables, images and charts have labels for screen readers."""
    shown = Page(page.render(facts))

    assert all(header.get("scope") in {"col", "colgroup", "row"} for header in shown.all("th"))
    assert all(image.get("alt") for image in shown.all("img"))
    assert all(
        (svg.get("role") == "img" and svg.get("aria-label")) or svg.get("aria-hidden") == "true"
        for svg in shown.all("svg")
    )


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(facts: RunFacts, dark: bool) -> None:
    """Every text has the contrast that WCAG requires for small text."""
    colours = _colours(page.render(facts), dark=dark)
    states = ("ran", "cached", "failed", "skipped", "warning")
    pairs = [(colours[text], colours[ground]) for text in ("ink", "soft", "link") for ground in ("card", "bg")]
    pairs += [(colours[state], colours[f"{state}-bg"]) for state in states]
    pairs += [(colours["failed"], colours["card"]), (colours["ink"], colours["failed-bg"])]
    for fill, letters, opacities in (
        ("hit", "ink", range(51)),
        ("miss", "ink", range(51)),
        ("hit", "deep", range(85, 101)),
        ("miss-deep", "deep", range(85, 101)),
    ):
        pairs += [(colours[letters], _mix(colours[fill], colours["card"], part / 100)) for part in opacities]

    assert [pair for pair in pairs if _contrast(*pair) < 4.5] == []


def test_write(facts: RunFacts, tmp_path: Path) -> None:
    """The page replaces the older one."""
    path = tmp_path / "report.html"
    path.write_text("an older one")
    page.write(facts, path)

    assert path.read_text("utf-8") == page.render(facts)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_write_fails(facts: RunFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed write leaves the older page and no temporary file."""
    path = tmp_path / "report.html"
    path.write_text("an older one")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        page.write(facts, path)

    assert path.read_text() == "an older one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def _plain(facts: RunFacts) -> str:
    """Returns the visible text with single spaces."""
    return " ".join(Page(page.render(facts)).text.split())


def _labels(html: str) -> list[str]:
    return [svg.get("aria-label") or "" for svg in Page(html).all("svg")]


def _colours(html: str, *, dark: bool) -> dict[str, tuple[float, ...]]:
    light, night = html.split("(prefers-color-scheme: dark)")
    found = re.findall(r"--([a-z0-9-]+): #([0-9a-f]{6});", night if dark else light)
    return {name: tuple(bytes.fromhex(value)) for name, value in found}


def _mix(colour: tuple[float, ...], ground: tuple[float, ...], opacity: float) -> tuple[float, ...]:
    return tuple(opacity * over + (1 - opacity) * under for over, under in zip(colour, ground, strict=True))


def _contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Returns the contrast ratio of WCAG 2."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: tuple[float, ...]) -> float:
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
