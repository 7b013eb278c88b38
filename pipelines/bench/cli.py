"""`penstock bench input` and `penstock tune input`; `pipelines/cli.py` adds both groups to the command."""

import sys
from typing import Annotated

import typer

bench = typer.Typer(help="Measure a part of the pipeline on your own data.", no_args_is_help=True)
tune = typer.Typer(help="Find the fastest settings on this machine.", no_args_is_help=True)

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="The task, as in `penstock run`.")]
Data = Annotated[str | None, typer.Option(help="Raw data, if nothing has been ingested yet.")]
Root = Annotated[str | None, typer.Option(help="Folder of the pipeline. Default: runs/NAME.")]
Name = Annotated[str | None, typer.Option(help="Name of the pipeline. Default: the task's name.")]
SettingsFile = Annotated[
    str | None, typer.Option("--settings", help="TOML file with settings. Default: penstock.toml, if it exists.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as input.prefetch=4.")
]
Records = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Output folder of ingest. Default: the newest of the pipeline.")
]
Rounds = Annotated[int, typer.Option(min=1, max=100, help="Measurements of each variant; medians are shown.")]
Seconds = Annotated[float, typer.Option(min=0.1, max=600, help="Duration of each measurement, after a warm-up.")]


@bench.callback()
def _bench() -> None:
    """Measure a part of the pipeline on your own data."""


@tune.callback()
def _tune() -> None:
    """Find the fastest settings on this machine."""


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
    from pipelines.bench import bench as command
    from pipelines.bench import show

    log.prepare_environment()
    chosen = config.make(task, data=data, root=root, name=name, settings_file=settings_file, flags=flags or ())
    request = command.BenchRequest(records, accelerator, rounds, seconds)
    print("\n".join(show.benched(command.bench(chosen, request, _log))))


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
    from pipelines.bench import show
    from pipelines.bench import tune as command

    log.prepare_environment()
    chosen = config.make(task, data=data, root=root, name=name, settings_file=settings_file, flags=flags or ())
    request = command.TuneRequest(records, settings_file, rounds, seconds, any_order, dry_run)
    print("\n".join(show.tuned(command.tune(chosen, request, _log))))


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
