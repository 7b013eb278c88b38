"""`penstock gc`: deletes what pipelines no longer need."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from components.tasks import NAMES
from pipelines.cli.options import Metadata, Name, Root, Set, SettingsFile, State, TakeOver, Wait

if TYPE_CHECKING:
    from pipelines.config import RunConfig


def gc(
    task: Annotated[
        str | None,
        typer.Argument(metavar="[TASK]", help=f"The task: {', '.join(NAMES)}. Default: every pipeline below --root."),
    ] = None,
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

    chosen = [*(flags or ()), *([f"gc.keep_runs={keep}"] if keep else [])]
    if task is None:
        found = list(_known(Path(root or "runs"), chosen))
    else:
        places = {"root": root, "state": state, "metadata": metadata, "name": name, "settings_file": settings_file}
        found = [config.make(task, data=".", **places, flags=chosen)]  # type: ignore[arg-type]
    for each in found:
        done = collect.collect(each, dry_run=dry_run, wait=wait, take_over=take_over)
        for piece in done.garbage:
            typer.echo(f"  {piece.kind:<20} {piece.place}")
        typer.echo(f"{each.name}: {done.text(dry_run=dry_run)}")


def _known(folder: Path, flags: Sequence[str]) -> "Iterator[RunConfig]":
    """Yields the pipelines below a folder, each with the settings of its newest run."""
    from components.settings import tree
    from pipelines import config
    from pipelines.journal import calls
    from pipelines.watch import pipelines

    for each in pipelines.find(folder.absolute()):
        if (newest := next(calls.newest_first(each.calls), None)) is None:
            typer.echo(f"{each.name} in {each.state}: left out, because it has no run with a run id; name its task")
            continue
        call = newest[-1]
        state = None if isinstance(each.root, Path) else str(each.state)
        metadata = None if isinstance(each.metadata, Path) else str(each.metadata)
        made = config.make(call.task, data=".", root=str(each.root), state=state, metadata=metadata, name=each.name)
        overlays = [made.task.defaults, call.settings, *map(tree.parse_flag, flags)]
        yield replace(made, settings=config.load_settings(overlays))
