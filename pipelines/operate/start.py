"""What a training starts from: the live model's weights, random ones, or the better of both on the newest span."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.config import RunConfig
from pipelines.operate.ticks import Attempt, TickLedger

LIVE, NONE = "live", "none"


@dataclass(frozen=True)
class Start:
    """What training starts from."""

    warm_start: str  # the setting
    text: str  # why
    is_checked: bool = False  # by a cold start beside it


def choose(config: RunConfig, ledger: TickLedger, before: Attempt | None) -> Start:
    """Returns what training starts from; a tick that has trained before starts from the same.

    Args:
        config: the pipeline.
        ledger: the earlier ticks.
        before: the attempt of this tick that has trained.
    """
    train = config.settings.train
    chosen = train.warm_start if "warm_start" in train.model_fields_set else LIVE
    if before is not None:
        return Start(before.warm_start, before.start)
    if chosen == NONE:
        return Start(NONE, "cold start: train.warm_start = none")
    if train.cold_every and (count := ledger.trained_since_cold_start()) >= train.cold_every:
        return Start(NONE, f"cold start: {count} trainings since the last one (train.cold_every = {train.cold_every})")
    text = f"warm start from {'the live model, if there is one' if chosen == LIVE else chosen}"
    if train.cold_check and ledger.trained_since_check() >= train.cold_check:
        text = f"{text}; a cold start is trained, too, and compared (train.cold_check = {train.cold_check})"
        return Start(chosen, text, is_checked=True)
    return Start(chosen, text)


def base_text(attempt: Attempt) -> str:
    """Says what a model was trained from."""
    if attempt.has_base:
        return f"warm start from {'the live model' if attempt.warm_start == LIVE else attempt.warm_start}"
    return attempt.start if attempt.warm_start == NONE else "cold start: no earlier model"


def changed_classes(old: Sequence[str], new: Sequence[str]) -> str:
    """Says which classes appeared and vanished, and what a warm start does with them; empty if none did."""
    appeared, vanished = sorted({*new} - {*old}), sorted({*old} - {*new})
    if not old or not new or not (appeared or vanished):
        return ""
    parts = [
        f"new: {', '.join(appeared)} (weights start from random values)" if appeared else "",
        f"gone: {', '.join(vanished)} (weights dropped)" if vanished else "",
        "a renamed class counts as both" if appeared and vanished else "",
    ]
    return f"classes: {'; '.join(filter(None, parts))}"
