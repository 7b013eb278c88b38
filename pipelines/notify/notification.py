"""A notification: what is sent, as JSON and as environment variables of a command."""

import hashlib
from dataclasses import asdict, dataclass
from typing import Literal

import orjson

from components.settings.notify import NotifyEvent

MOST_TEXT = 500  # characters of a reason
Event = NotifyEvent | Literal["test"]


@dataclass(frozen=True)
class Notification:
    """One thing that happened to a pipeline."""

    pipeline: str
    task: str
    time: str  # ISO 8601, UTC
    host: str
    root: str
    state: str  # of the run, as `penstock runs` shows it, or of the tick
    reason: str  # one line
    event: Event | None = None  # None: not decided yet
    id: str = ""  # the same in every attempt to send it
    run: str = ""
    span: str = ""
    tick: str = ""  # of a schedule
    exit_code: int | None = None
    version: str = ""  # that was pushed
    live_version: int | None = None
    recovered_from: str = ""  # reason of the trouble that is over
    log: str = ""
    report: str = ""

    @property
    def text(self) -> str:
        """The notification in one line, in which nothing is a command of a chat program."""
        what = f"{self.event} ({self.state})" if self.event == "failed" and self.state != "failed" else self.event
        version = f" version {self.version}" if self.event == "pushed" and self.version else ""
        before = f"; before: {self.recovered_from}" if self.recovered_from else ""
        facts = {
            "run": self.run,
            "tick": self.tick,
            "span": self.span,
            "exit code": self.exit_code,
            "live version": self.live_version,
            "host": self.host,
        }
        shown = ", ".join(f"{name} {value}" for name, value in facts.items() if value not in ("", None))
        return _plain(f"{self.pipeline}: {what}{version}: {self.reason}{before} ({shown})")


def body(notification: Notification) -> bytes:
    """Returns the notification as JSON; `text` is what chat programs show."""
    return orjson.dumps({"text": notification.text, **asdict(notification)})


def environment(notification: Notification) -> dict[str, str]:
    """Returns the environment variables of a command: PENSTOCK_EVENT, and PENSTOCK_EVENT_RUN and its like."""
    fields = {"text": notification.text, **asdict(notification)}
    given = {
        f"PENSTOCK_EVENT_{name.upper()}": "" if value is None else str(value).replace("\0", " ")
        for name, value in fields.items()
    }
    return {"PENSTOCK_EVENT": given.pop("PENSTOCK_EVENT_EVENT"), **given}


def id_of(root: str, pipeline: str, key: str, event: Event) -> str:
    """Returns the id of a notification: a digest, so that the same one has the same id whoever makes it."""
    return hashlib.sha256(f"{root}\n{pipeline}\n{key}\n{event}".encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _plain(text: str) -> str:
    """Returns a text, which may quote any data, that mentions nobody: <!channel> in Slack, @all in Mattermost."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("@", "@\u200b")
