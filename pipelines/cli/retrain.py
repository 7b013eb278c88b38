"""The command that follows data over time: one retraining, for one span."""

from datetime import datetime
from typing import Annotated

import typer

from pipelines.cli.options import (
    Accept,
    BeamArgs,
    Because,
    Data,
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

_SIX_HOURS = 6 * 3600.0


def retrain(
    task: TaskName,
    beam_args: BeamArgs = None,
    span: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="The span to train up to: 7, 2026-11-14 or 2026-11-14T05. Default: the newest that is due, the last "
            "day or hour that is over, or the highest number.",
        ),
    ] = None,
    zone: Annotated[str, typer.Option("--timezone", metavar="ZONE", help="Time zone of the days and hours.")] = "UTC",
    at: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME",
            formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"],
            help="Without --span: the span that was due at this time of that time zone, such as 2026-11-14T03:00. "
            "Default: now.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="With ingest.late=wait: how long to wait for the span.")
    ] = _SIX_HOURS,
    again: Annotated[
        bool, typer.Option("--again", help="Also if the span is done, or older than that of the newest model.")
    ] = False,
    data: Data = None,
    root: Root = None,
    state: State = None,
    metadata: Metadata = None,
    name: Name = None,
    schema: Schema = None,
    label: Label = "",
    settings_file: SettingsFile = None,
    flags: Set = None,
    last: To = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the window and which nodes would run; change nothing.")
    ] = False,
    accept: Accept = None,
    because: Because = "",
    wait: Wait = False,
    take_over: TakeOver = False,
    runner: Runner = None,
    run_id: RunId = None,
) -> None:
    """Train on the window of a span, and push the model if it is good enough; done spans are left alone."""
    from pipelines import config
    from pipelines.notify import after_call
    from pipelines.operate import retrain as operate
    from pipelines.schedule import timetable
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
    request = operate.RetrainRequest(
        span=span,
        zone=timetable.time_zone(zone),
        at=at,
        timeout=timeout,
        again=again,
        last=last,
        dry_run=dry_run,
        wait=wait,
        take_over=take_over,
        accept=tuple(accept or ()),
        because=because,
        origin=origin_of(run_id),
    )
    if dry_run:
        raise typer.Exit(operate.retrain(chosen, request, typer.echo))
    with after_call.sent(chosen, run=request.origin.run), metrics.updated(chosen):
        code = operate.retrain(chosen, request, typer.echo)
    raise typer.Exit(code)
