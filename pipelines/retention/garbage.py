"""Lists what a pipeline no longer needs.

| what                 | recognised by                                                                         |
|----------------------|---------------------------------------------------------------------------------------|
| superseded artifact  | live in the metadata, and not needed (`needed.py`)                                    |
| leftover of a run    | <node>/<output>/<number> of no live artifact: failed, cancelled, killed, or collected |
| working files        | <node>/.system of TFX, `.aside-…` of killed writers                                    |
| served version       | in the serving folder, recorded in live.json, old, and of no model that is kept       |
| checkpoints          | training finished, or there are three newer ones                                      |
| counts of a span     | of a span that no artifact has that is kept                                           |
| log                  | older than the newest ones                                                            |
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from components.errors import BadInput
from components.records import manifest
from components.serving import live
from components.serving.live import LiveModel, LivePointer
from components.storage import durable
from components.storage.location import Location, location
from pipelines.config import RunConfig
from pipelines.orchestration import graph, schema
from pipelines.orchestration.metadata import history, live_model
from pipelines.orchestration.metadata.history import FINISHED, History
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.remote import mirror
from pipelines.orchestration.root import leftovers, up_to_date
from pipelines.retention.needed import needed

SUPERSEDED, LEFTOVER, WORKING = "superseded artifact", "leftover of a run", "working files"
VERSION, CHECKPOINTS, SPAN, LOG = "served version", "checkpoints", "counts of a span", "log"
_LOGS = ("*.log", "*.jsonl", "*.html", "schedule/*.txt")  # of runs, and of processes of a schedule
_EXAMPLES = ("Ingest", "Extract")  # nodes whose outputs name their spans


@dataclass(frozen=True)
class Garbage:
    """One file or folder to delete."""

    kind: str
    place: Location
    artifact: int | None = None  # to be marked as deleted before


def find(config: RunConfig, store: Store) -> list[Garbage]:
    """Returns all that is not needed, in the order in which it can be deleted; requires the root's lock."""
    return list(_Finder(config, store).everything())


class _Finder:
    def __init__(self, config: RunConfig, store: Store) -> None:
        self._config, self._store = config, store
        self._history = history.read(store)
        self._pointer = live_model.pointer_of(config, store)
        _require_metadata(config, self._history, self._pointer)
        kept = config.settings.gc
        self._needed = needed(self._history, self._pointer, kept.keep_runs, kept.keep_versions, up_to_date.read(config))

    def everything(self) -> Iterator[Garbage]:
        yield from self._versions()  # first: a version is checked by what is known about its model
        yield from self._artifacts()
        yield from self._asides()
        checkpoints = leftovers.old_checkpoints(self._config, self._store)
        yield from (Garbage(CHECKPOINTS, folder) for folder in checkpoints)
        yield from self._spans()
        for pattern in _LOGS:
            logs = sorted(self._config.logs.glob(pattern), key=lambda log: (log.stat().st_mtime, log.name))
            yield from (Garbage(LOG, log) for log in logs[: -self._config.settings.gc.keep_logs])

    def _artifacts(self) -> Iterator[Garbage]:
        for node in sorted({*self._store.nodes(), *(each.id for each in graph.nodes(self._config.settings))}):
            home = self._config.root / node
            for output in _folders(home):
                if output.name == ".system":
                    yield Garbage(WORKING, output)
                    continue
                for folder in _folders(output):
                    if folder.name.isdecimal() and (found := self._judged(node, output.name, folder)):
                        yield found

    def _judged(self, node: str, key: str, folder: Location) -> Garbage | None:
        """Returns what to do with the folder of an output; its number is that of its execution."""
        artifact = self._written.get((node, key, int(folder.name)))
        if artifact is not None:
            return None if artifact in self._needed else Garbage(SUPERSEDED, folder, artifact)
        return None if self._store.is_live(folder) else Garbage(LEFTOVER, folder)  # live: of another pipeline

    @cached_property
    def _written(self) -> dict[tuple[str, str, int], int]:
        """The live artifacts of finished executions."""
        return {
            (execution.node, key, execution.id): artifact
            for execution in self._history.executions
            if execution.state in FINISHED
            for key, artifact in execution.outputs
            if artifact in self._history.live
        }

    def _versions(self) -> Iterator[Garbage]:
        if self._pointer is None:
            return
        # Of a root that was copied, live.json names the versions of the other root, too, which may push to one folder.
        moves = [move for move in reversed(self._pointer.moves) if move.serving == str(self._config.serving)]
        newest = list(dict.fromkeys(move.folder for move in moves))
        kept = {move.folder for move in (self._pointer.live, self._pointer.previous) if move}
        kept.update(newest[: self._config.settings.gc.keep_versions], self._pushed())
        for folder in reversed(newest):
            if folder not in kept and location(folder).is_dir() and live.is_of(location(folder), self._config.root):
                yield Garbage(VERSION, location(folder))

    def _pushed(self) -> set[str]:
        """Returns the versions of the pushes that are kept: the plan compares them with their seals."""
        found = self._store.artifacts(self._needed, "pushed")
        return {str(each.properties["pushed_destination"]) for each in found if "pushed_destination" in each.properties}

    def _asides(self) -> Iterator[Garbage]:
        known = (self._config.report, self._config.quarantine_list, schema.own(self._config))
        named = durable.leftovers(self._config.state, live.FILE, *(file.name for file in known))
        unnamed = (durable.leftovers(each) for each in (self._config.notes, self._config.notes / "seals"))
        yield from (Garbage(WORKING, path) for found in (named, *unnamed) for path in found)

    def _spans(self) -> Iterator[Garbage]:
        files = sorted(self._config.spans.glob("*")) if self._config.spans.is_dir() else []
        present = self._present_spans() if files else set()
        if present is not None:
            yield from (Garbage(SPAN, file) for file in files if file.stem not in present)

    def _present_spans(self) -> set[str] | None:
        """Returns the spans of the examples that are kept; None if a manifest cannot be read."""
        found: set[str] = set()
        for (node, _, _), artifact in self._written.items():
            if node in _EXAMPLES and artifact in self._needed:
                folder = location(self._history.live[artifact])
                try:
                    found.update(manifest.read(mirror.near(self._config, folder)).spans)
                except (OSError, ValueError, BadInput):
                    return None
        return found


def _require_metadata(config: RunConfig, known: History, pointer: LivePointer | None) -> None:
    """Raises BadInput if this is not the metadata of the root: every artifact would be taken for a leftover."""
    unknown = pointer is not None and not _knows(known, pointer.live.model)
    if unknown or not known.executions:
        reason = "does not know the live model" if unknown else f"has no run of pipeline {config.name}"
        raise BadInput(
            f"metadata {config.metadata}: {reason}; expected the metadata that numbers the artifacts of {config.root}: "
            "restore it, or name it with --metadata and the pipeline with --name. Nothing was deleted"
        )


def _knows(known: History, model: LiveModel) -> bool:
    """Whether the metadata has a model: in another database, its number is that of something else."""
    has_number = any(artifact == model.artifact for execution in known.executions for _, artifact in execution.outputs)
    return has_number and known.live.get(model.artifact, model.uri) == model.uri


def _folders(home: Location) -> Iterable[Location]:
    """Returns the folders in a folder, but links: they may lead to another disk's files."""
    if isinstance(home, Path):
        entries = home.iterdir() if home.is_dir() and not home.is_symlink() else ()
        return sorted(each for each in entries if each.is_dir() and not each.is_symlink())
    return sorted(home.iterdir())
