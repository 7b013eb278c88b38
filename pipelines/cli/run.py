"""Commands that run something: a pipeline, a further worker of its training, ingest alone."""

from typing import Annotated

import typer

from pipelines.cli.options import (
    Accept,
    BeamArgs,
    Because,
    Data,
    DryRun,
    Force,
    From,
    Label,
    Metadata,
    Name,
    Root,
    RunId,
    Runner,
    Schema,
    Set,
    SettingsFile,
    State,
    TakeOver,
    TaskName,
    To,
    Wait,
    origin_of,
    settings_flags,
)


def run(
    task: TaskName,
    beam_args: BeamArgs = None,
    data: Data = None,
    root: Root = None,
    state: State = None,
    metadata: Metadata = None,
    name: Name = None,
    schema: Schema = None,
    label: Label = "",
    settings_file: SettingsFile = None,
    flags: Set = None,
    first: From = None,
    last: To = None,
    force: Force = None,
    accept: Accept = None,
    because: Because = "",
    dry_run: DryRun = False,
    wait: Wait = False,
    take_over: TakeOver = False,
    runner: Runner = None,
    run_id: RunId = None,
) -> None:
    """Bring a pipeline up to date: run the nodes that are due, and show the result."""
    from pipelines import config
    from pipelines import run as execute
    from pipelines.notify import after_call
    from pipelines.orchestration.plan import Request
    from pipelines.watch import metrics

    chosen = config.make(
        task,
        data=data,
        root=root,
        state=state,
        metadata=metadata,
        name=name,
        schema=schema,
        settings_file=settings_file,
        flags=settings_flags(flags, label, runner),
        beam_args=beam_args or (),
    )
    request = Request(first, last, frozenset(force or ()), tuple(accept or ()), because)
    if dry_run:
        raise typer.Exit(execute.dry_run(chosen, request))
    origin = origin_of(run_id)
    with after_call.sent(chosen, run=origin.run), metrics.updated(chosen):
        result = execute.run(chosen, request, wait=wait, take_over=take_over, origin=origin)
    raise typer.Exit(result.exit_code)


def train_worker(
    task: TaskName, root: Root = None, state: State = None, name: Name = None, settings_file: SettingsFile = None
) -> None:
    """Train with `penstock run` on another machine, as one of the workers that TF_CONFIG lists."""
    from pipelines import config
    from pipelines.orchestration import workers

    chosen = config.make(task, data=".", root=root, state=state, name=name, settings_file=settings_file)
    workers.join(chosen, typer.echo)


def ingest(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A file, a folder, or a pattern such as 'logs/{SPAN}/*.csv'.")
    ],
    out: Annotated[str, typer.Option(help="New folder for shards, manifest, quarantine list and schema.")],
    beam_args: BeamArgs = None,
    label: Label = "",
    earlier: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="The --out of an earlier ingest; spans that have not changed are reused."),
    ] = None,
    flags: Set = None,
    wait: Wait = False,
    runner: Runner = None,
) -> None:
    """Convert raw data to sharded TFRecords, without training."""
    from components import progress
    from components.errors import exit_code_of
    from components.settings import tree
    from components.training import interrupt
    from pipelines import config, log
    from pipelines import ingest as ingest_alone
    from pipelines.console import Display

    log.prepare_environment()
    chosen = config.load_settings(map(tree.parse_flag, settings_flags(flags, label, runner)))
    target = config.local_folder("--out", out)
    known = config.local_folder("--earlier", earlier) if earlier else None
    request = ingest_alone.IngestRequest(
        config.data_of(data), target, chosen.ingest, beam_args or (), wait, known, chosen.engine
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with log.diverted(target.with_name(f"{target.name}.log")) as user:
        display = Display(user)
        try:
            with interrupt.raised(), progress.warnings_to(display.warning):
                made = ingest_alone.ingest(request, display.surveyed)
        except KeyboardInterrupt as error:  # Typer would end with 130 for SIGTERM too
            display.say(str(error))
            raise typer.Exit(exit_code_of(error)) from None
        display.ingested(made, target)
