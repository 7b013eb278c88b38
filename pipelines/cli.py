"""The `penstock` command. Each command is a plain function that imports what it needs when it is called."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from components.tasks import NAMES

# Typer reads annotations at run time; `Optional` keeps them readable for it on Python 3.10.
app = typer.Typer(
    name="penstock",
    help="From raw data to a served model with a TFX pipeline.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

bench = typer.Typer(help="Measure a part of the pipeline on your own data.", no_args_is_help=True)
tune = typer.Typer(help="Find the fastest settings on this machine.", no_args_is_help=True)
app.add_typer(bench, name="bench")
app.add_typer(tune, name="tune")
engine = typer.Typer(help="A Flink cluster on this machine, for --runner flink.", no_args_is_help=True)
app.add_typer(engine, name="engine")

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
Label = Annotated[
    str, typer.Option(help="Label column of a table (text or image tasks too); the same as --set ingest.label=COLUMN.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print which nodes would run, and why; change nothing.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until another run on the same root has finished.")]
Runner = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Where data nodes run: direct, flink or dataflow; as --set engine.runner=NAME."),
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


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """From raw data to a served model with a TFX pipeline."""
    del version  # handled by its callback


@app.command()
def run(
    task: TaskName,
    beam_args: BeamArgs = None,
    data: Data = None,
    root: Root = None,
    state: State = None,
    metadata: Metadata = None,
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
    take_over: TakeOver = False,
    runner: Runner = None,
) -> None:
    """Bring a pipeline up to date: run the nodes that are due, and show the result."""
    from pipelines import config
    from pipelines import run as execute
    from pipelines.orchestration.plan import Request

    chosen = config.make(
        task,
        data=data,
        root=root,
        state=state,
        metadata=metadata,
        name=name,
        schema=schema,
        settings_file=settings_file,
        flags=[*([f"ingest.label={label}"] if label else []), *(flags or ()), *_runner_flag(runner)],
        beam_args=beam_args or (),
    )
    request = Request(first, last, frozenset(force or ()))
    if dry_run:
        raise typer.Exit(execute.dry_run(chosen, request))
    raise typer.Exit(execute.run(chosen, request, wait=wait, take_over=take_over))


def _runner_flag(runner: str | None) -> list[str]:
    return [f"engine.runner={runner}"] if runner else []


@app.command("train-worker")
def train_worker(
    task: TaskName, root: Root = None, state: State = None, name: Name = None, settings_file: SettingsFile = None
) -> None:
    """Train with `penstock run` on another machine, as one of the workers that TF_CONFIG lists."""
    from pipelines import config
    from pipelines.orchestration import workers

    chosen = config.make(task, data=".", root=root, state=state, name=name, settings_file=settings_file)
    workers.join(chosen, typer.echo)


@app.command()
def ingest(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A file, a folder, or a pattern such as 'logs/{SPAN}/*.csv'.")
    ],
    out: Annotated[str, typer.Option(help="New folder for shards, manifest, quarantine list and schema.")],
    beam_args: BeamArgs = None,
    label: Label = "",
    earlier: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="The --out of an earlier ingest; spans that have not changed are reused."),
    ] = None,
    flags: Set = None,
    wait: Wait = False,
    runner: Runner = None,
) -> None:
    """Convert raw data to sharded TFRecords, without training."""
    from components import progress
    from components.errors import exit_code_of
    from components.settings import tree
    from components.training import interrupt
    from pipelines import config, log
    from pipelines import ingest as ingest_alone
    from pipelines.console import Display

    log.prepare_environment()
    given = map(tree.parse_flag, [*(flags or ()), *_runner_flag(runner)])
    chosen = config.load_settings([{"ingest": {"label": label}}, *given])
    target = config.local_folder("--out", out)
    known = config.local_folder("--earlier", earlier) if earlier else None
    request = ingest_alone.IngestRequest(
        config.data_of(data), target, chosen.ingest, beam_args or (), wait, known, chosen.engine
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with log.diverted(target.with_name(f"{target.name}.log")) as user:
        display = Display(user)
        try:
            with interrupt.raised(), progress.warnings_to(display.warning):
                made = ingest_alone.ingest(request, display.surveyed)
        except KeyboardInterrupt as error:  # Typer would end with 130 for SIGTERM too
            display.say(str(error))
            raise typer.Exit(exit_code_of(error)) from None
        display.ingested(made, target)


@app.command()
def package(
    task: TaskName,
    out: Annotated[str, typer.Option(metavar="DIR", help="New folder for wheels, requirements and Dockerfile.")],
    include: Include = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
) -> None:
    """Write what the workers of Flink and Dataflow need: wheels, their requirements, and a Dockerfile."""
    from pathlib import Path

    from pipelines import config
    from pipelines.package import bundle, user_code

    chosen = config.make(task, data=".", name=name, settings_file=settings_file, flags=flags or ())
    modules = user_code.modules(chosen.task, chosen.settings)
    made = bundle.write(config.local_folder("--out", out), modules, [Path(each) for each in include or ()])
    typer.echo(f"{made.wheel.name}: Penstock's code")
    if made.own:
        typer.echo(f"{made.own.name}: your modules and data files")
    typer.echo(f"{bundle.LOCK}: {made.packages} packages")
    typer.echo(f"Dockerfile, README.md: what to do with them, in {made.folder}")


@app.command()
def stage(
    task: TaskName,
    sample: Annotated[
        str, typer.Option(metavar="ROOT", help="Root of a finished run of this pipeline on a sample, on this machine.")
    ],
    sample_data: Annotated[str, typer.Option(metavar="DATA", help="Raw data of that run: a file or folder.")],
    root: Annotated[str, typer.Option(help="Root that the jobs use: gs://bucket/folder.")],
    data: Annotated[str, typer.Option(help="Raw data that the jobs read: gs://bucket/file or folder.")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder for the jobs, one folder per node.")],
    beam_args: BeamArgs = None,
    include: Include = None,
    name: Name = None,
    schema: Schema = None,
    label: Label = "",
    settings_file: SettingsFile = None,
    flags: Set = None,
) -> None:
    """Build the Dataflow job of every data node, and write it to a folder; needs no account and no network."""
    from pathlib import Path

    from pipelines import config, log
    from pipelines.orchestration.runners import dataflow
    from pipelines.package import user_code

    chosen = config.make(
        task,
        data=sample_data,
        root=sample,
        name=name,
        schema=schema,
        settings_file=settings_file,
        flags=[*([f"ingest.label={label}"] if label else []), *(flags or ())],
        beam_args=beam_args or (),
    )
    target = config.local_folder("--out", out)
    files = [Path(each) for each in include or ()]
    own = user_code.version(user_code.modules(chosen.task, chosen.settings), files)
    dataflow.check(chosen.settings.engine, root, data, own)  # before TFX is imported
    log.prepare_environment()
    with log.diverted(target / "stage.log") as user:
        from pipelines.dataflow import stage as jobs

        places = jobs.Places(root.rstrip("/"), data.rstrip("/"), target)
        for job in jobs.stage(chosen, places, files):
            print(f"{job.node}: {job.transforms} transforms, {job.graph_bytes / 1e6:.2f} MB, {job.folder}", file=user)


@app.command()
def inspect(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Raw data, TFRecords or an artifact: folder, file or pattern.")
    ],
    rows: Annotated[int, typer.Option(help="Number of records to show.", min=0, max=1000)] = 5,
    sheet: Annotated[
        str | None, typer.Option(metavar="FILE.png", help="Write a contact sheet of up to 64 images to this file.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the checksums of an artifact's shards.")] = False,
) -> None:
    """Show what a data set contains: counts, columns, classes, first records, images."""
    from pathlib import Path

    from pipelines import log
    from pipelines.inspection import inspect as show

    log.prepare_environment()
    show(path, sys.stdout, rows=rows, sheet=Path(sheet) if sheet else None, verify=verify)


@bench.command("input")
def bench_input(
    task: TaskName,
    data: Data = None,
    root: Root = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
    records: Records = None,
    accelerator: Annotated[
        str | None, typer.Option(metavar="NAME|RATE", help="Device to simulate: a100, h100, or samples per second.")
    ] = None,
    rounds: Rounds = 3,
    seconds: Seconds = 3.0,
) -> None:
    """Measure the input pipeline: each stage, against tutorial code, with a simulated device; report the bottleneck."""
    from pipelines import config, log
    from pipelines.bench import accelerators, bench, jobs, show

    log.prepare_environment()
    chosen = config.make(task, data=data, root=root, name=name, settings_file=settings_file, flags=flags or ())
    device = accelerators.parse(accelerator) if accelerator else None
    typer.echo(show.benched(bench.bench(jobs.make(chosen, records, rounds, seconds), device)))


@bench.command("train")
def bench_train(
    task: TaskName,
    data: Data = None,
    root: Root = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
    records: Records = None,
    rounds: Rounds = 3,
    seconds: Seconds = 3.0,
) -> None:
    """Measure training: the input alone, the model alone, both together, and the share of waiting for input."""
    from pipelines import config, log
    from pipelines.bench import jobs, show, train

    log.prepare_environment()
    chosen = config.make(task, data=data, root=root, name=name, settings_file=settings_file, flags=flags or ())
    typer.echo(show.trained(train.bench(jobs.make(chosen, records, rounds, seconds))))


@tune.command("input")
def tune_input(
    task: TaskName,
    data: Data = None,
    root: Root = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
    records: Records = None,
    any_order: Annotated[
        bool, typer.Option("--any-order", help="Allow input.order=fastest; batches then differ from run to run.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure and report, but write nothing.")] = False,
    rounds: Rounds = 3,
    seconds: Seconds = 1.5,
) -> None:
    """Measure settings of the input pipeline and write the fastest into your settings file."""
    from pipelines import config, log
    from pipelines.bench import jobs, show, tune

    log.prepare_environment()
    chosen = config.make(task, data=data, root=root, name=name, settings_file=settings_file, flags=flags or ())
    job = jobs.make(chosen, records, rounds, seconds)
    typer.echo(show.tuned(tune.tune(job, file=settings_file, any_order=any_order, dry_run=dry_run)))


@engine.command("start")
def engine_start(
    name: EngineName,
    task_managers: Annotated[int, typer.Option(min=1, max=64, help="Number of task managers.")] = 2,
    slots: Annotated[int, typer.Option(min=0, max=64, help="Slots per task manager; 0: one per core.")] = 0,
) -> None:
    """Install the engine once, and start it on this machine; it listens on 127.0.0.1 only."""
    from pipelines.engine import commands

    commands.start(name, task_managers, slots, typer.echo)


@engine.command("status")
def engine_status(name: EngineName) -> None:
    """Show the processes, slots and jobs of the engine."""
    from pipelines.engine import commands

    raise typer.Exit(commands.status(name, typer.echo))


@engine.command("stop")
def engine_stop(name: EngineName) -> None:
    """Stop the processes that `penstock engine start` started; logs are kept."""
    from pipelines.engine import commands

    commands.stop(name, typer.echo)


@app.command()
def doctor() -> None:
    """Check this machine, and print what to do about each problem."""
    from pipelines import doctor as checks

    raise typer.Exit(checks.main())


def main() -> None:
    """Runs the command; a PenstockError becomes one message and its exit code, without a traceback."""
    import traceback

    from components.errors import PenstockError, exit_code_of
    from components.redact import redact
    from components.storage import location, tensorflow_s3

    sys.excepthook = lambda *error: print(redact("".join(traceback.format_exception(*error))), file=sys.stderr, end="")
    try:
        code = _exit_code(app)
    except (PenstockError, KeyboardInterrupt) as error:
        print(redact(f"penstock: {error}") if str(error) else "penstock: interrupted", file=sys.stderr)
        code = exit_code_of(error)
    except OSError as error:
        if (explained := location.unreachable(error)) is None:
            sys.excepthook(*sys.exc_info())
        else:
            print(redact(f"penstock: {explained}"), file=sys.stderr)
        code = exit_code_of(explained or error)
    except Exception:  # noqa: BLE001 - shown as Python would
        sys.excepthook(*sys.exc_info())
        code = PenstockError.exit_code
    tensorflow_s3.end(code)
    raise SystemExit(code)


def _exit_code(command: Callable[[], None]) -> int:
    """Runs a command; returns the exit code that it ends with, as Typer ends every command by SystemExit."""
    try:
        command()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
