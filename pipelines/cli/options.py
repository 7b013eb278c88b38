"""Arguments and options that several commands have."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from components.tasks import NAMES

if TYPE_CHECKING:
    from pipelines.journal.calls import Origin

# Typer reads annotations at run time.
TaskName = Annotated[str, typer.Argument(metavar="TASK", help=f"The task: {', '.join(NAMES)}.")]
Data = Annotated[
    str | None, typer.Option(help="Raw data: folder, file, pattern or address. Default: the generated sample.")
]
Root = Annotated[
    str | None,
    typer.Option(help="Folder for metadata, artifacts and models, or s3://… or gs://…. Default: runs/NAME."),
]
State = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="With --root s3://… or gs://…: local folder for the rest. Default: runs/NAME."),
]
Metadata = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="Metadata of a team: mysql://user@host/database; the password in PENSTOCK_METADATA_PASSWORD.",
    ),
]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="Take over the lock of a remote root from a run that has ended elsewhere.")
]
Name = Annotated[str | None, typer.Option(help="Name of the pipeline. Default: name of the task.")]
Schema = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Your own schema. Default: the task's schema, or one inferred from the data."),
]
SettingsFile = Annotated[
    str | None, typer.Option("--settings", help="Settings file (TOML). Default: penstock.toml, if it exists.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as train.epochs=3.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="NODE", help="Reuse the outputs of all nodes before this one, even if they are out of date."
    ),
]
To = Annotated[str | None, typer.Option("--to", metavar="NODE", help="Stop after this node.")]
Force = Annotated[
    list[str] | None, typer.Option("--force", metavar="NODE", help="Run this node even if it is up to date.")
]
Accept = Annotated[
    list[str] | None,
    typer.Option(metavar="FINDING", help="A finding of the Gate to accept for this data, such as drift:age."),
]
Because = Annotated[str, typer.Option(metavar="TEXT", help="Why --accept is right; recorded with your name.")]
Label = Annotated[
    str, typer.Option(help="Label column of a table (text or image tasks too); the same as --set ingest.label=COLUMN.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print which nodes would run, and why; change nothing.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until another run on the same root has finished.")]
Runner = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Where data nodes run: direct, flink or dataflow; as --set engine.runner=NAME."),
]
RunId = Annotated[
    str | None,
    typer.Option(
        "--run-id", metavar="ID", help="Id of the run; calls with the same id are one run. Default: a new id."
    ),
]
EngineName = Annotated[str, typer.Argument(metavar="ENGINE", help="The engine: flink.")]
BeamArgs = Annotated[list[str] | None, typer.Argument(metavar="[-- BEAM FLAGS]", help="Flags for Apache Beam.")]
Include = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH", help="Further module, package or data file of yours that workers need."),
]
Records = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Output folder of ingest. Default: the newest of the pipeline.")
]
Rounds = Annotated[int, typer.Option(min=1, max=100, help="Measurements of each variant; medians are shown.")]
Seconds = Annotated[float, typer.Option(min=0.1, max=600, help="Duration of each measurement, after a warm-up.")]


def settings_flags(flags: list[str] | None, label: str = "", runner: str | None = None) -> list[str]:
    """Returns the settings of --set, and of the flags that are short for one; later ones win."""
    return [
        *([f"ingest.label={label}"] if label else []),
        *(flags or ()),
        *([f"engine.runner={runner}"] if runner else []),
    ]


def origin_of(run: str | None) -> "Origin":
    """Returns the run that this command belongs to, and the command as the user gave it."""
    from pipelines.journal import run_id
    from pipelines.journal.calls import Origin

    return Origin(run_id.check(run) if run else run_id.new(), tuple(sys.argv[1:]))
