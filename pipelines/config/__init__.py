"""The configuration of a run: which pipeline, on which data, in which folder.

defaults of the task  ◄  penstock.toml  ◄  flags                     all paths absolute, all names checked

The root holds the artifacts and the served models; it may be on an object store. The state folder holds what must be
on this machine: metadata, lock, caches, seals, checkpoints, logs, report. With a local root they are the same folder.
"""

import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import SettingsError
from components.ingest.config import Needs
from components.settings import tree as settings_tree
from components.settings.names import check_name, check_path, nearest
from components.settings.tree import Settings
from components.storage import location
from components.storage import paths as places
from components.storage.objects import ObjectPath
from components.tasks import NAMES, Task, get
from pipelines.config import metadata_server
from pipelines.config.metadata_server import Server

SETTINGS_FILE = "penstock.toml"
HOME = Path(__file__).resolve().parents[2]
_PLACES = ("data", "root", "state", "metadata", "name", "schema")  # of a task, in the settings file


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines what a run does."""

    task: Task
    name: str
    data: str  # a file, a folder, a pattern or an address
    root: Path | ObjectPath  # of artifacts and served models
    settings: Settings
    state: Path  # of what must be on this machine; the same as a local root
    beam_args: tuple[str, ...] = ()
    schema: str = ""  # the user's own; empty: chosen by `pipelines.orchestration.schema`
    server: Server | None = None  # of the metadata; None: a SQLite file in the state folder

    @property
    def needs(self) -> Needs:
        """What the task requires of its data."""
        inputs = tuple(role for part in self.task.parts for role in part.roles)
        return Needs(self.task.sources, self.task.label, self.task.required_roles, inputs)

    @property
    def metadata(self) -> Path | Server:
        """The MLMD store: a SQLite file, or a database on a server."""
        return self.server or self.state / "metadata.db"

    @property
    def notes(self) -> Path:
        """Folder of Penstock's own files on this machine: seals, caches, lock."""
        return self.state / ".penstock"

    @property
    def store(self) -> ObjectPath | None:
        """The root if it is on an object store; None if it is on this machine."""
        return None if isinstance(self.root, Path) else self.root

    @property
    def mirror(self) -> Path:
        """Local copies of a remote root's artifacts; safe to delete while no run works."""
        return self.state / "mirror"

    @property
    def logs(self) -> Path:
        """Folder of the logs of runs."""
        return self.state / "logs"

    @property
    def schema_input(self) -> Path:
        """The file that the Schema node imports; the schema in force is that node's output."""
        return self.notes / "schema.pbtxt"

    @property
    def hash_cache(self) -> Path:
        """Cache of file digests."""
        return self.notes / "hashes.db"

    @property
    def image_checks(self) -> Path:
        """Cache of the results of image checks."""
        return self.notes / "checks.db"

    @property
    def spans(self) -> Path:
        """Folder of what Transform has counted in each span."""
        return self.notes / "spans"

    @property
    def checkpoints(self) -> Path:
        """Folder of the Trainer's checkpoints, one folder per cache key."""
        return self.state / "checkpoints"

    def checkpoints_of(self, key: str) -> Path:
        """Returns the folder of the checkpoints for a cache key of the Trainer."""
        return self.checkpoints / key[:16]

    @property
    def job(self) -> Path:
        """What other workers train with the Trainer, while it does."""
        return self.notes / "job.json"

    @property
    def serving(self) -> Path | ObjectPath:
        """Folder that blessed models are pushed to."""
        configured = self.settings.push.directory
        return place("push.directory", configured) if configured else self.root / "serving"

    @property
    def quarantine_list(self) -> Path:
        """List of the records that the newest run quarantined."""
        return self.state / "quarantine.jsonl"

    @property
    def report(self) -> Path:
        """Report page of the newest run."""
        return self.state / "report.html"

    def report_of(self, run: str) -> Path:
        """Returns the report page of a run, which is beside its log."""
        return self.logs / f"{run}.html"


