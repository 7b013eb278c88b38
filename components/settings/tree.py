"""One tree of settings: typed, frozen, and checked when it is created.

    defaults in code  ◄  a TOML file  ◄  flags (`--set train.epochs=3`)

A node's cache key contains the sections that the node reads (`graph.py`), so a setting belongs to the section of the
node whose result it changes. Budgets are in megabytes, not in records, so they hold for records of any size.
"""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from components.errors import SettingsError
from components.settings.engine import Engine
from components.settings.evaluate import Evaluate
from components.settings.extract import Extract
from components.settings.gate import Gate
from components.settings.gc import Gc
from components.settings.ingest import Ingest
from components.settings.input import Input
from components.settings.notify import Notify
from components.settings.push import Push
from components.settings.retry import Retry
from components.settings.section import NOT_IN_KEY, Section, checked
from components.settings.train import Train
from components.settings.transform import Transform
from components.settings.watch import Watch

# Old names of renamed settings; accepted with a warning for one release.
RENAMED = {
    "ingest.near_bits": "ingest.near_duplicate_bits",
    "transform.split": "transform.tokens",
    "transform.moments": "transform.tensor_zscore",
    "evaluate.min_explained": "evaluate.min_r2",
    "evaluate.min_squared_correlation": "evaluate.min_r2",
}
_NOTES = {"evaluate.min_r2": ". R² is another, stricter measure: it is never above the squared correlation"}


class RenamedSetting(FutureWarning):
    """A setting was given by its old name."""


class Settings(Section):
    """All settings of one pipeline."""

    ingest: Ingest = Ingest()
    gate: Gate = Gate()
    extract: Extract = Extract()
    transform: Transform = Transform()
    input: Input = Input()
    train: Train = Train()
    evaluate: Evaluate = Evaluate()
    push: Push = Push()
    engine: Engine = Engine()
    retry: Retry = Retry()
    gc: Gc = Gc()
    watch: Watch = Watch()
    notify: Notify = Notify()

    def section(self, name: str) -> dict[str, Any]:
        """Returns one section as plain values, for cache keys and node parameters."""
        section: Section = getattr(self, name)
        return section.model_dump(mode="json")

    def select(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Returns sections, or single settings such as `input.max_tokens`, as plain values by section.

        Settings that cannot change a result are left out: this is what cache keys contain.
        """
        selected: dict[str, dict[str, Any]] = {}
        for name in names:
            section, _, key = name.partition(".")
            fields = type(getattr(self, section)).model_fields
            values = {k: v for k, v in self.section(section).items() if fields[k].json_schema_extra != NOT_IN_KEY}
            selected.setdefault(section, {}).update({key: values[key]} if key else values)
        return selected


def load(overlays: Iterable[Mapping[str, Any]] = ()) -> Settings:
    """Returns the defaults, overridden by each overlay in order."""
    merged: dict[str, Any] = {}
    for overlay in overlays:
        merged = _merge(merged, _with_new_names(overlay))
    return checked(Settings, merged)


def parse_flag(text: str) -> dict[str, Any]:
    """Returns `{"train": {"epochs": "3"}}` for `train.epochs=3`; `load` converts and checks the value."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise SettingsError(f"--set {text}: expected SECTION.KEY=VALUE, such as train.epochs=3")
    nested: Any = value
    for key in reversed(path.strip().split(".")):
        nested = {key: nested}
    overlay: dict[str, Any] = nested
    return overlay


def read_file(path: Path) -> dict[str, Any]:
    """Reads a TOML settings file with one table per section of a task, such as `[image.train] epochs = 3`."""
    import tomli

    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror}") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path}: not valid TOML: {error}") from None


def _merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in overlay.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _with_new_names(overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an overlay with the new names of renamed settings."""
    renamed = dict(overlay)
    for old, new in RENAMED.items():
        section, key = old.split(".")
        values = renamed.get(section)
        if isinstance(values, Mapping) and key in values:
            warnings.warn(
                f"setting {old} was renamed to {new}; use the new name{_NOTES.get(new, '')}",
                RenamedSetting,
                stacklevel=3,
            )
            kept = {name: value for name, value in values.items() if name != key}
            renamed[section] = {new.split(".")[1]: values[key], **kept}
    return renamed
