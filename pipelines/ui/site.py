"""The pages of a folder by address: written as files, or served.

index.html                       all pipelines
<key>.html                       one pipeline
<key>/report.html                report of its newest run        served only: as files, the pages link to the
<key>/runs/<run id>.html         report of a run                 reports where they are
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

from components.storage import durable
from pipelines.ui import overview, pages
from pipelines.ui.overview import Overview, PipelineView
from pipelines.watch.history import Run

INDEX = "index.html"
_MAX_REPORT = 64 << 20  # bytes; reports of Penstock are far smaller


@dataclass(frozen=True)
class FileLinks:
    """Addresses for pages in a folder: relative paths of the reports."""

    folder: Path

    def newest(self, view: PipelineView) -> str:
        """Returns the address of the report of the newest run."""
        return self._path(view.pipeline.report) if view.pipeline.report.is_file() else ""

    def report(self, view: PipelineView, run: Run) -> str:
        """Returns the address of the report of a run."""
        del view
        return self._path(run.report) if run.report else ""

    def _path(self, file: Path) -> str:
        return quote(os.path.relpath(file.absolute(), self.folder.absolute()), safe="/", errors="surrogateescape")


@dataclass
class ServedLinks:
    """Addresses for pages on the server; collects the file of each."""

    files: dict[str, Path] = field(default_factory=dict)

    def newest(self, view: PipelineView) -> str:
        """Returns the address of the report of the newest run."""
        return self._known(f"{view.key}/report.html", view.pipeline.report) if view.pipeline.report.is_file() else ""

    def report(self, view: PipelineView, run: Run) -> str:
        """Returns the address of the report of a run."""
        return self._known(f"{view.key}/runs/{run.id}.html", run.report) if run.report else ""

    def _known(self, address: str, file: Path) -> str:
        self.files[f"/{address}"] = file
        return quote(address, safe="/")


def write(folder: Path, target: Path) -> Path:
    """Writes the pages of all pipelines in a folder into another one, and returns the index."""
    found = overview.read(folder, _now())
    target.mkdir(mode=durable.OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
    links = FileLinks(target)
    for view in found.pipelines:
        durable.write_bytes(target / f"{view.key}.html", pages.of_pipeline(found, view, links).encode(), private=True)
    durable.write_bytes(target / INDEX, pages.index(found, links).encode(), private=True)
    return target / INDEX


class Site:
    """What the server answers: pages made when they are asked for, at most every two seconds; reports as they are."""

    def __init__(self, folder: Path, fresh: float = 2.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Serves the pipelines in a folder.

        Args:
            folder: a root, or a folder of roots.
            fresh: seconds for which pages are not made again.
            clock: seconds, for tests.
        """
        self._folder, self._fresh, self._clock = folder, fresh, clock
        self._lock = threading.Lock()
        self._pages: dict[str, bytes] = {}
        self._files: dict[str, Path] = {}
        self._made = float("-inf")

    def page(self, address: str) -> bytes | None:
        """Returns the page at an address; None if there is none."""
        with self._lock:
            if self._clock() - self._made >= self._fresh:
                self._make(overview.read(self._folder, _now()))
                self._made = self._clock()
            found, file = self._pages.get(address), self._files.get(address)
        return found if file is None else _content(file)

    def _make(self, found: Overview) -> None:
        links = ServedLinks()
        made = {f"/{view.key}.html": pages.of_pipeline(found, view, links).encode() for view in found.pipelines}
        made["/"] = made[f"/{INDEX}"] = pages.index(found, links).encode()
        self._pages, self._files = made, links.files


def _content(file: Path) -> bytes | None:
    """Returns a report; None if it is gone, or is a link, which could lead anywhere."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(_MAX_REPORT)


def _now() -> datetime:
    return datetime.now(timezone.utc)
