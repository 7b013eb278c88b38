"""Commands that show what pipelines do and did: `penstock status`, `penstock runs`, `penstock logs`."""

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pipelines.watch.history import Run
    from pipelines.watch.pipelines import KnownPipeline
    from pipelines.watch.status import PipelineStatus

runs = typer.Typer(help="The runs of pipelines: list them, show or compare them, resume one.", no_args_is_help=True)

Folder = Annotated[
    str,
    typer.Option("--root", metavar="FOLDER", help="Pipeline root (or its --state folder), or a folder of several."),
]
PipelineName = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only the pipeline of this name.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of a run, its beginning, or `last`.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_REASON = 60  # characters of a result that are shown
_TIME = 16  # characters of a time that are shown: 2026-11-19T01:44


def status(root: Folder = "runs", name: PipelineName = None, as_json: Json = False) -> None:
    """Show all pipelines below a folder: running, late, live version, last results. Exit code 1: one fails; 9: late."""
    from datetime import datetime, timezone

    from pipelines.watch import status as states

    now = datetime.now(timezone.utc)
    found = [states.of(pipeline, now) for pipeline in _pipelines(root, name)]
    if as_json:
        _print_json([_status_json(each) for each in found])
    elif not found:
        typer.echo(f"no pipelines in {root}")
    else:
        header = ("pipeline", "state", "live", "last run (UTC)", "result", "next (UTC)", "last runs")
        _table([header, *(_status_row(each) for each in found)])
    raise typer.Exit(states.exit_code(found))


