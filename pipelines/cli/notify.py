"""Commands that try notifications, and send those that could not be sent: `penstock notify`."""

import typer

from pipelines.cli.options import Name, Root, Set, SettingsFile, State, TaskName, settings_flags

notify = typer.Typer(help="Notifications of runs: try the receivers, send what is left.", no_args_is_help=True)


@notify.command("test")
def send_test(
    task: TaskName,
    root: Root = None,
    state: State = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
) -> None:
    """Send a test notification, and show what each receiver answers. Exit code 1: one of them did not take it."""
    from dataclasses import replace

    from components.errors import PenstockError
    from pipelines import config
    from pipelines.journal import run_id
    from pipelines.notify import after_call, receivers
    from pipelines.notify.notification import id_of

    chosen = config.make(
        task, data=".", root=root, state=state, name=name, settings_file=settings_file, flags=settings_flags(flags)
    )
    about = after_call.about(chosen, after_call.utc_now(), "test", "a test by `penstock notify test`")
    made = replace(about, event="test", id=id_of(about.root, about.pipeline, run_id.new(), "test"))
    code = 0
    for receiver in receivers.required(chosen):
        answer = receiver.send(made, chosen.settings.notify.timeout)
        code = code if answer.is_taken else PenstockError.exit_code
        typer.echo(f"{receiver.shown}: {'taken' if answer.is_taken else 'not taken'}: {answer.text}")
    raise typer.Exit(code)


@notify.command()
def send(
    task: TaskName,
    root: Root = None,
    state: State = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
) -> None:
    """Send the notifications that could not be sent before. Exit code 1: some are left."""
    from components.errors import PenstockError
    from pipelines import config
    from pipelines.notify import after_call, deliver, receivers

    chosen = config.make(
        task, data=".", root=root, state=state, name=name, settings_file=settings_file, flags=settings_flags(flags)
    )
    file, found = after_call.file_of(chosen), receivers.required(chosen)
    before = len(file.read().outbox)
    problems = deliver.deliver(file, found, chosen.settings.notify.timeout, deliver.Pace()) if before else []
    left = len(file.read().outbox)
    typer.echo(f"{before - left} sent, {left} left")
    for problem in problems:
        typer.echo(problem)
    raise typer.Exit(PenstockError.exit_code if left else 0)
