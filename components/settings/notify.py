"""Settings of notifications."""

import shlex
import urllib.parse
from typing import Annotated, Any, Literal, get_args

import pydantic

from components.settings.section import LocalPath, Section, split_names

NotifyEvent = Literal["failed", "recovered", "pushed", "not better", "late"]
EVENTS: tuple[NotifyEvent, ...] = get_args(NotifyEvent)


def check_webhook(url: str) -> str:
    """Returns an address that a webhook can have; raises ValueError, which does not repeat it."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or "@" in parts.netloc or not all("!" <= letter <= "~" for letter in url):
        raise ValueError("expected https://host/path, without user and password, with other characters as %XX")
    return url


def _checked(value: pydantic.SecretStr | None) -> pydantic.SecretStr | None:
    return pydantic.SecretStr(check_webhook(value.get_secret_value())) if value and value.get_secret_value() else None


def _split_command(value: Any) -> Any:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


class Notify(Section):
    """Who is notified when a run fails, recovers, pushes a model, gives no better one, or is late."""

    command: Annotated[tuple[str, ...], pydantic.BeforeValidator(_split_command)] = pydantic.Field(
        (), description="program and arguments that get a notification as JSON on standard input; no shell is involved"
    )
    webhook: Annotated[pydantic.SecretStr | None, pydantic.AfterValidator(_checked)] = pydantic.Field(
        None,
        description="http(s) address that a notification is posted to as JSON; it is a secret: rather give it by "
        "`notify.webhook_file` or the environment variable PENSTOCK_NOTIFY_WEBHOOK",
    )
    webhook_file: LocalPath = pydantic.Field("", description="file whose first line is the address of the webhook")
    on: Annotated[tuple[NotifyEvent, ...], pydantic.BeforeValidator(split_names)] = pydantic.Field(
        EVENTS, description="events to notify of; a run that the gate stopped has failed"
    )
    timeout: float = pydantic.Field(
        10.0, gt=0, le=600, description="seconds that a run may wait for receivers at its end, all attempts together"
    )

    @pydantic.model_validator(mode="after")
    def _one_address(self) -> "Notify":
        if self.webhook and self.webhook_file:
            raise ValueError("the address of the webhook is given twice: leave out webhook or webhook_file")
        return self
