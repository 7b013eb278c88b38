"""The pages in a real browser: keyboard, accessibility tree, and what the page's own script does."""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.ui import site
from pipelines.ui.server import UiServer
from pipelines.ui.site import Site

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
KEYS = {"Tab": 9, "Enter": 13, "ArrowDown": 40}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not on the PATH; install it to run this test"),
]


class Browser:
    """Chromium, spoken to over two pipes: messages of the DevTools protocol, each followed by a NUL."""

    def __init__(self, profile: Path) -> None:
        reading, its_output = os.pipe()
        its_input, writing = os.pipe()
        # The protocol is spoken on descriptors 3 and 4, which a shell can give to others.
        command = ["bash", "-c", f'exec "$@" 3<&{its_input} 4>&{its_output}', "bash"]
        self._process = subprocess.Popen(
            [*command, str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(its_input, its_output),
            stderr=subprocess.DEVNULL,
        )
        os.close(its_input)
        os.close(its_output)
        self._write, self._read = os.fdopen(writing, "wb"), os.fdopen(reading, "rb")
        self._number, self._session, self._left = 0, "", b""
        self.messages: list[str] = []  # of the console: what the security policy blocked, errors of scripts
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Accessibility"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._write.write(json.dumps({**message, **({"sessionId": self._session} if self._session else {})}).encode())
        self._write.write(b"\0")
        self._write.flush()
        while (answer := self._receive()).get("id") != self._number:
            self._noted(answer)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def open(self, url: str) -> None:
        """Opens a page and waits until it is loaded."""
        self.send("Page.navigate", url=url)
        while (event := self._receive()).get("method") != "Page.loadEventFired":
            self._noted(event)

    def press(self, key: str) -> None:
        """Presses a key."""
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        self.send("Input.dispatchKeyEvent", type="keyDown", **code, **({"text": "\r"} if key == "Enter" else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    def run(self, script: str) -> Any:
        """Returns the value of a script."""
        return self.send("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def tree(self) -> list[tuple[str, str]]:
        """Returns role and name of what a screen reader meets, in order."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]

    def close(self) -> None:
        """Ends the browser."""
        self.send("Browser.close")
        self._process.wait(30)
        self._write.close()
        self._read.close()

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            part = os.read(self._read.fileno(), 1 << 16)
            assert part, "the browser has ended"
            self._left += part
        message, _, self._left = self._left.partition(b"\0")
        return dict(json.loads(message))

    def _noted(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Log.entryAdded":
            self.messages.append(event["params"]["entry"]["text"])
        if event.get("method") == "Runtime.exceptionThrown":
            self.messages.append(str(event["params"]["exceptionDetails"]))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this file."""
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture
def page(root: Path, tmp_path: Path) -> str:
    """Address of the page of a pipeline, written as a file."""
    written = site.write(root, tmp_path / "out")
    return next(written.parent.glob("customers-*.html")).as_uri()


def focused(browser: Browser) -> tuple[str, bool]:
    """Returns the name of what has the focus, and whether a person can see that it has it."""
    name, outline = browser.run(
        "(() => { const e = document.activeElement, s = getComputedStyle(e);"
        " return [e.getAttribute('aria-label') || e.textContent.trim().slice(0, 40) || e.id,"
        " s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0] })()"
    )
    return str(name), bool(outline)


def test_the_order_of_the_tab_key(browser: Browser, page: str) -> None:
    """First the link that skips to the content, then the page from top to bottom; the focus is always visible."""
    browser.open(page)
    seen = []
    for _ in range(12):
        browser.press("Tab")
        seen.append(focused(browser))

    assert [name for name, _ in seen[:8]] == [
        "Skip to the content", "All pipelines", "report of the newest run",
        "Schedule", "Live model", "Trends", "Runs", "Compare two runs",
    ]  # fmt: skip
    assert [name for name, is_visible in seen if not is_visible] == []


def test_a_table_is_sorted_by_keyboard(browser: Browser, page: str) -> None:
    """Enter on a header sorts by it, once more turns it around; a screen reader announces it."""
    browser.open(page)
    browser.run("document.querySelector('#runs th:nth-child(6) button').focus()")
    column = "[...document.querySelectorAll('#runs tbody tr')].map(row => row.cells[5].textContent)"
    state = "document.querySelector('#runs th:nth-child(6)').getAttribute('aria-sort')"
    browser.press("Enter")
    rising = browser.run(column), browser.run(state), browser.run("document.getElementById('status').textContent")
    browser.press("Enter")

    assert rising == (["256", "257", "258"], "ascending", "sorted by Records, ascending")
    assert (browser.run(column), browser.run(state)) == (["258", "257", "256"], "descending")


def test_two_runs_are_compared_by_keyboard(browser: Browser, page: str) -> None:
    """An arrow key chooses another run; only what differs is shown, as text."""
    browser.open(page)
    browser.run("document.getElementById('compare-b').focus()")
    browser.press("ArrowDown")
    browser.press("ArrowDown")
    rows = browser.run(
        "[...document.querySelectorAll('#compare-result tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    first = {row[0]: row[1:] for row in rows}

    assert first["setting: train.epochs"] == ["17", "16"]
    assert first["state"] == ["gate stopped", "succeeded"]
    assert "node Trainer" not in first
    assert "data" not in first


def test_the_accessibility_tree(browser: Browser, page: str) -> None:
    """Landmarks, headings, tables, charts and lists have roles and names."""
    browser.open(page)
    tree = browser.tree()

    assert {role for role, _ in tree} >= {"banner", "navigation", "main", "contentinfo", "status"}
    assert [name for role, name in tree if role == "heading"][:4] == [
        "customers", "Schedule", "Last 3 ticks (UTC)", "Next ticks (UTC)",
    ]  # fmt: skip
    assert ("region", "Compare two runs") in tree
    assert ("list", "Last ticks, oldest first") in tree
    assert ("image", "accuracy over 3 runs, from 0.8160 to 0.8180") in tree
    assert ("columnheader", "Duration") in tree
    assert ("combobox", "against") in tree
    named = ("link", "button", "image", "combobox", "progressbar", "group")
    assert [each for each in tree if each[0] in named and not each[1]] == []


def test_nothing_is_blocked_and_nothing_fails(browser: Browser, page: str) -> None:
    """D6: offline as a file, the security policy blocks nothing of the page, and its script has no error."""
    browser.messages.clear()
    browser.open(page)

    assert browser.run("getComputedStyle(document.querySelector('.card')).borderTopLeftRadius") == "12px"
    assert browser.run("document.querySelectorAll('th button').length") > 10
    assert browser.run("performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length") == 0
    assert browser.messages == []


def test_the_served_page(browser: Browser, root: Path) -> None:
    """Over the server too, links and reports included."""
    with UiServer(Site(root)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        browser.messages.clear()
        browser.open(server.url)
        link = browser.run("[...document.querySelectorAll('tbody a')].find(a => a.textContent == 'customers').href")
        browser.open(str(link))
        title = browser.run("document.title")
        browser.open(str(browser.run("document.querySelector('#runs td a').href")))
        report = browser.run("document.title")
        server.shutdown()
        thread.join()

    assert re.fullmatch(rf"{server.url}customers-[0-9a-f]{{8}}\.html", str(link))
    assert (title, report, browser.messages) == ("customers · Penstock", "report", [])
