"""Commands that retrain on a schedule: `penstock schedule`."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.options import (
    BeamArgs,
    Data,
    Label,
    Metadata,
    Name,
    Root,
    Runner,
    Schema,
    Set,
    SettingsFile,
    State,
    TaskName,
    settings_flags,
)

if TYPE_CHECKING:
    from pipelines.config import RunConfig
    from pipelines.schedule.ledger import ScheduleLedger
    from pipelines.schedule.schedule import PipelineSchedule
    from pipelines.schedule.view import ScheduleView

schedule = typer.Typer(help="Retrain on a schedule: add one, serve it, export it.", no_args_is_help=True)

Folders = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FOLDER]...", help="Roots, or folders of roots. Default: runs."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_FORMATS = ("systemd", "cron", "airflow", "kubernetes")
_TICKS = 14
_TIME = "%Y-%m-%d %H:%M"


@schedule.command()
def add(
    task: TaskName,
    beam_args: BeamArgs = None,
    cron: Annotated[str | None, typer.Option(metavar="EXPR", help="When, as cron writes it: '0 3 * * *'.")] = None,
    every: Annotated[str | None, typer.Option(metavar="TIME", help="Or an interval: 30m, 6h or 2d.")] = None,
    zone: Annotated[
        str, typer.Option("--timezone", metavar="ZONE", help="Time zone of the times, and of days and hours of data.")
    ] = "UTC",
    overlap: Annotated[
        str, typer.Option(metavar="POLICY", help="A tick while a run goes on: skip it, or queue it.")
    ] = "skip",
    catch_up: Annotated[
        str, typer.Option(metavar="POLICY", help="Ticks while no scheduler ran: none, the last, or all.")
    ] = "last",
    replace: Annotated[bool, typer.Option("--replace", help="In place of the pipeline's schedule.")] = False,
    data: Data = None,
    root: Root = None,
    state: State = None,
    metadata: Metadata = None,
    name: Name = None,
    schema: Schema = None,
    label: Label = "",
    settings_file: SettingsFile = None,
    flags: Set = None,
    runner: Runner = None,
) -> None:
    """Retrain a pipeline on a schedule; the other flags are those of `penstock retrain`."""
    from datetime import datetime, timezone

    from pipelines import config
    from pipelines.schedule import add as schedules
    from pipelines.schedule.ledger import ScheduleLedger
    from pipelines.watch import metrics

    given = {"data": data, "root": root, "state": state, "metadata": metadata, "name": name, "schema": schema}
    chosen = config.make(
        task,
        **given,
        settings_file=settings_file,
        flags=settings_flags(flags, label, runner),
        beam_args=beam_args or (),
    )
    metrics.require_folder(chosen)  # else every tick would be rejected
    wish = schedules.ScheduleWish(cron, every, zone, overlap, catch_up)
    made = schedules.make(
        chosen, wish, given, settings_file, settings_flags(flags, label, runner), datetime.now(timezone.utc)
    )
    ledger = ScheduleLedger(chosen.notes)
    ledger.put(made, new=not replace)
    first = made.timetable.first(1, made.since)[0]
    typer.echo(
        f"{made.name}: {made.rule} ({made.zone}), first at {first.local:{_TIME}}; start `penstock schedule serve`"
    )


@schedule.command("list")
def list_schedules(folders: Folders = None, as_json: Json = False) -> None:
    """List schedules, their next tick and their last result."""
    rows = [(_root(notes), view) for notes in _found(folders) for view in _views(notes)]
    if as_json:
        _print_json([_json(root, view) for root, view in rows])
        return
    if not rows:
        typer.echo("no schedules; add one with `penstock schedule add`")
    cells = [("pipeline", "when", "next (UTC)", "last (UTC)", "root"), *(_cells(root, view) for root, view in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(5)]
    for row in cells if rows else ():
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@schedule.command()
def show(
    task: TaskName,
    root: Root = None,
    state: State = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Show a schedule, its next ticks and its last fourteen."""
    import shlex

    ledger, found = _open(task, root, state, name, settings_file)
    view = next(each for each in _views(ledger.file.parent) if each.schedule.name == found.name)
    if as_json:
        _print_json(_json(_root(ledger.file.parent), view))
        return
    rows = {
        "pipeline": f"{found.name} ({found.task})",
        "when": f"{found.rule} ({found.zone}){', paused' if found.paused else ''}",
        "overlap": found.overlap,
        "catch up": found.catch_up,
        "command": shlex.join(["penstock", "retrain", "--timezone", found.zone, found.task, *found.arguments]),
        "folder": found.folder,
        "next": ", ".join(f"{tick.local:{_TIME}}" for tick in view.next) or "-",
    }
    for key, value in rows.items():
        typer.echo(f"{key:<9} {value}")
    for tick in view.undecided:
        typer.echo(f"late      {tick.key}: no scheduler has handled it; start `penstock schedule serve`")
    for record in view.last:
        run = f" (run {record.run_id})" if record.run_id else ""
        typer.echo(f"tick      {record.tick.key}: {record.state}{': ' * bool(record.reason)}{record.reason}{run}")


