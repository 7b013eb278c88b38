"""`penstock predict`: a served model on raw data, on any runner.

MODEL ─► found, with what it knows about raw data ─┐
DATA ──► files, columns ───────────────────────────┴─► work units on a runner ─► --out, whole or not at all
"""

import contextlib
import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components import progress
from components.errors import BadInput, SettingsError
from components.inference import data as inference_data
from components.inference import find_model
from components.inference.close import Predicted
from components.inference.data import Data
from components.inference.find_model import ModelFolder
from components.inference.units import WORK
from components.inference.write import Format
from components.pretrained.artifacts import READING
from components.records.manifest import MANIFEST, QUARANTINE
from components.serving.reading import SETTINGS
from components.settings.engine import Engine
from components.settings.ingest import Ingest
from components.settings.section import checked
from components.storage import durable, paths
from components.storage.location import Location
from components.storage.objects import ObjectPath
from pipelines.engine import jobs
from pipelines.orchestration.remote import lease
from pipelines.orchestration.root import disk, leftovers, lock
from pipelines.orchestration.runners import dataflow, engines
from pipelines.package import wheel

_RESULT = re.compile(rf"predictions-\d{{5,}}-of-\d{{5,}}\.(parquet|jsonl|tfrecord)|{re.escape(QUARANTINE)}")
_ATTEMPT = re.compile(rf"\.penstock/.*|{re.escape(WORK)}/.*")  # objects that an attempt leaves if it is killed
_BUSY = "wait for it with --wait, or choose another --out"


@dataclass(frozen=True)
class PredictRequest:
    """What to predict, with which model, and where to."""

    model: Location
    data: str
    out: Location
    given: Mapping[str, Any] = field(default_factory=dict)  # settings of ingest that the user has set
    form: Format = "parquet"
    beam_args: Sequence[str] = ()
    wait: bool = False  # for another prediction into the same folder
    engine: Engine = field(default_factory=Engine)
    state: Path = Path("runs/.predict")  # with --out on a store: local folder for lock and notes


Surveyed = Callable[[ModelFolder, Data], None]


def predict(request: PredictRequest, surveyed: Surveyed | None = None) -> Predicted:
    """Predicts the data into a new folder, and returns its manifest.

    Args:
        request: what, and where to.
        surveyed: called with the model and the data, before any data is predicted.
    """
    _check_dataflow(request)
    out = request.out
    local = _local(request)
    if isinstance(out, Path) and out.exists():
        raise SettingsError(f"--out {out}: exists already; choose another folder, or remove this one")
    if not isinstance(out, Path):
        _check_free(out)
    listed, notes = _quarantine_list(local), local.parent / ".penstock" / local.name
    with (
        disk.explained(lambda: disk.places((local.parent,), "choose another --out"), lambda: ""),
        lock.hold(notes, wait=request.wait, place=local, flag="--out"),
        leftovers.temporary_files(local),
    ):
        jobs.end_left(notes, progress.say)
        durable.sweep(notes)
        durable.sweep(local.parent, local.name, listed.name)
        listed.unlink(missing_ok=True)  # of an earlier attempt
        with _new_folder(out, notes, wait=request.wait) as place:
            made = _run(request, place, notes, listed, surveyed)
        listed.unlink(missing_ok=True)  # --out has its own
        return made


def log_file(request: PredictRequest) -> Path:
    """Returns the file for the output of libraries, whose folder it creates."""
    local = _local(request)
    local.parent.mkdir(parents=True, exist_ok=True)
    return local.with_name(f"{local.name}.log")


def _local(request: PredictRequest) -> Path:
    """Returns --out, or the local folder in its place if it is on a store."""
    return request.out if isinstance(request.out, Path) else request.state / _digest(str(request.out))


def settings_of(found: ModelFolder, given: Mapping[str, Any]) -> Ingest:
    """Returns the settings to read by: those of the model that shape its input, then the user's."""
    known = {name: value for name, value in found.reading.settings.items() if name in SETTINGS}
    try:
        checked(Ingest, known, "ingest")
    except SettingsError as error:
        raise SettingsError(f"model {found.path}: {READING.as_posix()}: {error}; export it again") from error
    return checked(Ingest, {**known, **given}, "ingest")


@dataclass(frozen=True)
class _NewFolder:
    """The folder of an attempt to predict."""

    path: Location  # becomes --out, or is it
    work: Location  # below it, of this attempt alone: one that has lost its lock may still write
    require: Callable[[], None] = lambda: None  # raises Locked if another attempt has taken the lock over


