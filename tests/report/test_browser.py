"""The page in a real browser without network."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from pipelines.report import page
from pipelines.report.facts import RunFacts

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # No network in two ways: no name resolves, and the proxy is a port where nothing listens.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="Chromium is not on the PATH; install it to run this test"),
]


def browse(path: Path, profile: Path, *flags: str) -> str:
    """Opens a file in a fresh browser and returns its output."""
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={profile}", *flags, path.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def test_opens_offline(facts: RunFacts, tmp_path: Path) -> None:
    """D6: the page opens offline, applies its style sheet, and runs no script."""
    path, shot = tmp_path / "report.html", tmp_path / "shot.png"
    page.write(replace(facts, classes=("<script>document.title='owned'</script>", "1", "2")), path)

    dom = browse(path, tmp_path / "profile", "--dump-dom")
    browse(path, tmp_path / "other", f"--screenshot={shot}", "--window-size=1280,2400")

    assert 'aria-label="Confusion matrix of 3 classes: 27 of 30 records predicted correctly"' in dom
    assert "<title>digits · Blessed &amp; pushed · Penstock</title>" in dom
    assert "<script" not in dom
    with Image.open(shot) as image:
        colours = image.convert("RGB").getcolors(maxcolors=2**24) or []
        assert (image.format, image.size) == ("PNG", (1280, 2400))
    assert len(colours) > 100
    # The policy admits the style sheet by its hash: the background has its light or its dark colour.
    assert max(colours)[1] in {(0xF3, 0xF5, 0xF8), (0xFF, 0xFF, 0xFF), (0x0C, 0x10, 0x16), (0x15, 0x1B, 0x23)}
