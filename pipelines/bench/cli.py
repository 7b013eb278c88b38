"""`penstock bench input` and `penstock tune input`; `pipelines/cli.py` adds both groups to the command."""

import sys
from typing import Annotated

import typer

bench = typer.Typer(help="Measure a part of the pipeline on your own data.", no_args_is_help=True)
tune = typer.Typer(help="Try settings on this machine and keep the best.", no_args_is_help=True)

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="Which task, as in `penstock run`.")]
Data = Annotated[str | None, typer.Option(help="The raw data, if nothing was ingested yet.")]
Root = Annotated[str | None, typer.Option(help="Folder of the pipeline. Default: runs/NAME.")]
Name = Annotated[str | None, typer.Option(help="Name of the pipeline. Default: the task's.")]
SettingsFile = Annotated[
    str | None, typer.Option("--settings", help="TOML file. Default: penstock.toml, if there is one.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, as input.prefetch=4.")]
Records = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="An artifact of ingest. Default: the newest of the root.")
]
Rounds = Annotated[int, typer.Option(min=1, max=100, help="How often each is measured; medians are told.")]
Seconds = Annotated[float, typer.Option(min=0.1, max=600, help="How long each is measured, after a warm-up.")]


@bench.callback()
def _bench() -> None:
    """Measure a part of the pipeline on your own data."""


@tune.callback()
def _tune() -> None:
    """Try settings on this machine and keep the best."""


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
        str | None, typer.Option(metavar="NAME|RATE", help="A device to feed: a100, h100, or samples a second.")
    ] = None,
    rounds: Rounds = 3,
    seconds: Seconds = 3.0,
) -> None:
    """Measure the input pipeline stage by stage, against the tutorial way, and say what holds it up."""
    from pipelines import config, log
    from pipelines.bench import bench as benching
    from pipelines.bench import show

    log.prepare_environment()
    chosen = config.make(task, data=data, root=root, name=name, settings_file=settings_file, flags=flags or ())
    found = benching.bench(chosen, benching.Wish(records, accelerator, rounds, seconds), _say)
    print("\n".join(show.result(found)))


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
        bool, typer.Option("--any-order", help="Take input.order=fastest if it is: batches differ from run to run.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure and tell; write nothing.")] = False,
    rounds: Rounds = 3,
    seconds: Seconds = 1.5,
) -> None:
    """Try settings of the input pipeline and write what is faster into your settings file."""
    from pipelines import config, log
    from pipelines.bench import show
    from pipelines.bench import tune as tuning

    log.prepare_environment()
    chosen = config.make(task, data=data, root=root, name=name, settings_file=settings_file, flags=flags or ())
    wish = tuning.Wish(records, settings_file, rounds, seconds, any_order, dry_run)
    print("\n".join(show.tuned(tuning.tune(chosen, wish, _say))))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
