"""The `penstock` command. Commands are plain functions; what they need is imported when they are called."""

import sys
from typing import Annotated

import typer

from components.tasks import NAMES
from pipelines.bench.cli import bench, tune

# Typer reads annotations at run time; `Optional` keeps them readable for it on Python 3.10.
app = typer.Typer(
    name="penstock",
    help="Raw data to a served model through a real TFX pipeline, on one machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

TaskName = Annotated[str, typer.Argument(metavar="TASK", help=f"Which task: {', '.join(NAMES)}.")]
Data = Annotated[str | None, typer.Option(help="The raw data: folder, file or pattern. Default: the generated sample.")]
Root = Annotated[str | None, typer.Option(help="Folder for metadata, artifacts and models. Default: runs/NAME.")]
Name = Annotated[str | None, typer.Option(help="Name of the pipeline. Default: the task's.")]
Schema = Annotated[
    str | None, typer.Option(metavar="FILE", help="Schema of your own. Default: the task's, or one that is inferred.")
]
SettingsFile = Annotated[
    str | None, typer.Option("--settings", help="TOML file. Default: penstock.toml, if there is one.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, as train.epochs=3.")]
From = Annotated[
    str | None, typer.Option("--from", metavar="NODE", help="Take the outputs of all nodes before it as they are.")
]
To = Annotated[str | None, typer.Option("--to", metavar="NODE", help="Stop after it.")]
Force = Annotated[list[str] | None, typer.Option("--force", metavar="NODE", help="Run it though it is up to date.")]
Label = Annotated[str, typer.Option(help="Column that holds the label, where data are rows.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would run and why; change nothing.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for another run on the same root.")]
BeamArgs = Annotated[list[str] | None, typer.Argument(metavar="[-- BEAM FLAGS]", help="Passed on to Beam.")]


app.add_typer(bench, name="bench")
app.add_typer(tune, name="tune")


@app.callback()
def _root() -> None:
    """Raw data to a served model through a real TFX pipeline, on one machine."""


@app.command()
def run(
    task: TaskName,
    beam_args: BeamArgs = None,
    data: Data = None,
    root: Root = None,
    name: Name = None,
    schema: Schema = None,
    label: Label = "",
    settings_file: SettingsFile = None,
    flags: Set = None,
    first: From = None,
    last: To = None,
    force: Force = None,
    dry_run: DryRun = False,
    wait: Wait = False,
) -> None:
    """Bring a pipeline up to date: run what is due, say why, show the result."""
    from pipelines import config
    from pipelines import run as execute
    from pipelines.orchestration.plan import Request

    chosen = config.make(
        task,
        data=data,
        root=root,
        name=name,
        schema=schema,
        settings_file=settings_file,
        flags=[*([f"ingest.label={label}"] if label else []), *(flags or ())],
        beam_args=beam_args or (),
    )
    request = Request(first, last, frozenset(force or ()))
    if dry_run:
        raise typer.Exit(execute.dry_run(chosen, request))
    raise typer.Exit(execute.run(chosen, request, wait=wait))


@app.command()
def ingest(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A file, a folder, or a pattern such as 'logs/{SPAN}/*.csv'.")
    ],
    out: Annotated[str, typer.Option(help="Folder to make, with shards, manifest, quarantine and schema.")],
    beam_args: BeamArgs = None,
    label: Label = "",
    earlier: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="An earlier --out: its unchanged spans are not read again.")
    ] = None,
    flags: Set = None,
    wait: Wait = False,
) -> None:
    """Turn raw data into sharded TFRecords, and stop there."""
    from pathlib import Path

    from components.settings import tree
    from pipelines import config, log
    from pipelines import ingest as ingest_alone
    from pipelines.console import Display

    log.prepare_environment()
    chosen = tree.load([{"ingest": {"label": label}}, *(tree.parse_flag(flag) for flag in flags or ())])
    target, known = Path(out).absolute(), Path(earlier).absolute() if earlier else None
    request = ingest_alone.IngestRequest(config.data_of(data), target, chosen.ingest, beam_args or (), wait, known)
    target.parent.mkdir(parents=True, exist_ok=True)
    with log.diverted(target.with_name(f"{target.name}.log")) as user:
        display = Display(user)
        made = ingest_alone.ingest(request, display.surveyed)
        display.ingested(made, target)


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Raw data, TFRecords or an artifact; patterns too.")],
    rows: Annotated[int, typer.Option(help="How many of the first records to show.", min=0, max=1000)] = 5,
    sheet: Annotated[str | None, typer.Option(metavar="FILE.png", help="Draw up to 64 images into it.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Of an artifact: compare each shard's checksum.")] = False,
) -> None:
    """Show what is in a set: counts, columns, classes, first records, images."""
    from pathlib import Path

    from pipelines import log
    from pipelines.inspection import InspectRequest
    from pipelines.inspection import inspect as show

    log.prepare_environment()
    show(path, InspectRequest(rows, Path(sheet) if sheet else None, verify), sys.stdout)


@app.command()
def doctor() -> None:
    """Check this machine and say what to do about what is missing."""
    from pipelines import doctor as checks

    raise typer.Exit(checks.main())


def main() -> None:
    """Runs the command; an error of ours is one message and its exit code, never a traceback."""
    from components.errors import PenstockError, exit_code_of

    try:
        app()
    except (PenstockError, KeyboardInterrupt) as error:
        print(f"penstock: {error}" if str(error) else "penstock: interrupted", file=sys.stderr)
        raise SystemExit(exit_code_of(error)) from None
