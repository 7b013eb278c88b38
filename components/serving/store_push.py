"""Pushes a model to a serving folder on an object store, where nothing can be renamed.

    create-if-absent of .versions/N.json  the claim: N is this push's, and of no other, ever
    N/… all files but saved_model.pb      a reader that polls takes no folder without it for a model
    claim: "finishing"                    by identity: fails if another push has given this one up
    N/saved_model.pb
    claim: "complete", with all files     by identity: the commit

A claim whose process has ended, or that is an hour old, is given up by the next push: it deletes the version, or, if
saved_model.pb was written, commits it. Its number is not used again.
"""

import os
import re
import socket
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil

from components.errors import PenstockError
from components.pretrained.artifacts import PROVENANCE
from components.storage import paths, transfers
from components.storage.location import Location
from components.storage.objects import ObjectPath
from components.storage.uri_path import RemoteStat

MODEL = "saved_model.pb"
CLAIMS = ".versions"
_CLAIM = re.compile(r"(?P<version>[0-9]+)\.json")
_OLD = 3600.0  # seconds after which a claim from another machine counts as given up
_PARALLEL = 8


def push(
    model: Location, serving: ObjectPath, provenance: Mapping[str, Any] | None = None, above: int = 0
) -> ObjectPath:
    """Writes `model` under the next version below `serving`, also above a given one; returns the version's folder."""
    version, claim = _claim(serving, max({above, *_sweep(serving)}) + 1)
    target = serving / str(version)
    files = _files_of(model)
    _put_all(model, target, files - {MODEL})
    if provenance:
        (target / PROVENANCE.as_posix()).write_bytes(orjson.dumps(dict(provenance)))
    try:
        claim = claim.advance("finishing")
        if MODEL in files:
            _put(model / MODEL, target / MODEL)
        claim.advance("complete", target.files_below())
    except PenstockError:
        found = _read(claim.path)
        if found.state == "complete" and found.content["id"] == claim.content["id"]:
            return target  # another push took this one for dead, and finished it
        if found.state == "given up":
            target.remove_tree()
        raise
    return target


def remove(serving: ObjectPath, version: int) -> None:
    """Deletes a version; it is given up first, so no reader takes what is left of it for a model."""
    claim = _claims(serving, version - 1).get(version)
    if claim is not None and claim.state == "complete":
        claim.advance("given up")
    (serving / str(version) / MODEL).unlink(missing_ok=True)
    (serving / str(version)).remove_tree()


def versions(serving: ObjectPath, above: int = 0) -> list[int]:
    """Returns the versions that are complete, lowest first; only those above a number."""
    return sorted(version for version, claim in _claims(serving, above).items() if claim.state == "complete")


def copy(model: Location, target: ObjectPath) -> None:
    """Copies the files of a model into a folder on a store, without its provenance."""
    _put_all(model, target, _files_of(model))


def _files_of(model: Location) -> set[str]:
    return set(paths.files_below(model)) - {PROVENANCE.as_posix()}


def _put_all(source: Location, target: ObjectPath, names: Iterable[str]) -> None:
    transfers.each(lambda name: _put(source / name, target / name), sorted(names), _PARALLEL)


def _put(source: Location, target: ObjectPath) -> None:
    if isinstance(source, Path):
        target.upload(source)
    else:
        source.copy_to(target)


@dataclass(frozen=True)
class _Claim:
    """Who pushes, or pushed, a version, and how far the push is."""

    path: ObjectPath
    identity: str  # of the object, when it was read or written
    content: dict[str, Any]

    @property
    def state(self) -> str:
        return str(self.content["state"])

    def advance(self, state: str, files: Mapping[str, RemoteStat] | None = None) -> "_Claim":
        """Writes the next state; raises PenstockError if another push has given this one up."""
        listed = (
            {} if files is None else {"files": {name: [s.st_size, s.identity] for name, s in sorted(files.items())}}
        )
        content = {**self.content, "state": state, **listed}
        identity = self.path.replace_if(orjson.dumps(content), self.identity)
        if not identity:
            raise PenstockError(
                f"{self.path}: another push gave this version up, because its process seemed to have ended; run again: "
                "the model is pushed under the next version"
            )
        return _Claim(self.path, identity, content)


def _read(path: ObjectPath) -> _Claim:
    identity = path.stat().identity  # first: if the object changes before it is read, `advance` fails
    return _Claim(path, identity, orjson.loads(path.read_bytes()))


def _claims(serving: ObjectPath, above: int = 0) -> dict[int, _Claim]:
    home = serving / CLAIMS
    found = {int(match["version"]): name for name in home.files_below(1) if (match := _CLAIM.fullmatch(name))}
    return {version: _read(home / name) for version, name in found.items() if version > above}


def _claim(serving: ObjectPath, version: int) -> tuple[int, _Claim]:
    """Returns the first free version from `version` on, and its claim."""
    born = psutil.Process().create_time() - psutil.boot_time()
    holder = {"id": uuid.uuid4().hex, "host": socket.gethostname(), "pid": os.getpid(), "born": born}
    content = {"state": "uploading", **holder}
    while True:
        path = serving / CLAIMS / f"{version}.json"
        if identity := path.create(orjson.dumps(content)):
            return version, _Claim(path, identity, content)
        version += 1


def _sweep(serving: ObjectPath) -> set[int]:
    """Finishes or deletes the versions of pushes that were killed; returns all versions that were ever used."""
    claims = _claims(serving)
    for version, claim in claims.items():
        if claim.state not in ("complete", "given up") and _has_ended(claim):
            _give_up(serving / str(version), claim)
    folders = {int(each.name) for each in serving.iterdir() if each.name.isdigit()}
    return {*claims, *folders}


def _give_up(target: ObjectPath, claim: _Claim) -> None:
    with suppress(PenstockError):  # it lives after all, or another push was faster
        if (target / MODEL).is_file():  # the last file: all others are there
            claim.advance("complete", target.files_below())
        else:
            claim.advance("given up")
            target.remove_tree()


def _has_ended(claim: _Claim) -> bool:
    if claim.content["host"] == socket.gethostname():
        return not _is_alive(claim.content)
    probe = claim.path.parent / "clock" / uuid.uuid4().hex  # both times by the store's clock
    try:
        probe.write_bytes(b"")
        return (probe.stat().st_mtime_ns - claim.path.stat().st_mtime_ns) / 1e9 > _OLD
    finally:
        probe.unlink(missing_ok=True)


def _is_alive(holder: Mapping[str, Any]) -> bool:
    """Whether the process that wrote a claim still runs, and is not another one with its number."""
    try:
        born = psutil.Process(holder["pid"]).create_time() - psutil.boot_time()
    except psutil.NoSuchProcess:
        return False
    return abs(born - holder["born"]) < 1
