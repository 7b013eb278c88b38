"""The seal of an artifact: the digests of all its files when its node finished.

    node finishes ─► seal(folder) ─► <root>/.penstock/seals/<digest of uri>.json ─► published in MLMD
    next run      ─► broken(folder, seal) ─► None, or the reason why the artifact cannot be reused

Seals are stored beside the artifacts, not inside them: TFX components read every file in their input folders.
On an object store, the etag that the store gave to each object is part of the seal: one listing then tells whether the
artifact is unchanged, and nothing is read.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from components.storage import durable
from components.storage.hashing import HashCache, HashedFile, digest_of
from components.storage.uri_path import RemoteStat


@dataclass(frozen=True)
class Seal:
    """Relative path, size and digest of every file of an artifact."""

    files: tuple[HashedFile, ...]  # with an empty digest where only the store has read the file
    etags: Mapping[str, str] = field(default_factory=dict)  # of the objects, by relative path; empty on this machine

    @property
    def digest(self) -> str:
        """Digest of the whole folder."""
        return digest_of(f"{file.path}\0{file.sha256 or self.etags.get(file.path, '')}" for file in self.files)

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)


def seal(folder: Path, cache: HashCache) -> Seal:
    """Returns the seal of a folder."""
    return Seal(tuple(cache.hash_files(folder, _files_below(folder))))


def write(path: Path, sealed: Seal) -> None:
    """Writes a seal."""
    durable.write_bytes(path, to_bytes(sealed))


def to_bytes(sealed: Seal) -> bytes:
    """Returns a seal as it is stored."""
    rows = [[file.path, file.size, file.sha256] for file in sealed.files]
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
    found = cache.hash_files(folder, expected)
    altered = [file.path for file in found if file.sha256 != expected[file.path].sha256]
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
