"""Publishes a model as the next version of a serving folder, and moves the live pointer of its pipeline to it.

    files ─► next version, whole, with its provenance ─► live.json

A process that is killed in between leaves a version that `catch_up` records.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from components.errors import PenstockError
from components.serving import disk_push, live, store_push
from components.serving.live import LivePointer, Move
from components.storage.location import Location


@dataclass(frozen=True)
class Home:
    """Where the models of a pipeline are served, and recorded."""

    pipeline: str
    root: Location
    serving: Location
    metadata: str


def publish(files: Location, home: Home, move: Move) -> Move:
    """Publishes the files of a model, records the move, and returns it with its folder; requires the root's lock.

    Its version is above all that were recorded, also if their folders and the serving folder's own count are deleted.
    """
    provenance = {
        "pipeline": home.pipeline,
        "metadata": home.metadata,
        "id": move.model.artifact,
        "uri": move.model.uri,
        **live.provenance(home.root, move),
    }
    above = live.highest(live.read_of(home.root, home.pipeline), home.serving)
    folder: Location
    if isinstance(home.serving, Path):
        folder = disk_push.push(files, home.serving, provenance, above)
    else:
        folder = store_push.push(files, home.serving, provenance, above)
    pointer = catch_up(home)
    if pointer is None or all(known.folder != str(folder) for known in pointer.moves):
        raise PenstockError(
            f"{folder}: it was published, but is not in {home.root / live.FILE}; expected it there: something else "
            "changes the serving folder or that file. Run again when nothing else does"
        )
    return replace(move, folder=str(folder))


def catch_up(home: Home, derived: Callable[[], tuple[Move, ...]] = tuple) -> LivePointer | None:
    """Records every version that was published and is not in live.json yet; requires the root's lock.

    Args:
        home: of the pipeline.
        derived: returns the moves of before there was a live.json; called if there is none.
    """
    pointer = live.read_of(home.root, home.pipeline)
    missing = missing_moves(pointer, home, derived)
    if not missing:
        return pointer
    return live.write(home.root, lambda present: live.follow(present, missing, home.pipeline))


def missing_moves(
    pointer: LivePointer | None, home: Home, derived: Callable[[], tuple[Move, ...]] = tuple
) -> tuple[Move, ...]:
    """Returns the moves that `catch_up` would record."""
    found = live.unrecorded(pointer, home.root, home.serving, home.pipeline)
    named = {move.folder for move in found}
    before = [move for move in derived() if move.folder not in named] if pointer is None else []
    in_one_folder = len({move.serving for move in (*before, *found)}) == 1
    # Numbers are exact, times those of several clocks; but numbers of different folders say nothing.
    return tuple(sorted((*before, *found), key=lambda move: move.version if in_one_folder else move.time))
