"""The live pointer of a pipeline: which version is live, which was before it, and every move between them.

    push, promote ─► published: <serving>/<version>, with the move in its provenance ─► <root>/live.json follows
    rollback      ─► the same, with the files of an earlier version: servers load the highest number

A published version is the truth, and live.json its record: a process that was killed between the two left a version
that the next command or run adds to the record. A version that is not complete is never in it.

    moves     push A   push B   push C   rollback to A   push D
    stack     A        A B      A B C    A               A D      the top is live; a rollback leads to the one below
"""

import getpass
import os
import socket
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import filelock
import orjson

from components.errors import BadInput, PenstockError, SettingsError
from components.pretrained.artifacts import PROVENANCE
from components.serving import versions
from components.storage import durable
from components.storage.location import Location, location

FILE = "live.json"
ACTOR = "PENSTOCK_ACTOR"
_FORMAT = 1
_ATTEMPTS = 5  # of a conditional write; only pipelines that share a root without its lock need a second one
_NOT_IN_A_LINE = ("Cc", "Cs", "Zl", "Zp")  # control characters, bytes that are no UTF-8, line separators
Kind = Literal["push", "promote", "rollback"]


@dataclass(frozen=True)
class LiveModel:
    """A model that was pushed, and what it was made from."""

    artifact: int  # id in the metadata
    uri: str
    digest: str = ""  # of its files; empty if they were gone or damaged when it was recorded
    data_digest: str = ""  # of the data that it was trained on
    spans: tuple[str, ...] = ()  # that it was trained on
    run: str = ""  # id of the run that trained it


@dataclass(frozen=True)
class Move:
    """One change of the live version."""

    kind: Kind
    folder: str  # of the version
    time: str  # UTC
    actor: str
    reason: str
    model: LiveModel
    source: str = ""  # folder of the version that was published again; empty if the Trainer's files were

    @property
    def version(self) -> int:
        """Number of the version in its serving folder."""
        return int(self.folder.rpartition("/")[2])

    @property
    def serving(self) -> str:
        """The serving folder."""
        return self.folder.rpartition("/")[0]


@dataclass(frozen=True)
class LivePointer:
    """Which version of a pipeline is live, and how it became that."""

    pipeline: str
    moves: tuple[Move, ...]  # oldest first; at least one

    @property
    def live(self) -> Move:
        """The move that made the live version."""
        return self.moves[-1]

    @property
    def previous(self) -> Move | None:
        """The version that a rollback leads to; None if there is none."""
        return next(iter(self.earlier), None)

    @property
    def earlier(self) -> tuple[Move, ...]:
        """The versions that a rollback can lead to, newest first: those that were not rolled back themselves."""
        return tuple(self.moves[index] for index in reversed(self._replayed[0][:-1]))

    @property
    def rolled_back(self) -> tuple[Move, ...]:
        """The versions that rollbacks undid, oldest first."""
        return tuple(self.moves[index] for index in sorted(self._replayed[1]))

    def has_withdrawn(self, artifact: int) -> bool:
        """Whether a person put another model in the place of this one: no run pushes it again, a promotion does."""
        newest = max((at for at, move in enumerate(self.moves) if move.model.artifact == artifact), default=None)
        if newest is None or newest + 1 == len(self.moves):
            return False
        return newest in self._replayed[1] or self.moves[newest + 1].kind == "promote"

    def baselines(self, candidate: int) -> list[LiveModel]:
        """Returns the models to compare a candidate with, best first: the live one, then those before it.

        A candidate that is live, or was withdrawn, has its verdict: its baseline is what was live before its push, so
        that neither the push nor a rollback makes its Evaluator due again.
        """
        before = self.moves
        if self.live.model.artifact == candidate or self.has_withdrawn(candidate):
            before = self.moves[: self._decided_at(candidate)]
        return [model for model in _models(before) if model.artifact != candidate]

    def bases(self, data_digest: str) -> list[LiveModel]:
        """Returns the models that a training on this data can start from, best first: those of other data.

        If the newest model of this data was withdrawn, they are what they were before its push, so that a rollback
        past its base does not make its Trainer due again, which would push another model of the same data.
        """
        before = self.moves
        own = [move.model.artifact for move in self.moves if data_digest and move.model.data_digest == data_digest]
        if own and self.has_withdrawn(own[-1]):
            before = self.moves[: self._decided_at(own[-1])]
        return [model for model in _models(before) if model.data_digest not in ("", data_digest)]

    def _decided_at(self, artifact: int) -> int:
        """Returns the place of the newest push of a model, or of its first move if a run never pushed it."""
        moves = [(at, move.kind) for at, move in enumerate(self.moves) if move.model.artifact == artifact]
        pushes = [at for at, kind in moves if kind == "push"]
        return pushes[-1] if pushes else moves[0][0]

    @cached_property
    def _replayed(self) -> tuple[list[int], set[int]]:
        return _replay(self.moves)