@schedule.command()
def pause(
    task: TaskName, root: Root = None, state: State = None, name: Name = None, settings_file: SettingsFile = None
) -> None:
    """Start no more ticks, until the schedule is resumed; a run that goes on is left alone."""
    from dataclasses import replace

    ledger, found = _open(task, root, state, name, settings_file)
    ledger.put(replace(found, paused=True))
    typer.echo(f"{found.name}: paused")


@schedule.command()
def resume(
    task: TaskName, root: Root = None, state: State = None, name: Name = None, settings_file: SettingsFile = None
) -> None:
    """Start ticks again, from the next one on; those of the pause are left out."""
    from dataclasses import replace
    from datetime import datetime, timezone

    ledger, found = _open(task, root, state, name, settings_file)
    now = datetime.now(timezone.utc)
    if found.paused:
        ledger.put(replace(found, paused=False, resumed=now))
    typer.echo(f"{found.name}: next at {found.timetable.first(1, now)[0].local:{_TIME}} ({found.zone})")


@schedule.command()
def remove(
    task: TaskName, root: Root = None, state: State = None, name: Name = None, settings_file: SettingsFile = None
) -> None:
    """Remove a schedule and its ledger; the pipeline, its models and a run that goes on are left alone."""
    ledger, found = _open(task, root, state, name, settings_file)
    ledger.remove(found.name)
    typer.echo(f"{found.name}: removed")


@schedule.command("run-now")
def run_now(
    task: TaskName, root: Root = None, state: State = None, name: Name = None, settings_file: SettingsFile = None
) -> None:
    """Run a tick of this moment, wait for its end and exit with its code."""
    from components.errors import PenstockError
    from pipelines.notify.scheduler import ScheduleNotifier
    from pipelines.schedule.clock import SystemClock
    from pipelines.schedule.serve import Scheduler

    ledger, found = _open(task, root, state, name, settings_file)
    clock = SystemClock()
    with clock.signals():
        notifier = ScheduleNotifier(clock.now, _say)
        scheduler = Scheduler(lambda: [ledger.file.parent], clock, _say, notify=notifier.ended)
        ended = scheduler.run_by_hand(ledger, found.name)
    code = 128 + clock.stopped_by if clock.stopped_by else ended.exit_code
    raise typer.Exit(PenstockError.exit_code if code is None else code)


@schedule.command()
def serve(
    folders: Folders = None,
    at_once: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many pipelines may be retrained at the same time.")
    ] = 1,
) -> None:
    """Run what is due, until Ctrl-C or SIGTERM; runs are stopped with it and go on with the next one."""
    from pipelines.notify.scheduler import ScheduleNotifier
    from pipelines.schedule import view
    from pipelines.schedule.clock import SystemClock
    from pipelines.schedule.serve import Scheduler

    clock, places = SystemClock(), _places(folders)
    with clock.signals():
        _say(f"scheduler for {', '.join(map(str, places))}: {len(view.folders(places))} with a schedule")
        notifier = ScheduleNotifier(clock.now, _say)
        Scheduler(
            lambda: view.folders(places), clock, _say, at_once=at_once, notify=notifier.ended, look=notifier.look
        ).run()
    raise typer.Exit(128 + clock.stopped_by)


