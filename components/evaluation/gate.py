"""The gate before Transform and Trainer: anomalies, an empty split, a missing class or drift stop the run here.

TFX's ExampleValidator only reports its findings; this node reads them and stops the run.
`@component` reads annotations at run time, so this file must not postpone them. TFX names are imported one by one:
`tfx.v1` also imports the cloud client, which takes four seconds.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson
from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types.artifact import Artifact
from tfx.types.standard_artifacts import ExampleAnomalies, Examples, ExampleStatistics

from components import progress
from components.errors import GateStopped
from components.evaluation import new_span
from components.records import manifest, roles
from components.settings import gate as settings_of_gate
from components.storage.location import REMOTE_URI, location

_ANOMALIES = "SchemaDiff.pb"
_SHOWN = 30  # classes in the table of an error message
_MIN_CLASSES = 2
_FEW_CONTENTS = (
    "equal records are in one split: add data, or for a table name a column that differs: --set ingest.split_by=COLUMN"
)
_WHOLE = re.compile(r"-?\d+|…")  # …: all classes that were not counted one by one


class GateVerdict(Artifact):
    """Records that the data passed the gate: its class counts, how its newest span was compared, what was accepted."""

    TYPE_NAME = "GateVerdict"


@component
def Gate(  # noqa: N802 - a TFX component
    examples: InputArtifact[Examples],
    statistics: InputArtifact[ExampleStatistics],
    anomalies: InputArtifact[ExampleAnomalies],
    verdict: OutputArtifact[GateVerdict],
    settings: Parameter[str],
    columns: Parameter[str],
    embedded: Parameter[str],
    schema_file: Parameter[str],
    live: Parameter[str],
) -> None:
    """Raises GateStopped with all problems, or writes the verdict; the plan of each run says which model is live."""
    ingested = manifest.read(Path(examples.uri))
    limits = settings_of_gate.Gate.model_validate_json(settings)
    counts = ingested.classes
    has_classes = any(counts.values())
    split_problems = (
        class_problems(counts, limits.min_per_class, ingested.label_source)
        if has_classes
        else empty_splits(ingested.records)
    )
    problems = [*anomaly_lines(Path(anomalies.uri), schema_file), *split_problems]
    against = new_span.LiveSpan.from_json(live)
    compared = None
    if against is not None and limits.drift != "off":
        layout = roles.Layout(ingested.label, "class", tuple(map(roles.Column.from_dict, orjson.loads(columns))))
        origin = examples.get_string_custom_property(REMOTE_URI) or examples.uri
        compared = new_span.compare(location(origin), ingested, Path(statistics.uri), layout, against, limits, embedded)
    unfit = bool(problems)
    lines = compared.lines() if compared else []
    if compared and compared.open and limits.drift == "stop":
        problems += lines
    elif lines:
        progress.warn("\n".join(lines))
    for note in compared.notes if compared else ():
        progress.warn(f"Gate: {note}")
    if problems:
        table = [class_table(counts)] if has_classes and unfit else []
        message = "\n".join(["the data is not fit for training:", *problems, *table])
        raise GateStopped(message, compared.to_json() if compared else None)
    stored = {"passed": True, "classes": counts, "drift": compared.to_json() if compared else None}
    Path(verdict.uri, "verdict.json").write_bytes(orjson.dumps(stored))


def anomaly_lines(folder: Path, schema_file: str) -> list[str]:
    """Returns the anomalies that ExampleValidator found, one line each, and the file of the schema to edit."""
    files = sorted(folder.glob(f"Split-*/{_ANOMALIES}"))
    if not files:
        raise GateStopped(f"{folder}: ExampleValidator wrote no result; run it again with --force")
    lines = [
        f"  {file.parent.name.removeprefix('Split-')}: {finding}"
        for file in files
        for finding in _findings(anomalies_pb2.Anomalies.FromString(file.read_bytes()))
    ]
    advice = f"  (correct the data; or, if it is right, edit the schema {schema_file}, or a copy of it for --schema)"
    return [*lines, advice] if lines else []


def _findings(found: anomalies_pb2.Anomalies) -> Iterator[str]:
    if found.HasField("dataset_anomaly_info"):
        yield found.dataset_anomaly_info.description
    for name, info in sorted(found.anomaly_info.items()):
        yield f"feature {name!r}: {info.description}"


def class_problems(counts: Mapping[str, Mapping[str, int]], min_per_class: int, label: str = "") -> list[str]:
    """Returns the problems with the classes of each split, one line each; `label` is the column in the data."""
    classes = sorted({name for split in counts.values() for name in split})
    problems = empty_splits({split: sum(present.values()) for split, present in counts.items()})
    if len(classes) < _MIN_CLASSES:
        problems.append(
            f"  {len(classes)} class found ({', '.join(classes)}); at least {_MIN_CLASSES} classes are required"
        )
    for split, present in counts.items():
        # A class without training records cannot be learned, whatever the setting: it would have no class index.
        least = max(1, min_per_class) if split == "train" else min_per_class
        missing = [name for name in classes if present.get(name, 0) < least]
        if missing and sum(present.values()):
            names = ", ".join(missing[:_SHOWN])
            problems.append(f"  split {split!r} has too few records (expected at least {least}) of: {names}")
    if problems:
        problems.append(f"  ({_advice(counts, min_per_class)})")
        if label and len(classes) > _SHOWN and all(map(_WHOLE.fullmatch, classes)):
            regression = f"if {label!r} is a quantity, use regression: --set ingest.columns.{label}=float"
            problems.insert(0, f"  the label has {len(classes):,} classes, all whole numbers; {regression}")
    return problems


def _advice(counts: Mapping[str, Mapping[str, int]], min_per_class: int) -> str:
    """Returns what helps: stratified splits, if every class has enough records for all splits."""
    names = {name for present in counts.values() for name in present}
    totals = {name: sum(present.get(name, 0) for present in counts.values()) for name in sorted(names)}
    needed = len(counts) * max(1, min_per_class)
    rare = [name for name, total in totals.items() if total < needed]
    if not rare and len(totals) >= _MIN_CLASSES:
        return (
            "give every class its share of each split, --set ingest.splits.stratify=true, "
            "or add data for these classes, or lower gate.min_per_class"
        )
    if not rare or not all(totals.values()):
        return "add data for these classes"
    return (
        f"add data: {len(rare)} classes have fewer than {needed} records, too few for {len(counts)} splits, such as "
        f"{rare[0]} with {totals[rare[0]]}; or let rare classes be missing in eval and test: "
        "--set gate.min_per_class=0 --set ingest.splits.stratify=true"
    )


def empty_splits(records: Mapping[str, int]) -> list[str]:
    """Returns one line per split without records, and what helps."""
    empty = [f"  split {split!r} is empty" for split, count in records.items() if not count]
    return [*empty, f"  ({_FEW_CONTENTS})"] if empty else []


def class_table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Returns the number of records per class and split, as a text table."""
    splits: Sequence[str] = list(counts)
    classes = sorted({name for split in counts.values() for name in split})
    width = max([len("class"), *(len(name) for name in classes[:_SHOWN])])
    rows = [f"  {'class':<{width}}" + "".join(f"{split:>10}" for split in splits)]
    rows += [
        f"  {name:<{width}}" + "".join(f"{counts[split].get(name, 0):>10,}" for split in splits)
        for name in classes[:_SHOWN]
    ]
    if len(classes) > _SHOWN:
        rows.append(f"  … {len(classes) - _SHOWN} more classes")
    return "\n".join(rows)
