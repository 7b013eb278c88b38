"""The `penstock` command. Each command is a plain function that imports what it needs when it is called."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from pipelines.cli.bench import bench, tune
from pipelines.cli.engine import engine
from pipelines.cli.gc import gc
from pipelines.cli.look import doctor, inspect
from pipelines.cli.models import models
from pipelines.cli.notify import notify
from pipelines.cli.packages import package, stage
from pipelines.cli.predict import predict
from pipelines.cli.retrain import retrain
from pipelines.cli.run import ingest, run, train_worker
from pipelines.cli.schedule import schedule
from pipelines.cli.ui import ui
from pipelines.cli.watch import logs, runs, status

app = typer.Typer(
    name="penstock",
    help="From raw data to a served model with a TFX pipeline.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command("train-worker")(train_worker)
for command in (retrain, gc, predict, ingest, status, logs, package, stage, inspect, doctor, ui):
    app.command()(command)
_GROUPS = {
    "runs": runs,
    "models": models,
    "schedule": schedule,
    "notify": notify,
    "bench": bench,
    "tune": tune,
    "engine": engine,
}
for name, group in _GROUPS.items():
    app.add_typer(group, name=name)


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
