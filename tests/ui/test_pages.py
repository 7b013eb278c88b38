"""The pages over all pipelines: complete, escaped, readable without colour, script and network."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pipelines.ui import pages
from pipelines.ui.overview import Overview
from pipelines.ui.site import FileLinks
from tests.report.html_page import Page
from tests.ui.conftest import EVIL, call, write_calls, write_live, write_schedule

Read = Callable[[], Overview]
HUGE = "x" * 10_000_000


def render(read: Read) -> tuple[str, str]:
    """Returns the index, and the page of the first pipeline."""
    found = read()
    links = FileLinks(found.folder)
    return pages.index(found, links), pages.of_pipeline(found, found.pipelines[0], links)


def words(html: str) -> str:
    """Returns the visible text with single spaces."""
    return " ".join(Page(html).text.split())


def test_the_index(read: Read) -> None:
    """A row per pipeline: last run, live version, metric, duration, next tick, report."""
    text = words(render(read)[0])

    assert "2 pipelines" in text
    assert "customers tabular succeeded 18 Nov 2026, 03:00 18 accuracy 0.8180 58.0 s 20 Nov 2026, 03:00" in text, text
    assert "flowers image failed 15 Nov 2026, 03:00 – accuracy 0.8150 55.0 s no schedule" in text


def test_the_metric_beside_the_live_version(root: Path, read: Read) -> None:
    """That of the live model: the last run evaluated another one, which is not live."""
    rejected = call(19, state="not blessed", exit_code=3, version="", metrics={"accuracy": 0.1})
    write_calls(root / "customers", rejected)

    assert " 18 accuracy 0.8180 " in words(render(read)[0])


def test_a_pipeline(read: Read) -> None:
    """Live model, its moves, ticks to come, trends and runs."""
    html = render(read)[1]
    shown = Page(html)
    text = words(html)

    assert [each["id"] for each in shown.all("section")] == ["schedule", "live", "trends", "runs", "compare"]
    assert "Version 18 is live; a rollback leads to version 16." in text
    assert "cron 0 3 * * * in UTC; overlap skip, catch-up last." in text
    assert "20261117-030000-abcd gate stopped 17 Nov 2026, 03:00 57.0 s 2026-11-17 257 0.8170 1.700" in text
    labels = [each.get("aria-label") for each in shown.all("svg")]
    assert "accuracy over 3 runs, from 0.8160 to 0.8180" in labels
    assert [each for each in labels if each and each == "18 Nov 2026, 03:00: gate stopped"]


def test_a_scheduler_that_does_not_run(root: Path, read: Read) -> None:
    """Ticks that are due and that no scheduler has handled are named."""
    from pipelines.schedule.ledger import ScheduleLedger

    ledger = ScheduleLedger(root / "customers" / ".penstock")
    ledger.file.unlink()
    write_schedule(root / "customers", [])

    assert "1 tick due since 19 Nov 2026, 03:00 UTC, and no scheduler has handled them" in words(render(read)[1])


def test_an_empty_folder(tmp_path: Path) -> None:
    """A sentence says what to do."""
    from pipelines.ui import overview
    from tests.ui.conftest import NOW

    found = overview.read(tmp_path, NOW)

    assert "No pipeline has run in this folder." in words(pages.index(found, FileLinks(tmp_path)))


@pytest.mark.parametrize("text", [EVIL, HUGE], ids=["markup", "10 MB"])
def test_markup_in_data(root: Path, read: Read, text: str) -> None:
    """D6: what data and people say is escaped and shortened, also in the data of the comparison."""
    settings = {"ingest": {"spans": text, "label": text}, text: {text: text}}
    write_calls(
        root / "customers",
        call(18, reason=text, data=text, task=text, metrics={"accuracy": 0.8, text: 1.0}, records={text: 1},
             settings=settings, nodes=({"id": text, "state": "ran", "seconds": 1.0},)),
    )  # fmt: skip
    write_live(root / "customers", 16, 18, reason=text)
    (root / "customers" / ".penstock" / "schedule.db").unlink()
    write_schedule(root / "customers", ["failed"], text)

    for html in render(read):
        shown = Page(html)
        assert len(html) < 400_000
        assert html.count("<script") == len(shown.all("script")) <= 2
        assert "alert(1)</script>" not in html
        assert not [each for _, each in shown.elements if any(name.startswith("on") for name in each)]


def test_the_policy_allows_what_the_page_has(read: Read) -> None:
    """D6: the style sheet and the script by their hashes, images of the page itself, and nothing else."""
    for html in render(read):
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
        assert policy is not None
        hashes = [
            base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()
            for each in (
                *re.findall(r"<style>(.*?)</style>", html, re.DOTALL),
                *re.findall(r"<script>(.*?)</script>", html, re.DOTALL),
            )
        ]
        assert policy[1] == (
            f"default-src 'none'; img-src data:; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
            "base-uri 'none'; form-action 'none'"
        )
        assert not re.search(r'(?:src|href)="(?:https?:)?//', html)


def test_the_data_of_the_comparison(read: Read) -> None:
    """Every run with its settings, times, records and metrics; no character can end the element."""
    html = render(read)[1]
    found = re.search(r'<script type="application/json" id="compare-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    runs = json.loads(found[1])

    assert not set("<>&") & set(found[1])
    assert [run["id"] for run in runs] == [f"202611{day}-030000-abcd" for day in (18, 17, 16)]
    assert runs[1]["values"]["setting: train.epochs"] == "17"
    assert runs[1]["values"]["drift / threshold"] == "1.700"


@pytest.mark.parametrize("text", ["wrong password=", "it's the token = 'x", '"password": "', 'password="abc'])
def test_text_like_a_secret_ends_at_its_element(root: Path, read: Read, text: str) -> None:
    """D5: a quotation mark without a second one hides the rest of its own text, and nothing of the page behind it."""
    write_calls(root / "customers", call(18, reason=text, data=text))
    html = render(read)[1]
    found = re.search(r'<script type="application/json" id="compare-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None

    assert [run["id"] for run in json.loads(found[1])] == [f"202611{day}-030000-abcd" for day in (18, 17, 16)]
    assert len(Page(html).all("script")) == 2
    assert "20261117-030000-abcd gate stopped" in words(html)


def test_a_secret_that_the_script_has_as_a_word(root: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: it is hidden in data, and the script stays as its hash in the security policy says."""
    monkeypatch.setenv("MY_TOKEN", "values")
    write_calls(root / "customers", call(18, reason="wrong values here", data="values"))
    html = render(read)[1]
    script = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)[0]

    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in html
    assert "wrong *** here" in words(html)
    assert '"data":"***"' in html


def test_headings_and_landmarks(read: Read) -> None:
    """One first heading, no level is left out; header, navigation, main and footer; tables have header cells."""
    for html in render(read):
        shown = Page(html)
        levels = [int(tag[1]) for tag, _ in shown.elements if re.fullmatch("h[1-6]", tag)]
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        assert [len(shown.all(tag)) for tag in ("header", "main", "footer")] == [1, 1, 1]
        assert all(header.get("scope") for header in shown.all("th"))
        assert all(svg.get("aria-label") or svg.get("aria-hidden") for svg in shown.all("svg"))
        assert shown.elements[[tag for tag, _ in shown.elements].index("a")][1]["href"] == "#main"
