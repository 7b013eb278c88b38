"""The seal of an artifact: the digests of all its files when its node finished.

    node finishes ─► seal(folder) ─► <root>/.penstock/seals/<digest of uri>.json ─► published in MLMD
    next run      ─► broken(folder, seal) ─► None, or the reason why the artifact cannot be reused

The digest of a shard is the checksum that its writer has computed and the manifest holds: a shard is not read again to
seal it. Other files are hashed. Both are kept by stat, so that an unchanged file is not read to compare it either.

Seals are stored beside the artifacts, not inside them: TFX components read every file in their input folders.
On an object store, the etag that the store gave to each object is part of the seal: one listing then shows whether the
artifact is unchanged, and nothing is read.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from components.records import checksum, manifest
from components.storage import durable
from components.storage.hashing import HashCache, HashedFile, digest_of
from components.storage.uri_path import RemoteStat


@dataclass(frozen=True)
class Seal:
    """Relative path, size and digest of every file of an artifact."""

    files: tuple[HashedFile, ...]  # the digest of a shard is its checksum; empty where only the store has read the file
    etags: Mapping[str, str] = field(default_factory=dict)  # of the objects, by relative path; empty on this machine

    @property
    def digest(self) -> str:
        """Digest of the whole folder."""
        return digest_of(f"{file.path}\0{file.digest or self.etags.get(file.path, '')}" for file in self.files)

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)


def seal(folder: Path, cache: HashCache) -> Seal:
    """Returns the seal of a folder."""
    names = _files_below(folder)
    present = set(names)
    written = {name: digest for name, digest in checksums_in(folder).items() if name in present}
    cache.remember_checksums(folder, written)
    return Seal(tuple(digests(folder, {name: written.get(name, "") for name in names}, cache)))


def checksums_in(folder: Path) -> dict[str, str]:
    """Returns the checksums that the writers of the shards of an artifact have computed, by its manifest."""
    try:
        shards = manifest.read(folder).shards
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # most artifacts have none
        return {}
    return {shard.name: shard.checksum for shard in shards}


def digests(folder: Path, expected: Mapping[str, str], cache: HashCache) -> list[HashedFile]:
    """Returns size and digest of files in the order of their names, each of the kind that is expected of it."""
    shards = [name for name, digest in expected.items() if checksum.is_checksum(digest)]
    others = [name for name, digest in expected.items() if not checksum.is_checksum(digest)]
    found = [*cache.checksum_files(folder, shards, checksum.of_file), *cache.hash_files(folder, others)]
    return sorted(found, key=lambda file: file.path)


def write(path: Path, sealed: Seal) -> None:
    """Writes a seal."""
    durable.write_bytes(path, to_bytes(sealed))


def to_bytes(sealed: Seal) -> bytes:
    """Returns a seal as it is stored."""
    rows = [[file.path, file.size, file.digest] for file in sealed.files]
    etags = {"etags": dict(sealed.etags)} if sealed.etags else {}
    return orjson.dumps({"digest": sealed.digest, "files": rows, **etags})


def read(path: Path) -> Seal | None:
    """Reads a seal; returns None if it is absent or damaged."""
    try:
        return from_bytes(path.read_bytes())
    except OSError:
        return None


def from_bytes(content: bytes) -> Seal | None:
    """Returns the seal that `to_bytes` stored; None if it is damaged."""
    try:
        stored = orjson.loads(content)
        sealed = Seal(tuple(HashedFile(*row) for row in stored["files"]), dict(stored.get("etags", {})))
        return sealed if sealed.digest == stored["digest"] else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def broken(folder: Path, sealed: Seal, cache: HashCache) -> str | None:
    """Returns the first difference between a folder and its seal, or None if there is none."""
    if not folder.is_dir():
        return f"{folder.name}: folder missing"
    expected = {file.path: file for file in sealed.files}
    if reason := _other_names(expected.keys(), set(_files_below(folder))):
        return reason
    found = digests(folder, {path: file.digest for path, file in expected.items()}, cache)
    altered = [file.path for file in found if file != expected[file.path]]
    return _name_first("altered", altered) if altered else None


def broken_listing(listed: Mapping[str, RemoteStat], sealed: Seal) -> str | None:
    """Returns the first difference between the listing of a folder on an object store and its seal, or None."""
    if reason := _other_names({file.path for file in sealed.files}, listed.keys()):
        return reason
    altered = [
        file.path
        for file in sealed.files
        if (listed[file.path].st_size, listed[file.path].identity) != (file.size, sealed.etags.get(file.path))
    ]
    return _name_first("altered", altered) if altered else None


def _other_names(expected: Set[str], present: Set[str]) -> str | None:
    if deleted := sorted(expected - present):
        return _name_first("deleted", deleted)
    added = sorted(present - expected)
    return _name_first("added", added) if added else None


def _files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _name_first(what: str, names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} {what}"
