"""Who gets notifications: a command, a webhook, or both."""

import os
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from components import helper_process
from components.errors import SettingsError
from components.redact import redact
from components.settings.notify import Notify, check_webhook
from pipelines.config import RunConfig, local_folder
from pipelines.notify import bounded
from pipelines.notify.notification import Notification, body, environment

VARIABLE = "PENSTOCK_NOTIFY_WEBHOOK"
_POST = "from pipelines.notify.post import main; main()"
_TOO_MANY = (408, 425, 429)  # HTTP: try again
_REDIRECTS = range(300, 400)
_LONGEST = 200  # characters of an answer
_PART = 6  # characters of a part of an address that is hidden wherever it is


@dataclass(frozen=True)
class Answer:
    """What a receiver answered."""

    is_taken: bool
    text: str  # one line, without secrets
    try_again: bool = False  # now: it may be different in a moment
    is_about_one: bool = False  # the receiver may take other notifications all the same


class Receiver(Protocol):
    """Takes notifications."""

    @property
    def name(self) -> str:
        """Its name in the outbox."""

    @property
    def shown(self) -> str:
        """What a person may see of it."""

    def send(self, notification: Notification, seconds: float) -> Answer:
        """Hands it a notification, within some seconds."""


@dataclass(frozen=True)
class CommandReceiver:
    """A program, which is called with the notification on its standard input and in its environment."""

    command: tuple[str, ...]
    folder: Path
    name = "command"

    @property
    def shown(self) -> str:
        """The program, without its arguments."""
        return f"command {self.command[0]}"

    def send(self, notification: Notification, seconds: float) -> Answer:
        """Runs the program."""
        given = {**os.environ, **environment(notification)}
        try:
            ended = bounded.run(self.command, body(notification) + b"\n", given, self.folder, seconds)
        except OSError as error:
            return Answer(False, f"cannot be started: {error.strerror}")
        said = _line(ended.output)
        if ended.code is None:
            return Answer(False, f"stopped: it did not end within {seconds:,.1f} s{': ' * bool(said)}{said}")
        text = f"exit code {ended.code}{': ' * bool(said)}{said}"
        return Answer(ended.code == 0, text, try_again=True, is_about_one=True)


@dataclass(frozen=True)
class WebhookReceiver:
    """An address that notifications are posted to."""

    find: Callable[[], str]  # raises OSError or ValueError
    source: str  # where the address is from
    name = "webhook"

    @property
    def shown(self) -> str:
        """Scheme and host of the address."""
        try:
            parts = urllib.parse.urlsplit(self.find())
        except (OSError, ValueError):
            return f"webhook ({self.source})"
        return f"webhook {parts.scheme}://{parts.netloc}/*** ({self.source})"

    def send(self, notification: Notification, seconds: float) -> Answer:
        """Posts it."""
        try:
            url = self.find()
        except OSError as error:
            return Answer(False, f"{self.source} cannot be read: {error.strerror}")
        except ValueError as error:
            return Answer(False, f"{self.source}: {error}")
        given = {"url": url, "id": notification.id, "body": body(notification).decode(), "seconds": seconds}
        try:
            ended = bounded.run(helper_process.command(_POST), orjson.dumps(given), os.environ, None, seconds)
        except OSError as error:
            return Answer(False, f"no process can be started: {error.strerror}")
        if ended.code is None:
            return Answer(False, f"no answer within {seconds:,.1f} s")
        if ended.code:
            return Answer(False, without_address(_line(ended.output), url))
        return _answer(orjson.loads(ended.output.splitlines()[-1]), url)


def of(config: RunConfig) -> list[Receiver]:
    """Returns the receivers of a pipeline; none if it has no such settings."""
    settings = config.settings.notify
    found: list[Receiver] = []
    if settings.command:
        found.append(CommandReceiver(settings.command, config.state if config.state.is_dir() else Path("/")))
    if webhook := _webhook(settings):
        found.append(webhook)
    return found


def required(config: RunConfig) -> list[Receiver]:
    """Returns the receivers of a pipeline; raises SettingsError if it has none."""
    if found := of(config):
        return found
    raise SettingsError(
        f"pipeline {config.name}: no receiver to notify; name a program by notify.command, or the address of a webhook "
        f"by notify.webhook_file or {VARIABLE}"
    )


def hidden(config: RunConfig, text: str) -> str:
    """Returns a text without the address of a pipeline's webhook, wherever it is kept."""
    with suppress(OSError, ValueError):
        if webhook := _webhook(config.settings.notify):
            return without_address(text, webhook.find())
    return text


def without_address(text: str, url: str) -> str:
    """Returns a text with *** instead of the address of a webhook and of the parts of its path and query."""
    parts = urllib.parse.urlsplit(url)
    words = [*parts.path.split("/"), *parts.query.replace("=", "&").split("&")]
    hidden = [url, f"{parts.path}?{parts.query}", parts.path, *words]
    for each in sorted(hidden, key=len, reverse=True):
        if len(each) >= _PART:
            text = text.replace(each, "***")
    return text


def _webhook(settings: Notify) -> WebhookReceiver | None:
    if settings.webhook:
        return WebhookReceiver(settings.webhook.get_secret_value, "notify.webhook")
    if settings.webhook_file:
        file = local_folder("notify.webhook_file", settings.webhook_file)
        return WebhookReceiver(lambda: _first_line(file.read_text(errors="replace")), "notify.webhook_file")
    if os.environ.get(VARIABLE):
        return WebhookReceiver(lambda: _first_line(os.environ[VARIABLE]), VARIABLE)
    return None


def _first_line(text: str) -> str:
    return check_webhook((text.strip().splitlines() or [""])[0].strip())


def _answer(result: Mapping[str, str | int], url: str) -> Answer:
    if "error" in result:
        return Answer(False, without_address(_line(str(result["error"])), url), try_again=True)
    status, said = int(result["status"]), without_address(_line(str(result["answer"])), url)
    if status in _REDIRECTS:
        return Answer(False, f"HTTP {status}: a redirect, which is not followed; give the address that it leads to")
    is_taken = 200 <= status < 300  # noqa: PLR2004 - HTTP
    text = f"HTTP {status}{': ' * bool(said)}{said}"
    return Answer(is_taken, text, try_again=status >= 500 or status in _TOO_MANY)  # noqa: PLR2004


def _line(text: str) -> str:
    """Returns the last line of a text, as a terminal can print it."""
    lines: Sequence[str] = text.strip().splitlines() or [""]
    return redact("".join(each if each.isprintable() else " " for each in lines[-1]))[:_LONGEST]