def _replay(moves: Sequence[Move]) -> tuple[list[int], set[int]]:
    """Returns the stack of versions, and those that were rolled back, as places in the history."""
    stack: list[int] = []
    rolled_back: set[int] = set()
    for index, move in enumerate(moves):
        if move.kind == "rollback":
            target = next((at for at, known in enumerate(stack) if moves[known].folder == move.source), len(stack))
            rolled_back.update(stack[target + 1 :])
            del stack[target:]
        elif stack and moves[stack[-1]].model.artifact == move.model.artifact:
            stack.pop()
        stack.append(index)
    return stack, rolled_back


def _models(moves: Sequence[Move]) -> list[LiveModel]:
    return [moves[index].model for index in reversed(_replay(moves)[0])]


def follow(pointer: LivePointer | None, moves: Sequence[Move], pipeline: str) -> LivePointer:
    """Returns the pointer after more moves, at least one; a version that it has already is not added again."""
    known = pointer.moves if pointer else ()
    folders = {move.folder for move in known}
    return LivePointer(pipeline, (*known, *(move for move in moves if move.folder not in folders)))


def read(root: Location) -> LivePointer | None:
    """Returns the live pointer of a pipeline; None if nothing was recorded yet. Raises BadInput if it is damaged."""
    file = root / FILE
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return _parsed(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{file}: damaged ({error}); expected what Penstock wrote: restore it, or delete it, and it is written "
            "again from the served versions and the metadata"
        ) from None


def read_of(root: Location, pipeline: str) -> LivePointer | None:
    """Returns the live pointer of a root; raises SettingsError if it is that of another pipeline."""
    pointer = read(root)
    if pointer is not None and pipeline not in ("", pointer.pipeline):
        raise SettingsError(
            f"{root / FILE}: the live model is one of pipeline {pointer.pipeline!r}, expected {pipeline!r}; a root has "
            f"one pipeline: choose another --root, or --name {pointer.pipeline}"
        )
    return pointer


def current(root: Location, serving: Location, pipeline: str) -> LivePointer | None:
    """Returns the live pointer with the versions that are not recorded yet; writes nothing.

    Args:
        root: of the pipeline.
        serving: folder that it pushes to.
        pipeline: its name; empty if only its root is known.
    """
    known = read_of(root, pipeline)
    missing = unrecorded(known, root, serving, pipeline)
    return follow(known, missing, pipeline) if missing else known


def folder_of(root: Location, serving: Location, pipeline: str) -> Location | None:
    """Returns the folder of the live version of a pipeline, or None.

    If nothing was recorded, it is the highest version that names the pipeline: others may push to the same folder.
    """
    if pointer := current(root, serving, pipeline):
        return location(pointer.live.folder)
    is_own = not pipeline and serving == root / "serving"
    for version in reversed(versions.complete(serving)):
        if is_own or (pipeline and _provenance(serving / str(version)).get("pipeline") == pipeline):
            return serving / str(version)
    return None


