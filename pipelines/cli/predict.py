"""The command that predicts: `penstock predict`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.options import BeamArgs, Label, Runner, Set, SettingsFile, Wait, settings_flags

if TYPE_CHECKING:
    from components.settings.tree import Settings
    from components.storage.location import Location

    _Places = tuple[Location | None, Location, str]  # root, serving folder, name of the pipeline if it is known
_LIVE = "live"


def predict(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="An exported model, a serving folder, or live: the live version of --root."
        ),
    ],
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Raw data: a file, a folder, a pattern or an address; labels optional."),
    ],
    out: Annotated[str, typer.Option(help="New folder for the predictions, on this machine, s3://… or gs://….")],
    beam_args: BeamArgs = None,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="parquet, jsonl or tfrecord.")] = "parquet",
    root: Annotated[str | None, typer.Option(help="With live: root of the pipeline. Default: runs/NAME.")] = None,
    name: Annotated[str | None, typer.Option(help="With live: name of the pipeline.")] = None,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="Task whose root and settings in the settings file are used.")
    ] = None,
    label: Label = "",
    settings_file: SettingsFile = None,
    flags: Set = None,
    wait: Wait = False,
    runner: Runner = None,
) -> None:
    """Predict raw data with a served model, and write class and probabilities, or value, of each record."""
    from components import progress
    from components.errors import exit_code_of
    from components.training import interrupt
    from pipelines import config, log
    from pipelines import predict as predict_alone
    from pipelines.console import Display

    log.prepare_environment()
    settings, home = _settings(task, root, name, settings_file, settings_flags(flags, label, runner))
    request = predict_alone.PredictRequest(
        _model(model, home),
        config.data_of(data),
        config.place("--out", out),
        settings.ingest.model_dump(exclude_unset=True),
        _format(form),
        beam_args or (),
        wait,
        settings.engine,
        config.local_folder("state", "runs/.predict"),
    )
    with log.diverted(predict_alone.log_file(request)) as user:
        display = Display(user)
        try:
            with interrupt.raised(), progress.warnings_to(display.warning), display.working("Predict"):
                made = predict_alone.predict(request, display.predicting)
        except KeyboardInterrupt as error:  # Typer would end with 130 for SIGTERM too
            display.say(str(error))
            raise typer.Exit(exit_code_of(error)) from None
        display.predicted(made, str(request.out))


def _settings(
    task: str | None, root: str | None, name: str | None, settings_file: str | None, flags: list[str]
) -> tuple["Settings", "_Places | None"]:
    """Returns the settings, and root and serving folder of the pipeline that the flags name, if they name one."""
    from components.errors import SettingsError
    from components.settings import tree
    from pipelines import config

    if task:
        chosen = config.make(task, data=".", root=root, name=name, settings_file=settings_file, flags=flags)
        return chosen.settings, (chosen.root, chosen.serving, chosen.name)
    if settings_file:
        raise SettingsError("--settings: a settings file has one table per task; name the task, such as --task image")
    settings = config.load_settings(map(tree.parse_flag, flags))
    home: Any = root or (f"runs/{name}" if name else None)
    place = config.place("--root", home) if home else None
    if settings.push.directory:
        return settings, (place, config.place("push.directory", settings.push.directory), name or "")
    return settings, (place, place / "serving", name or "") if place else None


def _model(text: str, home: "_Places | None") -> "Location":
    from components.errors import SettingsError
    from components.inference import find_model
    from pipelines import config

    if text != _LIVE:
        return config.place("MODEL", text)
    if home is None:
        raise SettingsError("live: of which pipeline? name it with --root runs/NAME, --name NAME or --task TASK")
    return find_model.live(*home)


def _format(text: str) -> Any:
    from components.errors import SettingsError
    from components.settings.names import nearest

    formats = ("parquet", "jsonl", "tfrecord")
    if text not in formats:
        raise SettingsError(f"--format {text}: {nearest(text, formats)}; expected {', '.join(formats)}")
    return text
