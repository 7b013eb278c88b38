"""The page: whole, escaped, bounded, and silent about what is not known."""

import base64
import hashlib
import math
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup
from PIL import Image

from pipelines.orchestration.outcome import NodeFacts
from pipelines.report import page
from pipelines.report.facts import Bar, LedgerRow, QuarantinedFile, RunFacts, SampleImage

EVIL = "<script>alert(1)</script>"
HUGE = "x" * 10_000_000
VOID = {"meta", "img", "br", "wbr", "link", "input", "hr"}
EMPTY = RunFacts(pipeline="digits", task="image", started="?", seconds=0.4, outcome="failed", exit_code=4)
SECTIONS = ["chain", "time", "ledger", "quarantine", "warnings", "classes", "samples", "curves", "bars", "confusion"]


class Page(HTMLParser):
    """The elements and the visible text of a page; fails on elements that are not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element."""
        self.elements.append((tag, dict(attrs)))
        self.text += "" if tag == "wbr" else " "
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element of SVG that closes itself."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Checks that elements close in order."""
        assert self._open.pop() == tag
        self.text += " "

    def handle_data(self, data: str) -> None:
        """Notes text that a reader sees."""
        if "style" not in self._open and "title" not in self._open:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Returns the attributes of all elements of one kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def sections(self) -> list[str | None]:
        """Returns the anchors of the sections, in order."""
        return [attributes.get("id") for attributes in self.all("section")]


def evil_facts(facts: RunFacts, text: str) -> RunFacts:
    """Returns the run with one text in every place that takes one."""
    return replace(
        facts,
        pipeline=text,
        task=text,
        started=text,
        outcome=text,
        nodes=(NodeFacts(text, text, 1.0, text, 1), NodeFacts(text, "failed", 1.0, text)),
        ledger=(LedgerRow(text, 1, 1, 0),),
        quarantined=(QuarantinedFile(text, text),),
        quarantine_path=text,
        warnings=(text,),
        class_counts={text: {text: 1}, "eval": {text: 1, "b": 2}},
        samples=(SampleImage(text, facts.samples[0].content), SampleImage(text, text[:100].encode())),
        curves={text: {text: (1.0, math.nan)}},
        metrics={text: 1.0},
        bars=(Bar(text, 1.0, text, True),),
        classes=(text,) * 3,
        model_path=text,
        model_version=text,
    )


def test_full_run(facts: RunFacts) -> None:
    """A full run has every section in order."""
    shown = Page(page.render(facts))

    assert shown.sections() == SECTIONS
    assert [link["href"] for link in shown.all("a")] == [f"#{anchor}" for anchor in SECTIONS]


@pytest.mark.parametrize(
    ("missing", "gone"),
    [
        ({"nodes": ()}, ["chain", "time"]),
        ({"ledger": ()}, ["ledger"]),
        ({"ledger": (), "quarantined": ()}, ["ledger", "quarantine"]),
        ({"warnings": ()}, ["warnings"]),
        ({"class_counts": {}}, ["classes"]),
        ({"class_counts": {"train": {}}}, ["classes"]),
        ({"samples": ()}, ["samples"]),
        ({"curves": {}}, ["curves"]),
        ({"curves": {"loss": {"train": ()}}}, ["curves"]),
        ({"bars": ()}, ["bars"]),
        ({"confusion": (), "classes": ()}, ["confusion"]),
    ],
)
def test_missing_facts(facts: RunFacts, missing: dict[str, Any], gone: list[str]) -> None:
    """A section without facts is not there."""
    shown = Page(page.render(replace(facts, **missing)))

    assert shown.sections() == [section for section in SECTIONS if section not in gone]


def test_header_alone() -> None:
    """A run that failed at once has a header alone."""
    shown = Page(page.render(EMPTY))

    assert shown.sections() == []
    assert shown.all("table") == shown.all("nav") == []
    assert " ".join(shown.text.split()) == (
        "Penstock run digits Failed failed Task image Started ? Duration 0.4 s Exit code 4 "
        "Made by Penstock. This file is whole: it runs no script and loads nothing from elsewhere."
    )


