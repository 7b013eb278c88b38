"""Commands on the models of a pipeline: `penstock models`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.options import Metadata, Name, Root, Set, SettingsFile, State, TakeOver, TaskName, Wait

if TYPE_CHECKING:
    from components.serving.live import Move
    from pipelines.config import RunConfig

models = typer.Typer(help="The served models of a pipeline: list them, promote one, roll back.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the history.")]
Actor = Annotated[str, typer.Option(help="Who; default: PENSTOCK_ACTOR, or user@host.")]
_COLUMNS = ("version", "state", "move", "time", "actor", "model", "files", "reason")
_LINEAGE = ("artifact", "uri", "digest", "data_digest", "spans", "run")


@models.command("list")
def list_models(
    task: TaskName,
    root: Root = None,
    state: State = None,
    metadata: Metadata = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
    as_json: Json = False,
) -> None:
    """List the versions that a pipeline served, newest first, and which one is live."""
    from pipelines.operate import models as operate

    config = _config(task, root, state, metadata, name, settings_file, flags)
    pointer = operate.pointer_of(config)
    rows = operate.rows(pointer)
    if as_json:
        previous = pointer.previous.version if pointer.previous else None
        _print_json({"pipeline": config.name, "live": pointer.live.version, "previous": previous, "versions": rows})
        return
    cells = [_COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    for line in cells:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


@models.command("show")
def show_model(
    task: TaskName,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="Number of a version.")],
    root: Root = None,
    state: State = None,
    metadata: Metadata = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
    as_json: Json = False,
) -> None:
    """Show one version: its state, who moved it there and why, and the lineage of its model."""
    from components.errors import SettingsError
    from components.records import spans
    from pipelines.operate import models as operate

    config = _config(task, root, state, metadata, name, settings_file, flags)
    rows = operate.rows(operate.pointer_of(config))
    row = next((each for each in rows if each["version"] == version), None)
    if row is None:
        known = ", ".join(str(each["version"]) for each in rows)
        raise SettingsError(f"version {version}: no such version; expected one of {known}")
    if as_json:
        _print_json(row)
        return
    shown = {name: row[name] for name in ("version", "state", "kind", "time", "actor", "reason", "folder", "files")}
    shown |= {"source": row["source"], "card": row["card"]}
    shown |= {name: row["model"][name] for name in _LINEAGE}
    shown["spans"] = tuple(map(spans.text, row["model"]["spans"]))
    for key, value in shown.items():
        text = ", ".join(value) if isinstance(value, tuple) else str(value)
        typer.echo(f"{key.replace('_', ' '):<12} {text or '-'}")


@models.command("promote")
def promote_model(
    task: TaskName,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Number of a version, or folder of a model that the Trainer wrote.")
    ],
    reason: Reason = "",
    actor: Actor = "",
    force: Annotated[bool, typer.Option("--force", help="Also if it was not blessed; needs --reason.")] = False,
    root: Root = None,
    state: State = None,
    metadata: Metadata = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
    wait: Wait = False,
    take_over: TakeOver = False,
) -> None:
    """Publish a version or a trained model as the next version, and make it live."""
    from pipelines.operate import models as operate
    from pipelines.watch import metrics

    config = _config(task, root, state, metadata, name, settings_file, flags)
    move = operate.promote(config, model, operate.Wish(reason, actor, force, wait, take_over))
    _say(move)
    metrics.update(config, move.version)


@models.command("rollback")
def rollback_model(
    task: TaskName,
    to: Annotated[
        int | None, typer.Option(metavar="VERSION", help="Version to return to. Default: the one before the live one.")
    ] = None,
    reason: Reason = "",
    actor: Actor = "",
    root: Root = None,
    state: State = None,
    metadata: Metadata = None,
    name: Name = None,
    settings_file: SettingsFile = None,
    flags: Set = None,
    wait: Wait = False,
    take_over: TakeOver = False,
) -> None:
    """Publish an earlier version again as the next one: servers load the highest number."""
    from pipelines.operate import models as operate
    from pipelines.watch import metrics

    config = _config(task, root, state, metadata, name, settings_file, flags)
    move = operate.rollback(config, to, operate.Wish(reason, actor, wait=wait, take_over=take_over))
    _say(move)
    metrics.update(config, move.version)


def _config(
    task: str,
    root: str | None,
    state: str | None,
    metadata: str | None,
    name: str | None,
    settings_file: str | None,
    flags: list[str] | None,
) -> "RunConfig":
    from pipelines import config

    places = {"root": root, "state": state, "metadata": metadata, "name": name, "settings_file": settings_file}
    return config.make(task, data=".", **places, flags=flags or ())  # type: ignore[arg-type]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    time, model = row["time"][:16].replace("T", " "), _model(row["model"]["uri"])
    return (
        str(row["version"]), row["state"], row["kind"], time, row["actor"] or "-", model, row["files"], row["reason"],
    )  # fmt: skip


def _say(move: "Move") -> None:
    origin = f"version {move.source.rpartition('/')[2]}, " if move.source else ""
    typer.echo(
        f"version {move.version} is live: {origin}model {_model(move.model.uri)}, published as {move.folder} "
        f"({move.kind} by {move.actor}{f': {move.reason}' if move.reason else ''})"
    )


def _model(uri: str) -> str:
    """Returns the name of a model's folder."""
    return uri.rpartition("/")[2]


def _print_json(value: Any) -> None:
    import orjson

    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
