"""Findings of the Gate that a person accepted: each for one state of the data and one live model, with who and why.

    penstock run … --accept drift:age --because "new tariff" ─► <state>/.penstock/accepted.json ─► plan ─► Gate's key

Other data, such as the next span, is another state: nothing is accepted for it. Nor is it against another live model.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import orjson

from components.errors import BadInput, FlagError
from components.serving import live
from components.storage import durable
from pipelines.config import RunConfig

FILE = "accepted.json"
_FINDING = re.compile(r"(drift|missing|classes|records):.+", re.DOTALL)


@dataclass(frozen=True)
class Accepted:
    """The findings that were accepted for one state of the data, compared with one live model."""

    data: str  # digest
    live: str  # digest of what it is compared with
    span: str
    all: tuple[Mapping[str, str], ...]  # finding, who, because, when
    is_new: bool  # one of them at least was accepted with this run


def make(
    config: RunConfig, data: str, live_digest: str, span: str, findings: Collection[str], because: str
) -> Accepted:
    """Returns what was accepted for this data and live model before, and the findings that are accepted now."""
    require_valid(findings, because)
    known = [each["accepted"] for each in _read(config) if _state(each) == (data, live_digest)]
    present = {each["finding"] for each in known}
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    new = [
        {"finding": finding, "who": live.actor(), "because": because, "when": now}
        for finding in dict.fromkeys(findings)
        if finding not in present
    ]
    return Accepted(data, live_digest, span, tuple(sorted([*known, *new], key=lambda each: each["finding"])), bool(new))


def require_valid(findings: Collection[str], because: str) -> None:
    """Rejects what is not a finding, and findings without a reason."""
    for finding in findings:
        if not _FINDING.fullmatch(finding):
            raise FlagError(
                f"--accept {finding}: expected a finding as the Gate names it, such as drift:age, missing:age, "
                "classes:label or records:span"
            )
        if not because.strip():
            raise FlagError(f'--accept {finding}: expected a reason, which is recorded: --because "why it is right"')


def write(config: RunConfig, accepted: Accepted) -> None:
    """Writes down what was accepted, beside what was accepted for other data."""
    if not accepted.is_new:
        return
    others = [each for each in _read(config) if _state(each) != (accepted.data, accepted.live)]
    mine = [
        {"data": accepted.data, "live": accepted.live, "span": accepted.span, "accepted": each} for each in accepted.all
    ]
    durable.write_bytes(config.notes / FILE, orjson.dumps([*others, *mine], option=orjson.OPT_INDENT_2))


def _state(stored: Mapping[str, Any]) -> tuple[str, str]:
    return stored["data"], stored.get("live", "")


def _read(config: RunConfig) -> list[dict[str, Any]]:
    file = config.notes / FILE
    try:
        stored: list[dict[str, Any]] = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise BadInput(
            f"{file}: damaged ({error}); expected what Penstock wrote: restore it, or delete it and accept again"
        ) from None
    return stored
