"""What a root on an object store and a state folder on this machine know about each other.

    <state>/.penstock/root.json      the one root that this folder is the state of, and a random id of the folder
    <root>/.penstock/metadata.json   the one metadata store that numbers the artifacts of this root

Two metadata stores would give the same numbers to different artifacts, and so overwrite each other's objects.
"""

import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from components.errors import SettingsError
from components.storage import durable, paths
from components.storage.objects import ObjectPath
from pipelines.config import RunConfig
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.remote import lease
from pipelines.orchestration.remote.lease import Lease

_FILE = "root.json"


def check_state(config: RunConfig) -> dict[str, Any]:
    """Returns what the state folder says about its root; raises SettingsError if that is another root."""
    file = config.notes / _FILE
    try:
        known: dict[str, Any] = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        known = {}
    except ValueError:
        raise SettingsError(f"{file}: damaged; restore it, or choose another --state") from None
    if config.store is None:
        if known:
            raise SettingsError(
                f"{config.root}: the state folder of the root {known['root']}; name that with --root, or choose "
                "another folder"
            )
        return {}
    if known and known["root"] != str(config.store):
        raise SettingsError(
            f"{config.state}: the state folder of the root {known['root']}, not of {config.store}; choose another "
            "--state for this root"
        )
    if not known and (config.state / "metadata.db").exists():
        raise SettingsError(
            f"{config.state}: holds a pipeline root of its own; choose another --state for {config.store}"
        )
    return known


def prepare(config: RunConfig) -> None:
    """Passes Beam's --s3_… flags to the clients of all stores of a run, before the first request."""
    for place in (config.data, str(config.root), str(config.serving)):
        if place.startswith("s3://"):
            paths.prepare(place, config.beam_args)


@contextmanager
def held(config: RunConfig, *, wait: bool, take_over: bool) -> Iterator[Lease | None]:
    """Holds the lock of a root on an object store; nothing for a local one. Requires the lock of the state folder."""
    known = check_state(config)
    if config.store is None:
        yield None
        return
    if not known:
        known = {"root": str(config.store), "id": uuid.uuid4().hex}
        durable.write_bytes(config.notes / _FILE, orjson.dumps(known))
    _check_metadata(config, config.store, known["id"])
    with lease.hold(config.store, known["id"], wait=wait, take_over=take_over) as holding:
        yield holding


def upload_reports(config: RunConfig, *files: Path) -> None:
    """Copies what a person reads after a run to a root on an object store."""
    if config.store is None:
        return
    for file in files:
        if file.exists():
            (config.store / file.name).upload(file)


def _check_metadata(config: RunConfig, root: ObjectPath, state: str) -> None:
    """Raises SettingsError if another metadata store numbers the artifacts of this root."""
    where = str(config.server) if config.server else f"{config.state} on {socket.gethostname()}"
    identity = Store(config.server, config.name, read_only=False).identity() if config.server else state
    mine = {"identity": identity, "where": where}
    path = root / ".penstock" / "metadata.json"
    try:
        known = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        path.create(orjson.dumps(mine))
        known = orjson.loads(path.read_bytes())
    if known["identity"] != mine["identity"]:
        raise SettingsError(
            f"{root}: its metadata is {known['where']}, not {where}; run there, choose another --root, or share the "
            f"metadata with --metadata mysql://…. If that metadata is lost, delete {path}: every "
            "node then runs again"
        )