@pytest.mark.parametrize(
    "text", [EVIL, f'"{EVIL}', f"'>{EVIL}", f"</style></title>{EVIL}", "<img src=x onerror=alert(1)>", "{{ 7 * 7 }}"]
)
def test_markup_in_facts(facts: RunFacts, text: str) -> None:
    """Markup in any fact is text."""
    shown = Page(page.render(evil_facts(facts, text)))
    plain = Page(page.render(evil_facts(facts, "plain text/of some length")))

    assert text in shown.text
    assert shown.all("script") == []
    assert len(shown.all("img")) == 1
    assert {tag for tag, _ in shown.elements} <= {tag for tag, _ in plain.elements}
    assert not any(name.startswith("on") for _, attributes in shown.elements for name in attributes)


def test_no_outside(facts: RunFacts) -> None:
    """Nothing refers to the outside."""
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
    """The policy allows the style sheet of the page and data images only."""
    html = page.render(facts)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policies = [meta["content"] for meta in Page(html).all("meta") if meta.get("http-equiv")]

    assert policies == [
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    ]


def test_huge_texts(facts: RunFacts) -> None:
    """Texts of ten megabytes keep the page under one."""
    html = page.render(evil_facts(facts, HUGE))

    assert len(html.encode()) < 1_000_000
    assert Page(html).sections() == SECTIONS


def test_many_facts(facts: RunFacts) -> None:
    """Very many facts keep the page under one megabyte."""
    many = replace(
        facts,
        nodes=facts.nodes * 1000,
        ledger=facts.ledger * 1000,
        quarantined=facts.quarantined * 10_000,
        warnings=facts.warnings * 10_000,
        samples=facts.samples * 1000,
        bars=facts.bars * 1000,
        metrics={f"metric {index}": 0.5 for index in range(1000)},
        curves={f"metric {index}": {"train": (1.0, 0.5) * 5000} for index in range(100)},
        classes=tuple(f"class {index}" for index in range(400)),
        confusion=tuple(tuple(7 for _ in range(400)) for _ in range(400)),
        class_counts={"train": {f"class {index}": index + 1 for index in range(400)}},
    )

    assert len(page.render(many).encode()) < 1_000_000


def test_odd_names(facts: RunFacts, tmp_path: Path) -> None:
    """Names that no encoding holds are spelled out."""
    odd = os.fsdecode(b"data/caf\xe9\x00.jpg")
    page.write(replace(facts, quarantined=(QuarantinedFile(odd, "odd\u202ename"),)), tmp_path / "report.html")
    shown = Page((tmp_path / "report.html").read_text("utf-8"))

    assert "data/caf\\udce9\\x00.jpg" in shown.text
    assert "odd\\u202ename" in shown.text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, page.Badge("Blessed & pushed", "ran")),
        ({"model_path": None}, page.Badge("Blessed", "ran")),
        ({"blessed": False, "exit_code": 3}, page.Badge("Not blessed", "warning")),
        ({"blessed": None}, page.Badge("Finished", "cached")),
        ({"blessed": None, "exit_code": 4}, page.Badge("Failed", "failed")),
        ({"exit_code": 1}, page.Badge("Failed", "failed")),
        ({"exit_code": 143}, page.Badge("Cancelled", "warning")),
        ({"blessed": False, "nodes": (NodeFacts("Pusher", "failed", 1.0, ""),)}, page.Badge("Failed", "failed")),
    ],
)
def test_badge(facts: RunFacts, changes: dict[str, Any], expected: page.Badge) -> None:
    """The badge tells how the run ended."""
    assert page.badge(replace(facts, **changes)) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 s"),
        (0.023, "0.023 s"),
        (6.42, "6.4 s"),
        (59.97, "1 min 00 s"),
        (78.4, "1 min 18 s"),
        (3599.6, "1 h 00 min"),
        (7325.0, "2 h 02 min"),
        (math.nan, "–"),
        (-1.0, "–"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    """A duration is given in the units that matter."""
    assert page.duration(seconds) == expected


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        ("2025-11-14T09:26:53Z", "14 November 2025, 09:26:53 UTC"),
        ("2025-11-04T09:26:53.123456+02:00", "4 November 2025, 07:26:53 UTC"),
        ("yesterday", "yesterday"),
    ],
)
def test_started(facts: RunFacts, started: str, expected: str) -> None:
    """The start is shown in words and UTC."""
    assert f"Started {expected} Duration" in _plain(replace(facts, started=started))


