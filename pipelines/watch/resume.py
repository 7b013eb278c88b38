"""Starts a run again: the command that its last call was, with its id."""

from components.errors import SettingsError
from pipelines.watch.history import Run

_HIDDEN = "***"  # what components/redact.py writes in place of a secret
_COMMANDS = ("run", "retrain")


def command(run: Run) -> tuple[list[str], str]:
    """Returns the arguments of `penstock` that go on with a run, and the folder to start them in."""
    last = run.calls[-1] if run.calls else None
    if last is None or not last.command or last.command[0] not in _COMMANDS:
        raise SettingsError(
            f"run {run.id}: its command is not known here; expected a run that `penstock run` or `penstock retrain` "
            f"started on this machine: start it again with --run-id {run.id}"
        )
    if run.state == "running":
        raise SettingsError(
            f"run {run.id}: it is running; expected one that has ended (penstock logs {run.id} --follow)"
        )
    if any(_HIDDEN in argument for argument in last.command):
        raise SettingsError(
            f"run {run.id}: its command had a secret, which is not recorded; expected one without: start it again with "
            f"the same flags and --run-id {run.id}"
        )
    name, *rest = last.command
    has_id = any(argument.partition("=")[0] == "--run-id" for argument in rest)
    return [name, *([] if has_id else ["--run-id", run.id]), *rest], last.folder