@runs.command("list")
def list_runs(
    root: Folder = "runs",
    name: PipelineName = None,
    newest: Annotated[int, typer.Option("-n", "--newest", min=1, help="How many runs of each pipeline.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    from pipelines.watch import history

    found = [run for pipeline in _pipelines(root, name) for run in history.runs(pipeline, newest)]
    found.sort(key=lambda run: run.started, reverse=True)
    if as_json:
        _print_json([_run_json(run) for run in found])
        return
    rows = [
        (run.id, run.pipeline, run.state, _moment(run.started), _duration(run.seconds), _ran(run), run.reason)
        for run in found
    ]
    _table([("run", "pipeline", "state", "started (UTC)", "took", "nodes", "reason"), *rows])


@runs.command("show")
def show_run(run: RunName, root: Folder = "runs", name: PipelineName = None, as_json: Json = False) -> None:
    """Show one run: its nodes, its result, and its files."""
    pipeline, found = _find(root, name, run)
    if as_json:
        _print_json(_run_json(found))
        return
    command = found.calls[-1].command if found.calls else ()
    rows: dict[str, Any] = {
        "run": found.id,
        "pipeline": f"{found.pipeline} in {pipeline.root}",
        "state": found.state + (f" (exit code {found.exit_code})" if found.exit_code is not None else ""),
        "reason": found.reason,
        "started": found.started,
        "ended": found.ended,
        "took": _duration(found.seconds),
        "data": found.data,
        "command": shlex.join(("penstock", *command)) if command else "",
        "calls": len(found.calls) if len(found.calls) > 1 else "",
        "records": ", ".join(f"{split} {count:,}" for split, count in found.records.items()),
        **{metric: f"{value:.4f}" for metric, value in found.metrics.items()},
        "version": found.version,
        "log": found.log or "",
        "report": found.report or "",
    }
    width = max(map(len, rows))
    for key, value in rows.items():
        if value != "":
            typer.echo(f"{key:<{width}}  {value}")
    if found.nodes:
        typer.echo()
        _table([
            ("node", "state", "took", "records", "reason"),
            *(
                (node.node, node.state, _duration(node.seconds), _count(node.records), node.reason)
                for node in found.nodes
            ),
        ])  # fmt: skip
    for node in found.nodes:
        for number, failure in enumerate(node.failures, 1):
            typer.echo(f"{node.node}: try {number} failed: {failure}")


@runs.command("compare")
def compare_runs(
    first: RunName,
    second: RunName,
    root: Folder = "runs",
    name: PipelineName = None,
    all_values: Annotated[bool, typer.Option("--all", help="Also values that are equal.")] = False,
    as_json: Json = False,
) -> None:
    """Compare two runs: settings, data, records, metrics, which nodes ran, and their durations."""
    from pipelines.watch.compare import compare

    one, two = _find(root, name, first)[1], _find(root, name, second)[1]
    shown = [each for each in compare(one, two) if all_values or not each.is_equal]
    if as_json:
        rows = [{"group": each.group, "name": each.name, "first": each.first, "second": each.second} for each in shown]
        _print_json({"first": one.id, "second": two.id, "differences": rows})
        return
    cells = [(each.group, each.name, _text(each.first), _text(each.second), _change(each.change)) for each in shown]
    _table([("", "", one.id, two.id, "change"), *cells])


@runs.command("resume")
def resume_run(context: typer.Context, run: RunName, root: Folder = "runs", name: PipelineName = None) -> None:
    """Start a run again, with the same flags and the same id: it goes on where it stopped."""
    import os

    from pipelines.watch import resume

    arguments, folder = resume.command(_find(root, name, run)[1])
    os.chdir(folder)
    typer.echo(shlex.join(["penstock", *arguments]))
    sys.argv[1:] = arguments
    context.find_root().command.main(args=arguments, prog_name="penstock", standalone_mode=True)


def logs(
    run: RunName = "last",
    root: Folder = "runs",
    name: PipelineName = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run has ended.")] = False,
    events: Annotated[bool, typer.Option("--events", help="The events of the run, one JSON line each.")] = False,
) -> None:
    """Print the log of a run: what its libraries printed, or its events."""
    from pipelines.journal import calls
    from pipelines.watch import logs as reading

    pipeline, found = _find(root, name, run)
    file = pipeline.logs / f"{found.id}{'.jsonl' if events else '.log'}"
    if follow:
        record = pipeline.calls / f"{found.id}.json"
        text: Iterable[str] = reading.follow(file, lambda: calls.is_held(record))
    elif file.exists():
        text = reading.read(file)
    else:
        typer.echo(f"run {found.id}: no log, because it loaded no library: {found.state}, {found.reason}", err=True)
        return
    for part in text:
        sys.stdout.write(part)
        sys.stdout.flush()


def _pipelines(root: str, name: str | None) -> "list[KnownPipeline]":
    from components.errors import SettingsError
    from components.settings.names import nearest
    from pipelines.watch import pipelines

    folder = _folder(root)
    found = pipelines.find(folder) if folder.exists() or root != "runs" else []
    chosen = [each for each in found if name in (None, each.name)]
    if name and not chosen:
        names = [each.name for each in found]
        raise SettingsError(
            f"--name {name}: no such pipeline in {folder}; "
            + (nearest(name, names) if names else "there is none: name another folder with --root")
        )
    return chosen


def _folder(root: str) -> "Path":
    from pipelines.config import local_folder

    return local_folder("--root", root)


def _find(root: str, name: str | None, run: str) -> "tuple[KnownPipeline, Run]":
    """Returns the run that a user names, of any pipeline below the folder."""
    from components.errors import SettingsError
    from pipelines.watch import history

    known = _pipelines(root, name)
    if len(known) == 1:
        return known[0], history.run(known[0], run)
    found = [(each, history.run(each, run)) for each in known if history.has(each, run)]
    if run == "last" and found:
        return max(found, key=lambda pair: pair[1].started)
    if run == "last" or not known:
        raise SettingsError(f"run {run}: no runs yet in {_folder(root)}; start one with penstock run TASK")
    if len(found) != 1:
        places = ", ".join(each.name for each, _ in found) or "none"
        raise SettingsError(
            f"run {run}: expected the id of one run of the {len(known)} pipelines in {_folder(root)}; it is known to: "
            f"{places}; choose one with --name, or look at `penstock runs list`"
        )
    return found[0]


def _status_row(each: "PipelineStatus") -> tuple[str, ...]:
    from pipelines.report.formatting import fit

    last, schedule = each.decided, each.schedule
    upcoming = "paused" if schedule and schedule.schedule.paused else "-"
    if schedule and schedule.next:
        upcoming = _moment(schedule.next[0].at.isoformat())
    return (
        each.pipeline.name,
        _now(each),
        f"version {each.live.version}" if each.live else "-",
        _moment(last.ended or last.started) if last else "-",
        fit(": ".join(filter(None, [last.state, last.reason])), _REASON) if last else "-",
        upcoming,
        "".join(_MARKS.get(run.state, "✗") for run in reversed(each.runs)),
    )


_MARKS = {"succeeded": "✓", "nothing due": "=", "not blessed": "·", "running": "▸", "skipped": "·", "late": "l"}


def _now(each: "PipelineStatus") -> str:
    from pipelines.watch.status import place_of

    if each.running is None:
        return each.health
    node = each.running.node
    if node is None:
        return f"running for {_duration(each.running.seconds)}"
    return " ".join(filter(None, [f"running {node.node} for {_duration(node.seconds)}", place_of(each.progress)]))


def _status_json(each: "PipelineStatus") -> dict[str, Any]:
    from dataclasses import asdict

    schedule = each.schedule
    return {
        "pipeline": each.pipeline.name,
        "task": each.pipeline.task,
        "root": str(each.pipeline.root),
        "state_folder": str(each.pipeline.state),
        "health": each.health,
        "live": asdict(each.live) if each.live else None,
        "running": _run_json(each.running) if each.running else None,
        "progress": each.progress,
        "last": _run_json(each.last) if each.last else None,
        "last_success": each.last_success or None,
        "results": [run.state for run in each.runs],
        "schedule": {
            "rule": schedule.schedule.rule,
            "zone": schedule.schedule.zone,
            "paused": schedule.schedule.paused,
            "next": [tick.at.isoformat() for tick in schedule.next],
            "late": [tick.at.isoformat() for tick in schedule.undecided],
        }
        if schedule
        else None,
    }  # fmt: skip


def _run_json(run: "Run") -> dict[str, Any]:
    from dataclasses import asdict

    shown = asdict(run)
    return {**shown, **{name: str(file) if file else None for name, file in (("log", run.log), ("report", run.report))}}


def _ran(run: "Run") -> str:
    done = [node.node for node in run.nodes if node.state != "cached"]
    return f"{done[0]}–{done[-1]}" if len(done) > 1 else "".join(done) or "-"


def _moment(time: str) -> str:
    return time[:_TIME].replace("T", " ")


def _duration(seconds: float) -> str:
    from pipelines.report.formatting import duration

    return duration(seconds)


def _count(records: int | None) -> str:
    return f"{records:,}" if records is not None else ""


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    return "-" if value in (None, "") else str(value)


def _change(value: float | None) -> str:
    return f"{value:+,.4f}".rstrip("0").rstrip(".") if value else ""


def _table(rows: "Sequence[Sequence[str]]") -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_json(value: Any) -> None:
    import orjson

    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
