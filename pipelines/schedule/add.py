"""Makes a schedule from what a person asks for: the flags of a retraining, with absolute paths."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from components.errors import SettingsError
from components.ingest.survey import spans
from components.redact import redact
from components.settings import tree
from pipelines.config import SETTINGS_FILE, RunConfig, metadata_server
from pipelines.schedule import schedule as schedules
from pipelines.schedule.schedule import CatchUp, Overlap, PipelineSchedule
from pipelines.schedule.timetable import time_zone


@dataclass(frozen=True)
class ScheduleWish:
    """When, and by which policies."""

    cron: str | None
    every: str | None
    zone: str
    overlap: str
    catch_up: str


def make(
    config: RunConfig,
    wish: ScheduleWish,
    places: Mapping[str, str | None],
    settings_file: str | None,
    flags: Sequence[str],
    now: datetime,
) -> PipelineSchedule:
    """Returns a schedule; raises SettingsError if the pipeline cannot be retrained or a wish is not valid.

    Args:
        config: the pipeline that results from the flags.
        wish: when, and by which policies.
        places: the flags for paths, by name; those that were not given stay away, so that a settings file decides.
        settings_file: the flag --settings.
        flags: the settings.
        now: the time, UTC.
    """
    if spans.unit_of(config.data) is None:
        raise SettingsError(
            f"{config.data}: no spans; expected a pattern with {{SPAN}}, or {{YYYY}}, {{MM}} and {{DD}}, such as "
            "'logs/{YYYY}-{MM}-{DD}/*.csv'"
        )
    time_zone(wish.zone)
    if any("webhook" in tree.parse_flag(flag).get("notify", {}) for flag in flags):
        raise SettingsError(
            "--set notify.webhook: a schedule stores its flags and shows them; give the address by "
            "notify.webhook_file, by the settings file, or by PENSTOCK_NOTIFY_WEBHOOK in the scheduler's environment"
        )
    arguments = tuple(_arguments(config, places, settings_file, flags))
    _require_no_secret(arguments)
    return PipelineSchedule(
        name=config.name,
        task=config.task.name,
        arguments=arguments,
        folder=str(Path.cwd()),
        rule=schedules.rule_of(wish.cron, wish.every),
        zone=wish.zone,
        since=now,
        overlap=schedules.policy("--overlap", wish.overlap, Overlap),
        catch_up=schedules.policy("--catch-up", wish.catch_up, CatchUp),
    )


def _arguments(
    config: RunConfig, places: Mapping[str, str | None], settings_file: str | None, flags: Sequence[str]
) -> list[str]:
    resolved = {
        "data": config.data, "root": str(config.root), "state": str(config.state), "name": config.name,
        "schema": config.schema, "metadata": places["metadata"],
    }  # fmt: skip
    if config.store is None:
        del resolved["state"]
    always = ("root", "state", "name")  # they say where the ledger is
    words = [
        word
        for name, value in resolved.items()
        if value and (name in always or places.get(name))
        for word in (f"--{name}", value)
    ]
    named = (
        settings_file or os.environ.get("PENSTOCK_SETTINGS") or (SETTINGS_FILE if Path(SETTINGS_FILE).exists() else "")
    )
    words += ["--settings", str(Path(named).expanduser().absolute())] if named else []
    words += [word for flag in flags for word in ("--set", flag)]
    return [*words, *(["--", *config.beam_args] if config.beam_args else [])]


def _require_no_secret(arguments: Sequence[str]) -> None:
    """Rejects flags with a secret: a schedule is shown, exported, and its command is in the list of processes."""
    for before, word in zip(("", *arguments), arguments, strict=False):
        text = f"{before} {word}" if before.startswith("-") else word
        if redact(text) != text:
            raise SettingsError(
                f"{redact(text)}: a schedule does not keep secrets; expected flags without them: put a password "
                f"into the environment of the scheduler ({metadata_server.PASSWORD} for --metadata) or in a file"
            )