@schedule.command()
def export(
    target: Annotated[str, typer.Argument(metavar="FORMAT", help=f"One of {', '.join(_FORMATS)}.")],
    task: TaskName,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for the files. Default: print them.")
    ] = None,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="kubernetes: container image with penstock.")] = "",
    claim: Annotated[str, typer.Option(metavar="NAME", help="kubernetes: volume claim with root and data.")] = "",
    mount: Annotated[str, typer.Option(metavar="PATH", help="kubernetes: where the claim is mounted.")] = "/data",
    root: Root = None,
    state: State = None,
    name: Name = None,
    settings_file: SettingsFile = None,
) -> None:
    """Write a schedule for another scheduler, which then calls the same `penstock retrain`."""
    from components.errors import SettingsError
    from components.storage import durable
    from pipelines.schedule.export import airflow, crontab, kubernetes, systemd

    _, found = _open(task, root, state, name, settings_file)
    if target == "kubernetes":
        if not image:
            raise SettingsError("export kubernetes: no image; name a container image with penstock by --image")
        files = kubernetes.export(found, image, claim, mount)
        for warning in kubernetes.warnings(found, claim, mount):
            typer.echo(f"warning: {warning}", err=True)
    elif target == "airflow":
        files = airflow.export(found, found.settings)
    elif target in _FORMATS:
        files = (systemd if target == "systemd" else crontab).export(found)
    else:
        raise SettingsError(f"export {target}: unknown; expected one of {', '.join(_FORMATS)}")
    for file in files:
        if out is None:
            typer.echo(f"# {file.name}\n{file.content}" if len(files) > 1 else file.content, nl=False)
        else:
            durable.write_bytes(out / file.name, file.content.encode())
            typer.echo(str(out / file.name))


def _say(line: str) -> None:
    with suppress(OSError):  # its output may be on the full disk that a scheduler waits out
        typer.echo(line)


def _places(folders: list[Path] | None) -> list[Path]:
    return [folder.expanduser().absolute() for folder in folders or [Path("runs")]]


def _found(folders: list[Path] | None) -> list[Path]:
    from pipelines.schedule import view

    return view.folders(_places(folders))


def _root(notes: Path) -> str:
    return str(notes.parent)


def _views(notes: Path) -> "list[ScheduleView]":
    from datetime import datetime, timezone

    from pipelines.schedule import view

    return view.read(notes, datetime.now(timezone.utc), ticks=_TICKS)


def _open(
    task: str, root: str | None, state: str | None, name: str | None, settings_file: str | None
) -> "tuple[ScheduleLedger, PipelineSchedule]":
    from pipelines import config
    from pipelines.schedule.ledger import ScheduleLedger

    chosen: RunConfig = config.make(task, data=".", root=root, state=state, name=name, settings_file=settings_file)
    ledger = ScheduleLedger(chosen.notes)
    return ledger, ledger.find(chosen.name)


def _cells(root: str, view: "ScheduleView") -> tuple[str, ...]:
    following = f"{view.next[0].at:{_TIME}}" if view.next else "paused"
    last = view.last[-1] if view.last else None
    shown = f"{last.tick.at:{_TIME}} {last.state}" if last else "-"
    late = f", late: {view.undecided[0].at:{_TIME}}" if view.undecided else ""
    return (view.schedule.name, f"{view.schedule.rule} ({view.schedule.zone})", following + late, shown, root)


def _json(root: str, view: "ScheduleView") -> dict[str, Any]:
    last = [{**vars(each), "tick": each.tick.key, "at": each.tick.at} for each in view.last]
    hidden = ("owner", "process", "schedule")
    return {
        "root": root,
        **view.schedule.fields(),
        "next": [{"tick": tick.key, "at": tick.at} for tick in view.next],
        "late": [{"tick": tick.key, "at": tick.at} for tick in view.undecided],
        "last": [{name: value for name, value in each.items() if name not in hidden} for each in last],
    }


def _print_json(value: Any) -> None:
    import orjson

    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