def make(
    task_name: str,
    *,
    data: str | None = None,
    root: str | None = None,
    state: str | None = None,
    metadata: str | None = None,
    name: str | None = None,
    schema: str | None = None,
    settings_file: str | None = None,
    flags: Sequence[str] = (),
    beam_args: Sequence[str] = (),
) -> RunConfig:
    """Returns the configuration from the task's defaults, the settings file and the flags."""
    task = get(task_name)
    places, overlay = _read_settings_file(task, settings_file)
    chosen = check_name(name or places.get("name") or task.name)
    settings = load_settings([task.defaults, overlay, *map(settings_tree.parse_flag, flags)])
    home = place("root", root or places.get("root") or f"runs/{chosen}")
    return RunConfig(
        task=task,
        name=chosen,
        data=data_of(data or places.get("data") or _sample_data(task)),
        root=home,
        settings=settings,
        state=_state(home, state or places.get("state"), chosen),
        beam_args=tuple(beam_args),
        schema=str(local_folder("schema", own)) if (own := schema or places.get("schema")) else "",
        server=metadata_server.choose(metadata, places.get("metadata")),
    )


def load_settings(overlays: Iterable[Mapping[str, Any]]) -> Settings:
    """Returns the settings; prints one line per setting that was given by its old name."""
    with warnings.catch_warnings(record=True) as renamed:
        warnings.simplefilter("always", settings_tree.RenamedSetting)
        settings = settings_tree.load(overlays)
    for each in renamed:
        print(f"penstock: warning: {each.message}", file=sys.stderr)
    return settings


def _read_settings_file(task: Task, given: str | None) -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """Returns paths and settings of this task: `[image] data = …`, `[image.train] epochs = 3`."""
    named = given or os.environ.get("PENSTOCK_SETTINGS")
    path = Path(named or SETTINGS_FILE)
    if not named and not path.exists():
        return {}, {}
    content = settings_tree.read_file(path)
    for table in content:
        if table not in NAMES:
            raise SettingsError(f"settings file {path}: unknown task [{table}]: {nearest(table, NAMES)}")
    mine = content.get(task.name, {})
    if not isinstance(mine, dict):
        raise SettingsError(f"settings file {path}: {task.name} = {mine!r}: expected a table [{task.name}]")
    places = {key: str(mine[key]) for key in _PLACES if key in mine}
    return places, {key: value for key, value in mine.items() if key not in _PLACES}


def _sample_data(task: Task) -> str:
    folder = HOME / task.sample_data
    if not folder.exists():
        raise SettingsError(
            f"no --data given, and the sample data of task {task.name!r} does not exist: "
            f"name your data with --data, or generate the sample with `python -m data {task.name}`"
        )
    return str(folder)


def data_of(text: str) -> str:
    """Returns what a user calls data: an address as it is, else an absolute path or pattern."""
    if places.is_uri(text):
        return str(places.data_path(text))
    return str(local_folder("data", text))


def place(what: str, text: str) -> Path | ObjectPath:
    """Returns a folder on this machine, or one on an object store."""
    return location.object_folder(what, text) if location.is_object_uri(text) else local_folder(what, text)


def _state(root: Path | ObjectPath, given: str | None, name: str) -> Path:
    """Returns the folder for what must be on this machine."""
    if isinstance(root, Path):
        if given and local_folder("state", given) != root:
            raise SettingsError(
                f"--state {given}: the root {root} is on this machine, and holds its own state; leave --state out"
            )
        return root
    return local_folder("state", given or f"runs/{name}")


def local_folder(what: str, text: str) -> Path:
    """Returns an absolute path; rejects addresses and NUL characters."""
    try:
        return Path(check_path(text)).expanduser().absolute()
    except ValueError as reason:
        raise SettingsError(f"{what} {text!r}: {reason}") from None
    except RuntimeError:
        raise SettingsError(f"{what} {text!r}: this user has no home folder here") from None
