"""The model card: what a trained model is, what it was made of and how good it is, as one JSON file.

<state folder>/model_card.json             of the newest run that has a model
<serving folder>/model_card-<version>.json of each pushed version, beside its folder

Paths are relative to the root, or file names; all else is as the executions recorded it that made the model: settings
and versions of this run may be others, if it reused their outputs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from components.records import manifest
from components.redact import redact
from components.settings.tree import Settings
from components.storage import durable
from components.storage.location import Location
from pipelines.config import RunConfig
from pipelines.orchestration.metadata.store import Artifact, Execution
from pipelines.report.facts import RunFacts

FILE = "model_card.json"
_SECTIONS = ("ingest", "extract", "transform", "input", "train", "evaluate")

Outputs = Mapping[str, Mapping[str, Artifact]]  # node -> name -> artifact


def make(config: RunConfig, facts: RunFacts, used: Mapping[str, Execution], outputs: Outputs) -> dict[str, Any]:
    """Returns the model card of a run; empty if there is no model."""
    if "model" not in outputs.get("Trainer", {}) or "examples" not in outputs.get("Ingest", {}):
        return {}
    ingested = manifest.read(outputs["Ingest"]["examples"].uri)
    run = outputs["Trainer"]["model_run"].uri
    history, evaluated = orjson.loads((run / "history.json").read_bytes()), used.get("Evaluator")
    metric, settings = facts.thresholds[0].metric if facts.thresholds else "", _settings(used)
    card = {
        "pipeline": facts.pipeline,
        "task": facts.task,
        "run_started": facts.started,
        "model": {
            "label": ingested.label_source or ingested.label,
            "classes": list(facts.classes),  # none: it predicts a quantity
            "blessed": facts.blessed,
            "version": facts.model_version,
            "live_version": facts.live_version,
        },
        "data": {
            "digest": ingested.data_digest,
            "files": ingested.sources.files,
            "records": ingested.records,
            "records_by_class": ingested.classes,
            "quarantined": ingested.quarantined,
            "notes": list(ingested.notes),
            "warnings": list(ingested.warnings),
        },
        "training": {
            "seed": settings.get("train", {}).get("seed"),
            "epochs": len(history["epochs"]["records"]),
            "best_epoch": history["best_epoch"] + 1,
        },
        "evaluation": {
            "split": "test",
            "metrics": dict(facts.metrics),
            "thresholds": [vars(each) for each in facts.thresholds],
            "by_class": evaluated.facts.get("by_class", {}) if evaluated else {},
            "slices": [
                {
                    "column": each.column,
                    "value": each.value,
                    metric: each.metric,
                    "records": each.records,
                    **({} if each.change is None else {"change": each.change, "allowed_drop": each.allowed}),
                }
                for each in facts.slices
            ],
        },
        "proof": dict(facts.proof),
        "lineage": {
            node: {
                "execution": execution.id,
                "cache_key": execution.fingerprint.get("key", ""),
                **{name: value for name, value in execution.fingerprint.items() if name.endswith("_digest")},
                "outputs": {name: _relative(artifact.uri, config.root) for name, artifact in outputs[node].items()},
            }
            for node, execution in used.items()
        },
        "settings": settings,
        "versions": _versions(used),
    }
    redacted: dict[str, Any] = _redacted(card)
    return redacted


def write(facts: RunFacts, config: RunConfig) -> None:
    """Writes the card of a run, and of its pushed version."""
    if facts.card:
        durable.write_bytes(config.state / FILE, _content(facts.card))
        write_served(facts, config)


def write_served(facts: RunFacts, config: RunConfig) -> None:
    """Writes the card of the pushed version if it has none: the run that pushed it may have been killed before."""
    file = config.serving / name_of(facts.model_version)
    if facts.card and facts.model_version and not file.exists():
        durable.write_bytes(file, _content(facts.card))


def write_again(card: Location, target: Location, version: int) -> None:
    """Writes the card of a version that was published again under another number."""
    content = orjson.loads(card.read_bytes())
    content["model"] |= {"version": str(version), "live_version": version}
    durable.write_bytes(target, _content(content))


def name_of(version: object) -> str:
    """Returns the name of the card of a version, in its serving folder."""
    return f"model_card-{version}.json"


def _content(card: Mapping[str, Any]) -> bytes:
    return orjson.dumps(card, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)


def _settings(used: Mapping[str, Execution]) -> dict[str, dict[str, Any]]:
    """Returns the settings that the executions were made with, by section; of a path the file name."""
    found: dict[str, dict[str, Any]] = {}
    for section, values in (each for made in used.values() for each in made.fingerprint.get("settings", {}).items()):
        if section in _SECTIONS:
            paths = Settings.model_fields[section].annotation.paths()  # type: ignore[union-attr]
            named = {name: Path(value).name if name in paths else value for name, value in values.items()}
            found.setdefault(section, {}).update(named)
    return found


def _versions(used: Mapping[str, Execution]) -> dict[str, str]:
    """Returns the versions of Python, Penstock and the libraries; of several, the one of the Trainer."""
    found: dict[str, str] = {}
    for made in (*used.values(), used["Trainer"]):
        found |= {**made.fingerprint.get("made_with", {}), **made.fingerprint.get("packages", {})}
    return found


def _relative(uri: Location, root: Location) -> str:
    home = f"{root}/"
    return str(uri).removeprefix(home) if str(uri).startswith(home) else uri.name


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(key)): _redacted(each) for key, each in value.items()}
    return [_redacted(each) for each in value] if isinstance(value, list | tuple) else value