def write(root: Location, change: Callable[[LivePointer | None], LivePointer]) -> LivePointer:
    """Changes the live pointer, whole or not at all, and returns the new one.

    Args:
        root: of the pipeline; the caller holds its lock.
        change: returns the new pointer from the present one.
    """
    file = root / FILE
    if isinstance(file, Path):
        notes = file.parent / ".penstock"
        notes.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(notes / "live.lock"):
            pointer = change(read(root))
            durable.write_bytes(file, _content(pointer))
        return pointer
    for _ in range(_ATTEMPTS):
        identity = file.stat().identity if file.is_file() else ""
        pointer = change(read(root))
        content = _content(pointer)
        if file.replace_if(content, identity) if identity else file.create(content):
            return pointer
    raise PenstockError(f"{file}: another process changes it all the time; run again when no other run works on {root}")


def highest(pointer: LivePointer | None, serving: Location) -> int:
    """Returns the highest version that the pointer has in a serving folder, 0 if none: a push goes above it."""
    return max((move.version for move in (pointer.moves if pointer else ()) if move.serving == str(serving)), default=0)


def unrecorded(pointer: LivePointer | None, root: Location, serving: Location, pipeline: str) -> tuple[Move, ...]:
    """Returns the moves to versions of this pipeline that are complete, and that the pointer does not have yet.

    Only versions above those that it has: a version that another machine completes late was never the highest.
    """
    newer = versions.complete(serving, above=highest(pointer, serving))
    found = [_move_of(serving / str(version), root, pipeline) for version in newer]
    return tuple(move for move in found if move is not None)


def provenance(root: Location, move: Move) -> dict[str, Any]:
    """Returns what a version says about itself, so that the pointer can be written from it."""
    stored = asdict(move)
    del stored["folder"]  # a version is known by where it is
    return {"root": str(root), "move": stored}


def is_of(folder: Location, root: Location) -> bool:
    """Whether a published version may be one of this root: it names it, or none, as those of other programs."""
    return _provenance(folder).get("root", str(root)) == str(root)


def actor(named: str = "") -> str:
    """Returns who moves the pointer: a name that was given, PENSTOCK_ACTOR, or user@host."""
    if chosen := named or os.environ.get(ACTOR, ""):
        return one_line("--actor" if named else ACTOR, chosen)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def one_line(name: str, text: str) -> str:
    """Returns a text for the record; raises SettingsError if it cannot be printed as one line.

    Args:
        name: where it comes from, for the message.
        text: what a person wrote.
    """
    if any(unicodedata.category(each) in _NOT_IN_A_LINE for each in text):
        raise SettingsError(f"{name}: expected one line of UTF-8 without control characters (got {text!a})")
    return text


def now() -> str:
    """Returns the time of a move, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _provenance(folder: Location) -> dict[str, Any]:
    """Returns what a published version says about itself; empty if another program published it."""
    try:
        stored = orjson.loads((folder / PROVENANCE.as_posix()).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _move_of(folder: Location, root: Location, pipeline: str) -> Move | None:
    """Returns the move that a published version records; None if another pipeline or program published it."""
    stored = _provenance(folder)
    if stored.get("root") != str(root) or (pipeline and stored.get("pipeline", pipeline) != pipeline):
        return None
    try:
        return _move({**stored["move"], "folder": str(folder)})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _content(pointer: LivePointer) -> bytes:
    previous = pointer.previous
    stored = {
        "format": _FORMAT,
        "pipeline": pointer.pipeline,
        "live": pointer.live.version,
        "previous": previous.version if previous else None,
        "moves": [{"version": move.version, **asdict(move)} for move in pointer.moves],
    }
    return orjson.dumps(stored, option=orjson.OPT_INDENT_2)


def _parsed(content: bytes) -> LivePointer:
    stored = orjson.loads(content)
    if stored["format"] != _FORMAT:
        raise ValueError(f"format {stored['format']!r}")
    moves = tuple(_move({name: value for name, value in each.items() if name != "version"}) for each in stored["moves"])
    if not moves:
        raise ValueError("no moves")
    return LivePointer(str(stored["pipeline"]), moves)


def _move(stored: dict[str, Any]) -> Move:
    model = stored["model"]
    move = Move(**{**stored, "model": LiveModel(**{**model, "spans": tuple(model["spans"])})})
    if move.kind not in get_args(Kind) or not move.folder.rpartition("/")[2].isdecimal():
        raise ValueError(f"move {move.kind!r} to {move.folder!r}")
    return move
