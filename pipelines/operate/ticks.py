"""The ledger of ticks: what each retraining did, and why.

    <state>/.penstock/ticks/<pipeline>/2026-11-14.json     every attempt for this span, oldest first

A file is published whole. Whether a tick is done is decided by its key: pipeline, span, spans of the window with their
versions, content and settings; not by the code, so that an update of Penstock trains nothing again.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import filelock
import orjson

from components.errors import PenstockError
from components.ingest.survey.survey import Survey
from components.storage import durable
from components.storage.hashing import HashCache, digest_of
from pipelines.config import HOME, RunConfig
from pipelines.operate.window import Window
from pipelines.orchestration import schema

Outcome = Literal["pushed", "up to date", "withdrawn", "not better", "gate stopped", "late", "skipped", "failed"]
DONE: tuple[Outcome, ...] = ("pushed", "up to date", "withdrawn", "not better")
SERVED: tuple[Outcome, ...] = ("pushed", "up to date")

_FILE = re.compile(r"[\dT-]+\.json", re.ASCII)
_NOT_THE_MODEL = ("engine", "gc", "notify", "retry", "watch")  # sections of the settings that no model depends on


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
    run: str = ""  # id of the run
    spans: tuple[tuple[str, int | None], ...] = ()  # that were read, with their versions
    missing: tuple[str, ...] = ()  # older spans of the window
    warm_start: str = ""  # the setting that the tick trained with: live, none or a folder
    start: str = ""  # why: "cold start: …"
    has_base: bool = False  # whether training started from the weights of another model
    has_trained: bool = False  # the first attempt of its key with a verdict: what later cold starts are counted from
    check: Mapping[str, Any] = field(default_factory=dict)  # of the warm start against a cold one; `ColdCheck`
    version: str = ""  # that was pushed
    against: str = ""  # folder of the version that was live before
    classes: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)  # of the newest span, and of all
    repeated: int = 0  # how often the same outcome followed without a change


class TickLedger:
    """All attempts of one pipeline; read again for every question, because other calls may write it."""

    def __init__(self, folder: Path) -> None:
        """Opens the ledger in a folder, which need not exist."""
        self._folder = folder

    def of_span(self, span: str) -> list[Attempt]:
        """Returns every attempt for a span, oldest first."""
        file = self._folder / f"{span}.json"
        return _read(file) if file.exists() else []

    def add(self, attempt: Attempt) -> None:
        """Publishes an attempt; one that only repeats the last one of its tick is counted there."""

        def added(known: list[Attempt]) -> list[Attempt]:
            if known and _same(known[-1], attempt):
                return [*known[:-1], replace(known[-1], ended=attempt.ended, repeated=known[-1].repeated + 1)]
            return [*known, attempt]

        self._change(attempt.span, added)

    def add_scores(self, attempt: Attempt, scores: Mapping[str, Mapping[str, float | None]]) -> None:
        """Publishes the scores of an attempt that was added before."""
        this = (attempt.key, attempt.started)
        self._change(
            attempt.span,
            lambda known: [
                replace(each, scores=scores) if (each.key, each.started) == this else each for each in known
            ],
        )

    def done(self, span: str, key: str) -> Attempt | None:
        """Returns the newest verdict on a span if it is one on this key: a correction that was withdrawn is due."""
        verdict = _newest(each for each in self.of_span(span) if each.outcome in DONE)
        return verdict if verdict and verdict.key == key else None

    def trained(self, span: str, key: str) -> Attempt | None:
        """Returns the newest attempt of a tick of this key that trained a model."""
        return _newest(each for each in self.of_span(span) if each.key == key and each.has_trained)

    def served(self, versions: Container[str]) -> Attempt | None:
        """Returns the newest attempt whose model was pushed as one of these versions."""
        return _newest(each for each in self._all() if each.outcome in SERVED and each.version in versions)

    def trained_since_cold_start(self) -> int:
        """Returns how many models in a row descend from the last cold start, that one included."""
        trained = sorted((each for each in self._all() if each.has_trained), key=lambda each: each.started)
        cold = [at for at, each in enumerate(trained) if not each.has_base]
        return len(trained) - cold[-1] if cold else len(trained)

    def trained_since_check(self) -> int:
        """Returns how many models in a row were trained since a warm start was compared with a cold one, or was none.

        That one included; a model without a base is a cold start itself.
        """
        trained = sorted((each for each in self._all() if each.has_trained), key=lambda each: each.started)
        known = [at for at, each in enumerate(trained) if each.check or not each.has_base]
        return len(trained) - known[-1] if known else len(trained)

    def _all(self) -> Iterable[Attempt]:
        files = sorted(self._folder.iterdir()) if self._folder.is_dir() else ()
        return (each for file in files if _FILE.fullmatch(file.name) for each in _read(file))

    def _change(self, span: str, change: Callable[[list[Attempt]], list[Attempt]]) -> None:
        """Changes the attempts of a span, one process at a time: they are written without the root's lock."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(self._folder.with_name(f"{self._folder.name}.lock")):
            durable.sweep(self._folder)
            content = orjson.dumps([asdict(each) for each in change(self.of_span(span))], option=orjson.OPT_INDENT_2)
            durable.write_bytes(self._folder / f"{span}.json", content, private=True)


