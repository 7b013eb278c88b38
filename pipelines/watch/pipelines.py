"""Finds the pipelines below a folder: that of one root, or one that holds several roots, such as runs/."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from components.errors import SettingsError
from components.storage.location import Location, location
from pipelines.config import RunConfig, metadata_server
from pipelines.config.metadata_server import Server
from pipelines.journal import calls
from pipelines.journal.calls import Call


@dataclass(frozen=True)
class KnownPipeline:
    """A pipeline, and where it keeps what."""

    name: str
    task: str  # empty if it has no run with a run id yet
    state: Path  # its folder on this machine
    root: Location
    serving: Location
    metadata: Path | Server

    @property
    def notes(self) -> Path:
        """Folder of Penstock's own files."""
        return self.state / ".penstock"

    @property
    def calls(self) -> Path:
        """Folder of the calls of its runs."""
        return calls.folder_of(self.notes, self.name)

    @property
    def logs(self) -> Path:
        """Folder of the logs of its runs."""
        return self.state / "logs"

    @property
    def report(self) -> Path:
        """Report page of its newest run that ran a node."""
        return self.state / "report.html"


def find(folder: Path) -> list[KnownPipeline]:
    """Returns the pipelines whose root is this folder or one in it, by folder and name; links are not followed."""
    if not folder.is_dir():
        raise SettingsError(f"{folder}: no such folder; expected a pipeline root, or a folder of roots such as runs")
    inside = [each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()]
    states = [each for each in (folder, *sorted(inside)) if _is_state(each)]
    return [pipeline for state in states for pipeline in _in(state)]


def choose(folder: Path, name: str | None) -> KnownPipeline:
    """Returns the pipeline below a folder that has this name, or the only one."""
    known = find(folder)
    found = [each for each in known if name in (None, each.name, str(each.state), each.state.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{each.name} in {each.state}" for each in known) or "none"
    wanted = f"pipeline {name}" if name else "the pipeline"
    raise SettingsError(
        f"{folder}: {wanted} is not one of its pipelines, or not the only one; expected one of: {names}"
    )


def of(config: RunConfig) -> KnownPipeline:
    """Returns the pipeline of a configuration."""
    return KnownPipeline(config.name, config.task.name, config.state, config.root, config.serving, config.metadata)


def _is_state(folder: Path) -> bool:
    # Path.is_file raises in a folder that this user may not read, such as lost+found.
    return os.path.isfile(folder / "metadata.db") or os.path.isdir(folder / ".penstock" / "runs")  # noqa: PTH112, PTH113


def _in(state: Path) -> Iterator[KnownPipeline]:
    database = state / "metadata.db"
    written = state / ".penstock" / "runs"
    names = {each.name for each in written.iterdir() if each.is_dir()} if written.is_dir() else set()
    if database.is_file():
        names.update(_recorded(database))
    for name in sorted(names):
        last = next(calls.newest_first(calls.folder_of(state / ".penstock", name)), None)
        yield _pipeline(name, state, last[-1] if last else None)


def _recorded(database: Path) -> list[str]:
    from pipelines.orchestration.metadata.store import Store  # a third of a second, which a tick that is done needs not

    return Store(database, "").pipelines()


def _pipeline(name: str, state: Path, last: Call | None) -> KnownPipeline:
    server = metadata_server.parse(last.metadata) if last and last.metadata else None
    named = location(last.root) if last else _root(state)
    root = named if _is_state_of(state, named) else state
    serving = location(last.serving) if last else root / "serving"
    return KnownPipeline(
        name=name,
        task=last.task if last else "",
        state=state,
        root=root,
        serving=_moved(serving, named, root),
        metadata=server or state / "metadata.db",
    )


def _is_state_of(state: Path, root: Location) -> bool:
    """Whether a folder is the state of a root; a local one that was copied or moved still names the old place."""
    if not isinstance(root, Path):
        return True
    try:
        return root.samefile(state)
    except OSError:  # it is gone, or where this user may not look
        return False


def _moved(place: Location, before: Location, after: Location) -> Location:
    """Returns where a place is, if its folder was moved."""
    if isinstance(place, Path) and isinstance(before, Path) and place.is_relative_to(before):
        return after / str(place.relative_to(before))
    return place


def _root(state: Path) -> Location:
    """Returns the root that a folder is the state of."""
    try:
        return location(orjson.loads((state / ".penstock" / "root.json").read_bytes())["root"])
    except (OSError, ValueError, KeyError):
        return state