def test_headline(facts: RunFacts) -> None:
    """The headline has the metrics with their bars the counts and the model."""
    assert (
        "accuracy 0.9000 at least 0.6 macro f1 0.8900 records 90 train 60, eval 30 quarantined 1 "
        "model version 3 serving/digits/3 Chain" in _plain(facts)
    )


def test_ledger(facts: RunFacts) -> None:
    """The ledger marks records that went missing."""
    rows = (LedgerRow("Ingest", 91, 90, 1), LedgerRow("Transform", 90, 87, 0), LedgerRow("Trainer", 60, 61, 0))
    html = page.render(replace(facts, ledger=rows))
    marks = [label for label in _labels(html) if "out + quarantined" in label]

    assert "Ingest 91 90 1 Transform 90 87 0 3 lost Trainer 60 61 0 1 too many" in _plain(replace(facts, ledger=rows))
    assert marks == ["in = out + quarantined", "in is not out + quarantined", "in is not out + quarantined"]


def test_quarantine(facts: RunFacts) -> None:
    """The quarantine says how many more there are and where."""
    many = replace(facts, quarantined=facts.quarantined * 30, ledger=(LedgerRow("Ingest", 500, 419, 81),))
    shown = Page(page.render(many))

    assert "81 records set aside; full list: runs/ingest/5/quarantine.jsonl" in _plain(many)
    assert "and 61 more" in _plain(many)
    assert shown.text.count("data/2/scan.jpg") == 20


def test_many_classes(facts: RunFacts) -> None:
    """Of many classes the largest are shown."""
    counts = {f"class {index:03d}": index + 1 for index in range(200)}
    many = replace(facts, class_counts={"train": counts})
    table = page.balance(many)

    assert table is not None
    assert [row.name for row in table.rows.shown] == [f"class {index:03d}" for index in range(199, 169, -1)]
    assert (table.rows.left, table.left_records) == (170, sum(range(1, 171)))
    assert "The 30 largest classes, and 170 more with 14,535 records." in _plain(many)


def test_few_classes(facts: RunFacts) -> None:
    """A few classes keep their order and show what a split lacks."""
    table = page.balance(replace(facts, class_counts={"eval": {"b": 4}, "train": {"b": 1, "a": 3}}))

    assert table == page.Balance(
        splits=("train", "eval"),
        totals=(4, 4),
        rows=page.Cut((page.ClassRow("b", (1, 4), (0.25, 1.0)), page.ClassRow("a", (3, 0), (0.75, 0.0))), 0),
        left_records=0,
        largest=page.ClassRow("b", (1, 4), (0.25, 1.0)),
        smallest=page.ClassRow("a", (3, 0), (0.75, 0.0)),
    )


def test_matrix_or_pairs(facts: RunFacts) -> None:
    """Up to thirty classes are a matrix and more are pairs."""

    def confusion(size: int) -> RunFacts:
        matrix = tuple(tuple(5 if row == column else row % 3 for column in range(size)) for row in range(size))
        return replace(facts, confusion=matrix, classes=tuple(f"class {index}" for index in range(size)))

    matrix, pairs = page.render(confusion(30)), page.render(confusion(31))

    assert "Confusion matrix of 30 classes" in " ".join(_labels(matrix))
    assert "Confusion matrix" not in " ".join(_labels(pairs))
    assert "31 classes: the pairs most often mistaken." in Page(pairs).text
    assert len(Page(pairs).all("tr")) - len(Page(page.render(replace(facts, confusion=()))).all("tr")) == 21


def test_unnamed_classes(facts: RunFacts) -> None:
    """Classes without a name have their number."""
    assert "2 1 2 18.2 %" in _plain(replace(facts, classes=()))


