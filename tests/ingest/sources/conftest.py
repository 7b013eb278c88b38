"""Fixtures for the tests of text sources; a test module sets `SOURCE` and the file `NAME`."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[bytes | str], Path]:
    """Writes content to a file with the `NAME` of the test module."""

    def to(content: bytes | str) -> Path:
        path = tmp_path / request.module.NAME
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return to


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Reads in blocks of a few bytes, so that small files are as hard to read as large ones."""
    monkeypatch.setattr(f"{type(request.module.SOURCE).__module__}._BLOCK", 16)
    monkeypatch.setattr("components.ingest.sources.text_ranges._DIVIDE_BLOCK", 8)