def _run(request: PredictRequest, place: _NewFolder, notes: Path, listed: Path, surveyed: Surveyed | None) -> Predicted:
    found = find_model.find(request.model)
    settings = settings_of(found, request.given)
    paths.prepare(request.data, request.beam_args)
    data = inference_data.find(request.data, found.reading, settings, request.given)
    if surveyed is not None:
        surveyed(found, data)
    before = inference_data.stats(data) if data.columns else []
    from components.inference import close, run
    from components.inference.units import PredictJob

    prepared = engines.prepare(
        request.engine,
        request.beam_args,
        packages=lambda: _packages(request.engine, notes / "packages"),
        owner=str(request.out),
        notes=notes,
    )

    def pipeline() -> Any:
        return prepared.pipeline("predict", "Predict")

    job = PredictJob(str(found.path), found.digest, found.reading, settings, data.columns, place.work, request.form)
    reports = run.run(data, job, pipeline)
    if data.columns and inference_data.stats(data) != before:
        raise BadInput(f"{data.data}: changed while it was being predicted; run again when nothing writes to it")
    return close.close(place.path, place.work, data, found, reports, settings, request.form, listed, place.require)


@contextlib.contextmanager
def _new_folder(out: Location, notes: Path, *, wait: bool) -> Iterator[_NewFolder]:
    """Yields the folder to fill; it becomes --out at the end, on a store with the manifest as its last object."""
    attempt = secrets.token_hex(8)
    if isinstance(out, Path):
        with durable.publish_folder(out) as folder:
            yield _NewFolder(folder, folder / WORK / attempt)
        return
    with lease.hold(out, _digest(str(notes)), wait=wait, advice=_BUSY) as held:
        _check_free(out)  # again: there may be a result by now
        _remove_leftovers(out)

        def require() -> None:
            held.beat()  # it finds out whether another process has the lock
            held.require()

        try:
            yield _NewFolder(out, out / WORK / attempt, require)
        except BaseException:
            with contextlib.suppress(OSError):
                _remove_attempt(out, attempt, held)
            raise


def _check_free(out: ObjectPath) -> None:
    """Rejects a folder on a store that holds a result, or objects that are not ours."""
    names = set(out.files_below())
    if MANIFEST in names:
        raise SettingsError(f"--out {out}: holds predictions already; choose another folder, or remove this one")
    attempts = set(filter(_ATTEMPT.fullmatch, names))
    other = sorted(name for name in names - attempts if not attempts or not _RESULT.fullmatch(name))
    if other:
        raise SettingsError(f"--out {out}: is not empty, it holds {other[0]}; choose another folder")


def _remove_leftovers(out: ObjectPath) -> None:
    """Deletes what a prediction that was killed left; without a manifest it is no result."""
    for name in filter(_RESULT.fullmatch, out.files_below(1)):
        (out / name).unlink(missing_ok=True)
    durable.remove(out / WORK)  # last: it shows that the others are ours


def _remove_attempt(out: ObjectPath, attempt: str, held: lease.Lease) -> None:
    """Deletes what this attempt wrote, unless it is a result by now, or another attempt writes there."""
    held.beat()  # it finds out whether another process has the lock
    if held.is_lost:
        durable.remove(out / WORK / attempt)
    elif not (out / MANIFEST).is_file():
        _remove_leftovers(out)


def _check_dataflow(request: PredictRequest) -> None:
    """Raises SettingsError if Dataflow cannot work with the settings, or if its workers cannot see the model."""
    if request.engine.runner != "dataflow" or dataflow.names_runner(request.beam_args):
        return
    dataflow.check(request.engine, str(request.out), request.data)
    if isinstance(request.model, Path):
        raise SettingsError(
            f"MODEL {request.model}: workers of Dataflow do not see this machine's disk; copy the model's folder to "
            "gs://bucket/folder, and name that"
        )


def _packages(engine: Engine, folder: Path) -> list[Path]:
    """Returns the wheel for workers of Dataflow; none if they have an image with the code."""
    if engine.image:
        return []
    durable.remove(folder)
    return [Path(engine.wheel) if engine.wheel else wheel.build(folder)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _quarantine_list(out: Path) -> Path:
    """Returns the list of quarantined records that is kept if too many of them leave no --out."""
    return out.with_name(f"{out.name}.quarantine.jsonl")
