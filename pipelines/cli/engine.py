"""Commands on the engine of this machine: `penstock engine`."""

from typing import Annotated

import typer

from pipelines.cli.options import EngineName

engine = typer.Typer(help="A Flink cluster on this machine, for --runner flink.", no_args_is_help=True)


@engine.command("start")
def engine_start(
    name: EngineName = "flink",
    task_managers: Annotated[int, typer.Option(min=1, max=64, help="Number of task managers.")] = 2,
    slots: Annotated[int, typer.Option(min=0, max=64, help="Slots per task manager; 0: one per core.")] = 0,
) -> None:
    """Install the engine once, and start it on this machine; it listens on 127.0.0.1 only."""
    from pipelines.engine import commands

    commands.start(name, task_managers, slots, typer.echo)


@engine.command("status")
def engine_status(name: EngineName = "flink") -> None:
    """Show the processes, slots and jobs of the engine."""
    from pipelines.engine import commands

    raise typer.Exit(commands.status(name, typer.echo))


@engine.command("stop")
def engine_stop(name: EngineName = "flink") -> None:
    """Stop the processes that `penstock engine start` started; logs are kept."""
    from pipelines.engine import commands

    commands.stop(name, typer.echo)
