"""Where the seals of artifacts are kept, and whether an artifact still is what its node wrote.

root on this machine     <root>/.penstock/seals/<digest of uri>.json        files are hashed, or known by their stat
root on an object store  the same name on the store, written after the artifact: it commits the artifact
                         and a copy in the state folder                      one listing: size and etag
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from components.records import seal
from components.records.seal import Seal
from components.storage.hashing import HashCache, HashedFile, digest_of
from components.storage.location import Location
from components.storage.objects import ObjectPath
from pipelines.config import RunConfig

NOTHING: Mapping[str, str] = MappingProxyType({})


def path(config: RunConfig, folder: Location) -> Path:
    """Returns the file on this machine with the seal of an artifact folder."""
    return config.notes / "seals" / _name(folder)


def commit_object(config: RunConfig, folder: ObjectPath) -> ObjectPath | None:
    """Returns the object with the seal of a folder on a store; None if only this machine keeps it."""
    return config.store / ".penstock" / "seals" / _name(folder) if config.store is not None else None


def read(config: RunConfig, folder: Location) -> Seal | None:
    """Returns the seal of an artifact folder: of this machine, or of another one that wrote it to the store."""
    found = seal.read(path(config, folder))
    if found is not None or isinstance(folder, Path):
        return found
    committed = commit_object(config, folder)
    try:
        content = committed.read_bytes() if committed is not None else b""
    except FileNotFoundError:
        return None
    return seal.from_bytes(content)


def write(config: RunConfig, folder: Location, sealed: Seal) -> None:
    """Keeps the seal of a folder; the seal of an artifact on a store is written there first, and commits it."""
    if not isinstance(folder, Path) and (committed := commit_object(config, folder)) is not None:
        committed.write_bytes(seal.to_bytes(sealed))
    seal.write(path(config, folder), sealed)


def remove(config: RunConfig, folder: Location) -> None:
    """Deletes the seal of a folder; that on the store first, so that nothing refers to what is deleted next."""
    if not isinstance(folder, Path) and (committed := commit_object(config, folder)) is not None:
        committed.unlink(missing_ok=True)
    path(config, folder).unlink(missing_ok=True)


def of_listing(folder: ObjectPath, known: Seal | None = None, checksums: Mapping[str, str] = NOTHING) -> Seal:
    """Returns the seal of a folder on a store by its listing.

    Args:
        folder: the folder.
        known: digests of files that were read on this machine.
        checksums: of shards that workers have written.
    """
    listed = folder.files_below()
    digests = {**checksums, **({file.path: file.digest for file in known.files} if known else {})}
    files = [HashedFile(name, stat.st_size, digests.get(name, "")) for name, stat in sorted(listed.items())]
    return Seal(tuple(files), {name: stat.identity for name, stat in listed.items()})


def broken(config: RunConfig, folder: Location, cache: HashCache) -> str | None:
    """Returns why an artifact cannot be reused, or None if it can."""
    sealed = read(config, folder)
    if sealed is None:
        return "its seal is missing"
    if isinstance(folder, Path):
        return seal.broken(folder, sealed, cache)
    return seal.broken_listing(folder.files_below(), sealed)


def _name(folder: Location) -> str:
    return f"{digest_of([str(folder)])[:32]}.json"
