"""The gate before Transform and Trainer: anomalies, an empty split or a missing class stop the run here.

TFX's ExampleValidator writes its findings down and lets the run go on; this node reads them and stops it.
`@component` reads annotations at run time, so this file must not postpone them. Its names are imported one by one:
`tfx.v1` would import the whole cloud client with them, for four seconds.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson
from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types.artifact import Artifact
from tfx.types.standard_artifacts import ExampleAnomalies, Examples

from components.errors import GateStopped
from components.records import manifest

_ANOMALIES = "SchemaDiff.pb"
_SHOWN = 30  # classes in the table of an error message
_FEWEST_CLASSES = 2
_WHOLE = re.compile(r"-?\d+")


class GateVerdict(Artifact):
    """What the gate looked at and that it let the data pass."""

    TYPE_NAME = "GateVerdict"


@component
def Gate(  # noqa: N802 - a TFX component
    examples: InputArtifact[Examples],
    anomalies: InputArtifact[ExampleAnomalies],
    verdict: OutputArtifact[GateVerdict],
    min_per_class: Parameter[int],
) -> None:
    """Raises GateStopped, or writes the verdict."""
    written = manifest.read(Path(examples.uri))
    counts = written.classes
    has_classes = any(counts.values())
    of_label = class_problems(counts, min_per_class) if has_classes else empty_splits(written.records)
    problems = [*anomaly_lines(Path(anomalies.uri)), *of_label]
    if problems:
        table = [class_table(counts)] if has_classes else []
        raise GateStopped("\n".join(["the data must not be trained on:", *problems, *table]))
    Path(verdict.uri, "verdict.json").write_bytes(orjson.dumps({"passed": True, "classes": counts}))


def anomaly_lines(folder: Path) -> list[str]:
    """Returns ExampleValidator's findings, one line each."""
    files = sorted(folder.glob(f"Split-*/{_ANOMALIES}"))
    if not files:
        raise GateStopped(f"{folder}: ExampleValidator left no findings and no all-clear; run it again with --force")
    lines = [
        f"  {file.parent.name.removeprefix('Split-')}: {finding}"
        for file in files
        for finding in _findings(anomalies_pb2.Anomalies.FromString(file.read_bytes()))
    ]
    return [*lines, "  (mend the data, or the curated schema if the data is right)"] if lines else []


def _findings(found: anomalies_pb2.Anomalies) -> Iterator[str]:
    if found.HasField("dataset_anomaly_info"):
        yield found.dataset_anomaly_info.description
    for name, info in sorted(found.anomaly_info.items()):
        yield f"feature {name!r}: {info.description}"


def class_problems(counts: Mapping[str, Mapping[str, int]], min_per_class: int) -> list[str]:
    """Returns what is wrong with the classes of each split."""
    classes = sorted({name for split in counts.values() for name in split})
    problems = empty_splits({split: sum(present.values()) for split, present in counts.items()})
    if len(classes) < _FEWEST_CLASSES:
        problems.append(f"  {len(classes)} class found ({', '.join(classes)}), 2 or more are needed to tell apart")
    for split, present in counts.items():
        # What is not in train cannot be learned, whatever the setting: its label would have no number.
        least = max(1, min_per_class) if split == "train" else min_per_class
        missing = [name for name in classes if present.get(name, 0) < least]
        if missing and sum(present.values()):
            problems.append(f"  split {split!r} has fewer than {least} of: {', '.join(missing[:_SHOWN])}")
    if problems:
        problems.append(
            "  (add data for these classes, change the fractions, e.g. --set ingest.splits.train=0.6 "
            "--set ingest.splits.eval=0.2 --set ingest.splits.test=0.2, or lower gate.min_per_class)"
        )
        if len(classes) > _SHOWN and all(map(_WHOLE.fullmatch, classes)):
            problems.append("  (if the label is a quantity, to be learned as one: --set ingest.columns.LABEL=float)")
    return problems


def empty_splits(records: Mapping[str, int]) -> list[str]:
    """Returns which splits have no records."""
    return [f"  split {split!r} is empty" for split, count in records.items() if not count]


def class_table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Returns records by class and split, as text."""
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
