"""Two filesystems that Beam finds by itself, as it would a plugin's: `flat` and `tree`, over a folder of this machine.

    flat://set/a.csv ─► folder/set/a.csv     an object store: names with slashes, listed by prefix at any depth
    tree://set/a.csv ─► folder/set/a.csv     like HDFS: folders, listed one at a time, and themselves in the list

Both serve files by parts, as the filesystems of S3 and HDFS do, and note every part.
"""

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem
from apache_beam.io.filesystemio import Downloader, DownloaderStream

from components.storage.paths import place
from components.storage.remote_path import RemotePath

_BUFFER = 16 << 20  # as Beam's own streams have it


@dataclass
class Ground:
    """What the filesystems stand on, for one test."""

    folder: Path = Path("unset")
    timed: bool = True
    served: list[tuple[str, int, int]] = field(default_factory=list)  # name, offset, bytes
    listed: list[str] = field(default_factory=list)  # addresses whose listing or metadata were asked for

    def bytes_served(self) -> int:
        """Returns how many bytes were asked for."""
        return sum(size for _, _, size in self.served)


GROUND = Ground()


class Denied(Exception):
    """What a library raises: of its own kind, with the code of HTTP."""

    code = 403


class _Parts(Downloader):
    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def size(self) -> int:
        return self._path.stat().st_size

    def get_range(self, start: int, end: int) -> bytes:
        if self._path.name.startswith("denied"):
            raise Denied("403 no storage.objects.get for you\nand a second line")
        with self._path.open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
        GROUND.served.append((self._path.name, start, len(data)))
        return data


class Flat(FileSystem):
    """An object store."""

    @classmethod
    def scheme(cls) -> str:
        """Returns what its addresses begin with."""
        return "flat"

    def _real(self, address: str) -> Path:
        return GROUND.folder / address.partition("://")[2]

    def _metadata(self, path: Path, name: str) -> FileMetadata:
        stat = path.stat()
        address = f"{self.scheme()}://{name}"
        return FileMetadata(address, 0 if path.is_dir() else stat.st_size, stat.st_mtime if GROUND.timed else 0.0)

    def has_dirs(self) -> bool:
        """Names with slashes are just names."""
        return False

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        GROUND.listed.append(dir_or_prefix)
        prefix = dir_or_prefix.partition("://")[2]
        for parent, _, names in os.walk(GROUND.folder):
            for name in names:
                path = Path(parent, name)
                relative = path.relative_to(GROUND.folder).as_posix()
                if relative.startswith(prefix):
                    yield self._metadata(path, relative)

    def open(self, path: str, mime_type: str = "", compression_type: str = "auto") -> Any:
        """Opens a file to be read by parts."""
        del mime_type
        assert compression_type == "uncompressed", "what is packed is unpacked by the source"
        real = self._real(path)
        if not real.is_file():
            raise BeamIOError("Open failed", {path: FileNotFoundError(2, "No such file or directory", path)})
        return io.BufferedReader(DownloaderStream(_Parts(real)), _BUFFER)

    def exists(self, path: str) -> bool:
        """Whether there is an object of that name."""
        return self._real(path).is_file()

    def metadata(self, path: str) -> FileMetadata:
        """Returns size and time."""
        GROUND.listed.append(path)
        if not self.exists(path):
            raise BeamIOError("Metadata failed", {path: FileNotFoundError(2, "No such file or directory", path)})
        return self._metadata(self._real(path), path.partition("://")[2])

    def size(self, path: str) -> int:
        """Returns bytes."""
        return int(self.metadata(path).size_in_bytes)

    def last_updated(self, path: str) -> float:
        """Returns seconds."""
        return float(self.metadata(path).last_updated_in_seconds)

    def checksum(self, path: str) -> str:
        """Returns what only a file has."""
        if not self._real(path).is_file():
            raise BeamIOError("Checksum failed", {path: "not a file"})
        return str(self.size(path))

    def join(self, basepath: str, *paths: str) -> str:
        """Joins names."""
        return "/".join([basepath, *paths])

    def split(self, path: str) -> tuple[str, str]:
        """Parts the last name from what is before it."""
        head, _, tail = path.rpartition("/")
        return head, tail

    def create(self, *_: Any) -> Any:
        """Refuses: data are read only."""
        raise NotImplementedError

    copy = rename = delete = mkdirs = create


class Tree(Flat):
    """A filesystem with folders, listed one at a time."""

    @classmethod
    def scheme(cls) -> str:
        """Returns what its addresses begin with."""
        return "tree"

    def has_dirs(self) -> bool:
        """Folders are there, even empty ones."""
        return True

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return self._real(path).exists()

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        GROUND.listed.append(dir_or_prefix)
        folder = self._real(dir_or_prefix)
        for path in sorted(folder.iterdir()):
            yield self._metadata(path, path.relative_to(GROUND.folder).as_posix())


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """A fresh folder under both schemes."""
    GROUND.folder, GROUND.timed = tmp_path, True
    GROUND.served.clear()
    GROUND.listed.clear()
    (tmp_path / "set").mkdir()
    yield GROUND
    GROUND.folder = Path("unset")


@pytest.fixture(params=["flat", "tree"])
def scheme(request: pytest.FixtureRequest) -> str:
    """Both ways in which filesystems list."""
    return str(request.param)


@pytest.fixture
def address(ground: Ground, scheme: str) -> Callable[[Path], RemotePath]:
    """Returns the address of a local path."""

    def of(path: Path) -> RemotePath:
        found = place(f"{scheme}://{path.relative_to(ground.folder).as_posix()}")
        assert isinstance(found, RemotePath)
        return found

    return of
