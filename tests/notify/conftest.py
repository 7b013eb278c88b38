"""A real HTTP receiver, pipelines whose runs are written by hand, and time that does not pass."""

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.notify import after_call
from pipelines.notify.deliver import Pace
from pipelines.notify.notification import Notification

SECRET = "T0K3N-of-the-hook"  # noqa: S105 - of a test


class Receiver:
    """A webhook on loopback that answers what a test wants."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[tuple[int, str]] = []  # the next ones; then 200
        self.arrived, self.released = threading.Event(), threading.Event()
        self.is_slow = False
        self.more: dict[str, str] = {}  # headers of the answer
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                receiver.headers.append(dict(self.headers.items()))
                receiver.arrived.set()
                if receiver.is_slow:
                    receiver.released.wait()
                status, text = receiver.answers.pop(0) if receiver.answers else (200, "ok")
                self.send_response(status)
                for name, value in receiver.more.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST  # noqa: N815 - Python's names

            def log_message(self, *_: Any) -> None:
                """Prints nothing."""

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """Says nothing about a client that is gone."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.01])
        self.thread.start()

    @property
    def url(self) -> str:
        """The address, with a secret in path and query."""
        return f"http://127.0.0.1:{self.server.server_port}/services/{SECRET}?key={SECRET}&b=1"

    @property
    def events(self) -> list[str]:
        """The events that arrived."""
        return [each["event"] for each in self.got]

    def stop(self) -> None:
        """Ends the receiver: from now on nothing listens on its port."""
        self.released.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A webhook, which no proxy is asked for."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Receiver()
    yield made
    made.stop()


@dataclass
class FrozenPace:
    """Time that only passes in `sleep`."""

    time: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        """Moves on."""
        self.slept.append(seconds)
        self.time += seconds

    @property
    def pace(self) -> Pace:
        """What `deliver` takes."""
        return Pace(lambda: self.time, self.sleep)


@pytest.fixture
def frozen() -> FrozenPace:
    """Time that does not pass."""
    return FrozenPace()


class Pipeline:
    """A pipeline that notifies, and what writes its runs."""

    def __init__(self, root: Path, pace: Pace, flags: tuple[str, ...]) -> None:
        self.config: RunConfig = run_config.make("image", name="ants", data=".", root=str(root), flags=flags)
        self._pace = pace

    def call(self, run: str, code: int = 0, reason: str = "fine", span: str = "", **result: Any) -> None:
        """Runs a call to its end, as `penstock run` does."""
        with after_call.sent(self.config, self._pace), calls.opened(self.config, Origin(run, (), span)) as call:
            call.end(code, reason, **result)

    def outbox(self) -> list[str]:
        """Returns the events that are still to be sent."""
        return [str(each.notification.event) for each in after_call.file_of(self.config).read().outbox]


@pytest.fixture
def pipeline(tmp_path: Path, frozen: FrozenPace) -> Callable[..., Pipeline]:
    """Returns the function that makes a pipeline with some settings, on one root."""
    return lambda *flags: Pipeline(tmp_path / "root", frozen.pace, flags)


@pytest.fixture
def hooked(pipeline: Callable[..., Pipeline], receiver: Receiver, tmp_path: Path) -> Pipeline:
    """A pipeline with a webhook whose address is in a file."""
    (tmp_path / "hook").write_text(f"{receiver.url}\n")
    made: Pipeline = pipeline(f"notify.webhook_file={tmp_path}/hook")
    return made


@pytest.fixture
def at() -> Callable[[str], datetime]:
    """Returns an instant from its text, UTC."""
    return lambda text: datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.fixture
def a_notification() -> Callable[..., Notification]:
    """Returns the function that makes a notification."""

    def make(**changed: Any) -> Notification:
        fields: dict[str, Any] = {
            "pipeline": "ants", "task": "image", "time": "2026-03-09T02:00:00.000+00:00", "host": "here", "root": "/r",
            "state": "failed", "reason": "data: empty", "event": "failed", "id": "0" * 32, "run": "R", "exit_code": 4,
        }  # fmt: skip
        return Notification(**{**fields, **changed})

    return make
