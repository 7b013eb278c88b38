"""docs/promises.md is true: every promise has a test that exists and names it, or a reason why there is none yet."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
COUNTS = {"A": 18, "B": 16, "C": 7, "D": 11}
_ROW = re.compile(r"^\| ([A-D]\d+) \| .+ \| .+ \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_ID = re.compile(r"\b[A-D]\d{1,2}\b")


class Promise(NamedTuple):
    """A row of the page: the promise's ID and the text of its last cell."""

    id: str
    evidence: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        """Returns file and name of each test that holds the promise."""
        return _TEST.findall(self.evidence)


PROMISES = [Promise(*row) for row in _ROW.findall((ROOT / "docs/promises.md").read_text(encoding="utf-8"))]


def docstrings(file: str, name: str) -> str:
    """Returns the docstrings of a test and of its file and class, or nothing if there is no such test."""
    source = (ROOT / file).read_text(encoding="utf-8")
    found = re.search(rf'^( *)def {name}\(.*?\n *"""(.*?)"""', source, re.MULTILINE | re.DOTALL)
    if not found:
        return ""
    above = source[: found.start()]
    classes = re.findall(r'^class \w+.*?:\n    """(.*?)"""', above, re.MULTILINE | re.DOTALL) if found[1] else []
    return " ".join([source.split('"""')[1], *classes[-1:], found[2]])


def test_every_promise_has_a_row() -> None:
    """In order, each once."""
    assert [promise.id for promise in PROMISES] == [
        f"{part}{n + 1}" for part, count in COUNTS.items() for n in range(count)
    ]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.id)
def test_the_evidence_exists(promise: Promise) -> None:
    """Each test that a row names is there and names the promise; a row without one says why."""
    silent = [name for file, name in promise.tests if promise.id not in _ID.findall(docstrings(file, name))]

    assert silent == []
    assert promise.tests or re.fullmatch(r"not yet: .{20,}", promise.evidence)


def test_tests_cite_only_promises_of_the_page() -> None:
    """An ID in a test's docstring can be looked up."""
    cited = {
        promise
        for file in (ROOT / "tests").rglob("test_*.py")
        for text in re.findall(r'"""((?:Promises? )?[A-D]\d.*?)"""', file.read_text(encoding="utf-8"), re.DOTALL)
        for promise in re.findall(r"\b[A-D]\d{1,2}\b", re.split(r"[:]", text)[0])
    }

    assert cited <= {promise.id for promise in PROMISES}