def test_no_mistakes(facts: RunFacts) -> None:
    """A model without mistakes is praised for it."""
    assert "No record was mistaken." in _plain(replace(facts, confusion=((3, 0), (0, 4))))


@pytest.mark.parametrize(("kind", "expected"), [("PNG", "png"), ("JPEG", "jpeg"), ("GIF", "gif"), ("WEBP", "webp")])
def test_image(kind: str, expected: str) -> None:
    """A sample is shown in the format it has."""
    buffer = BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, kind)
    content = buffer.getvalue()
    address = Markup("data:image/{};base64,{}").format(expected, base64.b64encode(content).decode())

    assert page.picture(SampleImage("red", content)) == page.Picture("red", address, small=True, note="8 × 8")


def test_thumbnail() -> None:
    """A large sample becomes a thumbnail."""
    buffer = BytesIO()
    Image.effect_noise((900, 600), 60).save(buffer, "PNG")
    shown = page.picture(SampleImage("noise", buffer.getvalue()))

    assert shown.address is not None
    with Image.open(BytesIO(base64.b64decode(shown.address.split(",")[1]))) as thumbnail:
        assert (thumbnail.format, thumbnail.size) == ("JPEG", (256, 171))
    assert (shown.small, shown.note) == (False, "900 × 600")


@pytest.mark.parametrize("content", [b"", b"<svg onload='alert(1)'/>", b"\x89PNG\r\n\x1a\n truncated", b"\xff\xd8\xff"])
def test_no_image(content: bytes) -> None:
    """Bytes that are no image are said to be so."""
    assert page.picture(SampleImage("odd", content)) == page.Picture("odd", None, small=False, note="cannot be shown")


def test_image_bomb() -> None:
    """An image that would fill the memory is not decoded."""
    buffer = BytesIO()
    Image.new("1", (12_000, 12_000)).save(buffer, "PNG")

    assert page.picture(SampleImage("bomb", buffer.getvalue())).note == "12000 × 12000, not shown"


def test_nan_curves(facts: RunFacts) -> None:
    """Curves of nothing but NaN say so."""
    text = _plain(replace(facts, curves={"loss": {"train": (math.nan, math.nan)}}, best_epoch=None))

    assert "Values at the last epoch. A cross marks an epoch whose value is no number." in text
    assert "loss train NaN No epoch has a value that is a number." in text


def test_best_epoch(facts: RunFacts) -> None:
    """The best epoch is counted from one."""
    assert "Values at the best epoch, 3. loss train 0.5000 eval 0.6000" in _plain(facts)


def test_what_training_waited_for(facts: RunFacts) -> None:
    """Beside the curves, where it is known; the reason is part of it."""
    said = "input-bound 34 %: decoding is the limit; store at 256 px (2.2x) or use 4 cores"

    assert f"Training was {said}. loss train" in _plain(replace(facts, input_verdict=said))
    assert "Training was" not in _plain(facts)


def test_headings(facts: RunFacts) -> None:
    """Headings go down one step at a time."""
    levels = [int(tag[1]) for tag, _ in Page(page.render(facts)).elements if re.fullmatch(r"h[1-6]", tag)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_accessible(facts: RunFacts) -> None:
    """Tables and images can be heard."""
    shown = Page(page.render(facts))

    assert all(header.get("scope") in {"col", "colgroup", "row"} for header in shown.all("th"))
    assert all(image.get("alt") for image in shown.all("img"))
    assert all(
        (svg.get("role") == "img" and svg.get("aria-label")) or svg.get("aria-hidden") == "true"
        for svg in shown.all("svg")
    )


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(facts: RunFacts, dark: bool) -> None:
    """Every text has the contrast that small letters need."""
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
    """The page is written whole."""
    path = tmp_path / "report.html"
    path.write_text("an older one")
    page.write(facts, path)

    assert path.read_text("utf-8") == page.render(facts)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_write_fails(facts: RunFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure leaves the older page and nothing beside it."""
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
    """The visible text with single spaces."""
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
    """The ratio that WCAG 2 defines."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: tuple[float, ...]) -> float:
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
