"""The ledger of ticks: what each retraining did, and why.

    <state>/.penstock/ticks/<pipeline>/2026-11-14.json     every attempt for this span, oldest first

A file is published whole. Whether a tick is done is decided by its key: pipeline, span, spans of the window with their
versions, content and settings; not by the code, so that an update of Penstock trains nothing again.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from components.errors import PenstockError
from components.ingest.survey.survey import Survey
from components.storage import durable
from components.storage.hashing import digest_of
from pipelines.config import RunConfig
from pipelines.operate.window import Window

Outcome = Literal["pushed", "up to date", "not better", "gate stopped", "late", "skipped", "failed"]
DONE: tuple[Outcome, ...] = ("pushed", "up to date", "not better")
SERVED: tuple[Outcome, ...] = ("pushed", "up to date")

_FILE = re.compile(r"[\dT-]+\.json", re.ASCII)
_NOT_THE_MODEL = ("engine",)  # sections of the settings that decide where nodes run


@dataclass(frozen=True)
class Attempt:
    """One call of `penstock retrain` that did more than find its tick done."""

    span: str  # as people write it
    place: int  # of the span on its line
    key: str  # empty if the attempt ended before the data was surveyed
    outcome: Outcome
    reason: str
    exit_code: int
    started: str  # ISO 8601, UTC
    ended: str
    spans: tuple[tuple[str, int | None], ...] = ()  # that were read, with their versions
    missing: tuple[str, ...] = ()  # older spans of the window
    warm_start: str = ""  # the setting that the tick trained with: live, none or a folder
    start: str = ""  # why: "cold start: …"
    has_base: bool = False  # whether training started from the weights of another model
    has_trained: bool = False  # the first attempt of its key with a verdict: what later cold starts are counted from
    version: str = ""  # that was pushed
    classes: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)  # of the newest span, and of all
    repeated: int = 0  # how often the same outcome followed without a change


class TickLedger:
    """All attempts of one pipeline."""

    def __init__(self, folder: Path) -> None:
        """Reads the ledger in a folder, which need not exist."""
        self._folder = folder
        files = sorted(folder.iterdir()) if folder.is_dir() else ()
        self._ticks = {file.stem: _read(file) for file in files if _FILE.fullmatch(file.name)}

    def add(self, attempt: Attempt) -> None:
        """Publishes an attempt; one that only repeats the last one of its tick is counted there."""
        known = self._ticks.get(attempt.span, [])
        if known and _same(known[-1], attempt):
            known = [*known[:-1], replace(known[-1], ended=attempt.ended, repeated=known[-1].repeated + 1)]
        else:
            known = [*known, attempt]
        self._ticks[attempt.span] = known
        content = orjson.dumps([asdict(each) for each in known], option=orjson.OPT_INDENT_2)
        durable.write_bytes(self._folder / f"{attempt.span}.json", content, private=True)

    def done(self, span: str, key: str) -> Attempt | None:
        """Returns the newest attempt that completed a tick of this key."""
        return _newest(each for each in self._ticks.get(span, ()) if each.key == key and each.outcome in DONE)

    def trained(self, span: str, key: str) -> Attempt | None:
        """Returns the newest attempt of a tick of this key that trained a model."""
        return _newest(each for each in self._ticks.get(span, ()) if each.key == key and each.has_trained)

    def newest_served(self) -> Attempt | None:
        """Returns the attempt of the newest span whose model was pushed, and of that span the last one."""
        served = [each for each in self._all() if each.outcome in SERVED]
        return max(served, key=lambda each: (each.place, each.ended), default=None)

    def trained_since_cold_start(self) -> int:
        """Returns how many models in a row descend from the last cold start, that one included."""
        trained = sorted((each for each in self._all() if each.has_trained), key=lambda each: each.ended)
        cold = [at for at, each in enumerate(trained) if not each.has_base]
        return len(trained) - cold[-1] if cold else len(trained)

    def _all(self) -> Iterable[Attempt]:
        return (each for attempts in self._ticks.values() for each in attempts)


def of(config: RunConfig) -> TickLedger:
    """Returns the ledger of a pipeline."""
    return TickLedger(config.notes / "ticks" / config.name)


def key_of(config: RunConfig, window: Window, found: Survey) -> str:
    """Returns the key of a tick: a digest of all that its model depends on, but the code and the base model."""
    sections = [name for name in type(config.settings).model_fields if name not in _NOT_THE_MODEL]
    depends_on = {
        "pipeline": [config.name, config.task.name],
        "span": window.tick_text,
        "spans": [[span.text, span.version] for span in window.spans],
        "data": found.digest,
        "settings": config.settings.select(sections),
        "schema": config.schema,
    }
    return digest_of([orjson.dumps(depends_on, option=orjson.OPT_SORT_KEYS).decode()])


def _read(file: Path) -> list[Attempt]:
    try:
        return [_attempt(values) for values in orjson.loads(file.read_bytes())]
    except (ValueError, TypeError, KeyError) as error:
        raise PenstockError(
            f"{file}: the ledger of this tick cannot be read: {error}; restore it, or delete it: its span is then "
            "looked at again"
        ) from None


def _attempt(values: Mapping[str, Any]) -> Attempt:
    spans = tuple((text, version) for text, version in values["spans"])
    return Attempt(
        **{**values, "spans": spans, "missing": tuple(values["missing"]), "classes": tuple(values["classes"])}
    )


def _same(old: Attempt, new: Attempt) -> bool:
    return not new.has_trained and (old.key, old.outcome, old.reason) == (new.key, new.outcome, new.reason)


def _newest(attempts: Iterable[Attempt]) -> Attempt | None:
    return max(attempts, key=lambda each: each.ended, default=None)
