"""`penstock gc`: deletes what a pipeline no longer needs."""

from typing import Annotated

import typer

from pipelines.cli.options import Metadata, Name, Root, Set, SettingsFile, State, TakeOver, TaskName, Wait


def gc(
    task: TaskName,
    root: Root = None,
    state: State = None,
    metadata: Metadata = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=1, help="Newest runs to keep, as --set gc.keep_runs=N.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be deleted; delete nothing.")] = False,
    wait: Wait = False,
    take_over: TakeOver = False,
) -> None:
    """Delete the artifacts, versions and logs that neither the newest runs nor the live model need."""
    from pipelines import config
    from pipelines.retention import collect

    chosen = config.make(
        task,
        data=".",  # is not read
        root=root,
        state=state,
        metadata=metadata,
        name=name,
        settings_file=settings_file,
        flags=[*(flags or ()), *([f"gc.keep_runs={keep}"] if keep else [])],
    )
    done = collect.collect(chosen, dry_run=dry_run, wait=wait, take_over=take_over)
    for each in done.garbage:
        typer.echo(f"  {each.kind:<20} {each.place}")
    typer.echo(done.text(dry_run=dry_run))
