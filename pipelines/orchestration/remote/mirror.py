"""The mirror: local copies of artifacts whose root is on an object store. A cache: bounded, safe to delete.

    s3://bucket/root/Ingest/examples/5/…  ◄──►  <state>/mirror/Ingest/examples/5/…

A node writes its output into the mirror before it is uploaded, so later nodes of the run find it there. A copy is used
only if every file has the digest of the seal; what is missing or differs is fetched. If the copies take more than half
of the disk space that would be free without them, the least recently used ones are deleted.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from components.errors import BadInput
from components.records import checksum, seal
from components.records.seal import Seal
from components.storage import durable, transfers
from components.storage.hashing import HashCache, HashedFile, sha256_of
from components.storage.location import Location
from components.storage.objects import ObjectPath
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import seals

PARALLEL = 8  # objects transferred at once
_SHARE = 0.5  # of the disk space that is free without the mirror
_DEPTH = 3  # folders of an artifact: node, output, execution


class Mirror:
    """Local copies of the artifacts below one root."""

    def __init__(self, config: RunConfig) -> None:
        """Takes the run, whose root is on an object store."""
        self._config, self._root = config, config.root
        self._in_use: set[Path] = set()

    def holds(self, uri: str) -> bool:
        """Whether a URI is below the root."""
        return uri.startswith(f"{self._root}/")

    def local(self, folder: ObjectPath) -> Path:
        """Returns where the copy of a folder is, or would be."""
        name = str(folder).removeprefix(f"{self._root}/")
        if not self.holds(str(folder)) or ".." in PurePosixPath(name).parts:
            raise BadInput(f"{folder}: expected an artifact below the root {self._root}")
        return self._config.mirror / name

    def remote_text(self, text: str) -> str:
        """Returns a text with the URI of the root in place of the path of the mirror."""
        home = re.escape(str(self._config.mirror))
        return re.sub(rf"(?<![\w./-]){home}(?![\w.-])", lambda _: str(self._root), text)

    def new(self, folder: ObjectPath) -> Path:
        """Returns an empty local folder for an artifact that a node is about to write."""
        target = self.local(folder)
        durable.remove(target)
        target.mkdir(parents=True)
        self._in_use.add(target)
        return target

    def fetch(
        self, folder: ObjectPath, sealed: Seal | None, cache: HashCache, wanted: Callable[[str], bool] = bool
    ) -> Path:
        """Returns a verified copy of an artifact; `wanted` selects files by their relative names."""
        if sealed is None:
            raise BadInput(f"{folder}: its seal is missing; run again, and the node that wrote it runs again")
        target = self.local(folder)
        self._in_use.add(target)
        target.mkdir(parents=True, exist_ok=True)
        os.utime(target)  # the least recently used copies are deleted first
        expected = [file for file in sealed.files if wanted(file.path)]
        missing = self._missing(target, sealed, expected, cache)
        self.make_room(sum(file.size for file in missing))
        try:
            transfers.each(lambda file: _fetch(folder, target, file), missing, PARALLEL)
        except BadInput:
            seals.remove(self._config, folder)  # the next plan then runs its node again
            raise
        return target

    def missing_bytes(self, folder: ObjectPath, sealed: Seal, cache: HashCache) -> int:
        """Returns how many bytes `fetch` would transfer."""
        return sum(file.size for file in self._missing(self.local(folder), sealed, list(sealed.files), cache))

    def removable_bytes(self, folder: ObjectPath) -> int:
        """Returns how many bytes `make_room` could delete, if `folder` is used by this run, too."""
        self._in_use.add(self.local(folder))
        return sum(_size(each) for each in self._copies() - self._in_use)

    def _copies(self) -> set[Path]:
        return {each for each in self._config.mirror.glob("/".join("*" * _DEPTH)) if each.is_dir()}

    def make_room(self, needed: int) -> None:
        """Deletes the least recently used copies until those of this run and `needed` bytes fit into the bound."""
        home = self._config.mirror
        if not home.is_dir():
            return
        sizes = {folder: _size(folder) for folder in self._copies()}
        total, free = sum(sizes.values()), shutil.disk_usage(home).free
        for folder in sorted(sizes.keys() - self._in_use, key=lambda folder: folder.stat().st_mtime):
            if total + needed <= _SHARE * (free + sum(sizes.values())):
                return
            durable.remove(folder)
            total -= sizes[folder]

    @staticmethod
    def _missing(target: Path, sealed: Seal, expected: list[HashedFile], cache: HashCache) -> list[HashedFile]:
        """Returns the files that the copy lacks, or that differ; deletes files that the artifact does not have."""
        names = {file.path for file in sealed.files}
        present = {path.relative_to(target).as_posix(): path for path in target.rglob("*") if path.is_file()}
        for name in present.keys() - names:
            present[name].unlink()
        sized = {file for file in expected if file.path in present and _is_size(present[file.path], file.size)}
        with_digest = {file.path: file.digest for file in sized if file.digest}  # without one, the size decides
        digests = {file.path: file.digest for file in seal.digests(target, with_digest, cache)}
        return [file for file in expected if file not in sized or file.digest != digests.get(file.path, "")]


def near(config: RunConfig, folder: Location) -> Location:
    """Returns the local copy of an artifact if there is one, not verified; else the artifact itself."""
    if isinstance(folder, Path) or config.store is None:
        return folder
    local = Mirror(config).local(folder)
    return local if local.is_dir() else folder


def upload(source: Path, target: ObjectPath, names: Iterable[str], before: Callable[[], None]) -> None:
    """Writes files of a folder to a store, some in parallel. `before` is called for each, and may raise."""

    def put(name: str) -> None:
        before()
        (target / name).upload(source / name)

    transfers.each(put, names, PARALLEL)


def _fetch(folder: ObjectPath, target: Path, file: HashedFile) -> None:
    with durable.publish_file(target / file.path, sync=False) as temporary:
        (folder / file.path).download(temporary)
        size = temporary.stat().st_size
        if size != file.size or (file.digest and _digest_like(file.digest, temporary) != file.digest):
            raise BadInput(
                f"{folder}/{file.path}: its content is not what the node wrote ({size:,} bytes, expected "
                f"{file.size:,}, and the digest of its seal); run again, and the node that wrote it runs again"
            )


def _digest_like(digest: str, path: Path) -> str:
    return checksum.of_file(path) if checksum.is_checksum(digest) else sha256_of(path)


def _is_size(path: Path, size: int) -> bool:
    return path.stat().st_size == size


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