def of(config: RunConfig) -> TickLedger:
    """Returns the ledger of a pipeline."""
    return TickLedger(config.notes / "ticks" / config.name)


def key_of(config: RunConfig, window: Window, found: Survey, cache: HashCache) -> str:
    """Returns the key of a tick: a digest of all that its model depends on, but the code and the base model."""
    sections = [name for name in type(config.settings).model_fields if name not in _NOT_THE_MODEL]
    depends_on = {
        "pipeline": [config.name, config.task.name],
        "span": window.tick_text,
        "spans": [[span.text, span.version] for span in window.spans],
        "data": found.digest,
        "settings": chosen(config, sections),
        "files": _files(config, found, cache),
    }
    return digest_of([orjson.dumps(depends_on, option=orjson.OPT_SORT_KEYS).decode()])


def chosen(config: RunConfig, sections: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the settings that are not the defaults: a version with more settings makes no tick due."""
    defaults = type(config.settings)().select(sections)
    return {
        section: {name: value for name, value in values.items() if value != defaults[section][name]}
        for section, values in config.settings.select(sections).items()
    }


def _files(config: RunConfig, found: Survey, cache: HashCache) -> list[str]:
    """Returns the content of the files that the settings name: the schema that people may edit, and other models."""
    curated = schema.find(config, found)
    files = ["" if curated.file == HOME / config.task.schema else digest_of([curated.content.decode()])]
    if config.settings.extract.model:
        from components.pretrained.find import find_model

        files.append(find_model(config.settings.extract, cache).digest)
    if config.settings.train.warm_start not in ("", "live", "none"):
        from components.training.base import base_model

        files.append(base_model.find(config.settings.train.warm_start, cache).digest)
    return files


def _read(file: Path) -> list[Attempt]:
    try:
        return [_attempt(values) for values in orjson.loads(file.read_bytes())]
    except (ValueError, TypeError, KeyError) as error:
        raise PenstockError(
            f"{file}: the ledger of this tick cannot be read: {error}; restore it, or delete it: its span is then "
            "decided again"
        ) from None


def _attempt(values: Mapping[str, Any]) -> Attempt:
    spans = tuple((text, version) for text, version in values["spans"])
    return Attempt(
        **{**values, "spans": spans, "missing": tuple(values["missing"]), "classes": tuple(values["classes"])}
    )


def _same(old: Attempt, new: Attempt) -> bool:
    same = (old.key, old.outcome, old.reason, old.against) == (new.key, new.outcome, new.reason, new.against)
    return same and not new.has_trained


def _newest(attempts: Iterable[Attempt]) -> Attempt | None:
    return max(attempts, key=lambda each: each.ended, default=None)
