"""The seal of an artifact: the digests of all its files when its node finished.

    node finishes ─► seal(folder) ─► <root>/.penstock/seals/<digest of uri>.json ─► published in MLMD
    next run      ─► broken(folder, seal) ─► None, or the reason why the artifact cannot be reused

Seals are stored beside the artifacts, not inside them: TFX components read every file in their input folders.
"""

from dataclasses import dataclass
from pathlib import Path

import orjson

from components.storage import durable
from components.storage.hashing import HashCache, HashedFile, digest_of


@dataclass(frozen=True)
class Seal:
    """Relative path, size and digest of every file of an artifact."""

    files: tuple[HashedFile, ...]

    @property
    def digest(self) -> str:
        """Digest of the whole folder."""
        return digest_of(f"{file.path}\0{file.sha256}" for file in self.files)

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)


def seal(folder: Path, cache: HashCache) -> Seal:
    """Returns the seal of a folder."""
    return Seal(tuple(cache.hash_files(folder, _files_below(folder))))


def write(path: Path, sealed: Seal) -> None:
    """Writes a seal."""
    rows = [[file.path, file.size, file.sha256] for file in sealed.files]
    durable.write_bytes(path, orjson.dumps({"digest": sealed.digest, "files": rows}))


def read(path: Path) -> Seal | None:
    """Reads a seal; returns None if it is absent or damaged."""
    try:
        stored = orjson.loads(path.read_bytes())
        sealed = Seal(tuple(HashedFile(*row) for row in stored["files"]))
        return sealed if sealed.digest == stored["digest"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def broken(folder: Path, sealed: Seal, cache: HashCache) -> str | None:
    """Returns the first difference between a folder and its seal, or None if there is none."""
    if not folder.is_dir():
        return f"{folder.name}: folder missing"
    expected = {file.path: file for file in sealed.files}
    present = set(_files_below(folder))
    if deleted := sorted(expected.keys() - present):
        return _name_first("deleted", deleted)
    if added := sorted(present - expected.keys()):
        return _name_first("added", added)
    found = cache.hash_files(folder, expected)
    altered = [file.path for file in found if file.sha256 != expected[file.path].sha256]
    return _name_first("altered", altered) if altered else None


def _files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _name_first(what: str, names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} {what}"
