"""Commands that measure: `penstock bench`, `penstock tune`."""

from typing import Annotated

import typer

from pipelines.cli.options import Data, Name, Records, Root, Rounds, Seconds, Set, SettingsFile, TaskName

bench = typer.Typer(help="Measure a part of the pipeline on your own data.", no_args_is_help=True)
tune = typer.Typer(help="Find the fastest settings on this machine.", no_args_is_help=True)


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
    from pipelines.bench import accelerators, bench, show
    from pipelines.bench.processes import jobs

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
    from pipelines.bench import show, train
    from pipelines.bench.processes import jobs

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
    from pipelines.bench import show, tune
    from pipelines.bench.processes import jobs

    log.prepare_environment()
    chosen = config.make(task, data=data, root=root, name=name, settings_file=settings_file, flags=flags or ())
    job = jobs.make(chosen, records, rounds, seconds)
    typer.echo(show.tuned(tune.tune(job, file=settings_file, any_order=any_order, dry_run=dry_run)))
