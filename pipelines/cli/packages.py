"""Commands that make packages for workers and jobs for Dataflow."""

from typing import Annotated

import typer

from pipelines.cli.options import (
    BeamArgs,
    Include,
    Label,
    Name,
    Schema,
    Set,
    SettingsFile,
    TaskName,
    settings_flags,
)


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
        flags=settings_flags(flags, label),
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
