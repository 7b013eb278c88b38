"""`penstock gc`: deletes what pipelines no longer need."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from components.tasks import NAMES
from pipelines.cli.options import Metadata, Name, Root, Set, SettingsFile, State, TakeOver, Wait

if TYPE_CHECKING:
    from pipelines.config import RunConfig
    from pipelines.watch.pipelines import KnownPipeline


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
    from components.errors import PenstockError
    from components.redact import redact
    from pipelines import config
    from pipelines.watch import pipelines

    chosen = [*(flags or ()), *([f"gc.keep_runs={keep}"] if keep else [])]
    how = {"dry_run": dry_run, "wait": wait, "take_over": take_over}
    if task is not None:
        places = {"root": root, "state": state, "metadata": metadata, "name": name, "settings_file": settings_file}
        _collect(config.make(task, data=".", **places, flags=chosen), **how)  # type: ignore[arg-type]
        return

    def attempt(known: "KnownPipeline") -> int:
        try:
            if made := _of(known, chosen):
                _collect(made, **how)
        except PenstockError as error:  # a run that goes on in one root keeps no other from being collected
            typer.echo(f"{known.name} in {known.state}: nothing was deleted: {redact(str(error))}", err=True)
            return error.exit_code
        return 0

    codes = [attempt(each) for each in pipelines.find(Path(root or "runs").absolute())]
    raise typer.Exit(next(filter(None, codes), 0))


def _collect(made: "RunConfig", *, dry_run: bool, wait: bool, take_over: bool) -> None:
    from pipelines.retention import collect

    done = collect.collect(made, dry_run=dry_run, wait=wait, take_over=take_over)
    for piece in done.garbage:
        typer.echo(f"  {piece.kind:<20} {piece.place}")
    typer.echo(f"{made.name}: {done.text(dry_run=dry_run)}")


def _of(known: "KnownPipeline", flags: Sequence[str]) -> "RunConfig | None":
    """Returns a pipeline with the settings of its newest run; None if there is none."""
    from components.settings import tree
    from pipelines import config
    from pipelines.config.metadata_server import Server
    from pipelines.journal import calls

    if (newest := next(calls.newest_first(known.calls), None)) is None:
        typer.echo(f"{known.name} in {known.state}: left out, because it has no run with a run id; name its task")
        return None
    call = newest[-1]
    state = None if isinstance(known.root, Path) else str(known.state)
    made = config.make(call.task, data=".", root=str(known.root), state=state, name=known.name)
    settings = {section: values for section, values in call.settings.items() if section != "notify"}  # has a secret
    serving = {"push": {"directory": str(known.serving)}}  # as the run found it, in its own working directory
    overlays = [made.task.defaults, settings, serving, *map(tree.parse_flag, flags)]
    # Its own metadata, whatever server the environment or a settings file names.
    server = known.metadata if isinstance(known.metadata, Server) else None
    return replace(made, settings=config.load_settings(overlays), server=server)
