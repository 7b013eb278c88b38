"""Two filesystems that Beam finds as it would find a plugin: `flat` and `tree`, both over a local folder.

    flat://set/a.csv ─► folder/set/a.csv     like an object store: listed by prefix at any depth
    tree://set/a.csv ─► folder/set/a.csv     like HDFS: folders are listed one at a time, and are in the list themselves

Both serve byte ranges, as the filesystems of S3 and HDFS do, and record every request.
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

from components.storage.paths import data_path
from components.storage.remote_path import RemotePath

_BUFFER = 16 << 20  # as Beam's own streams have it


@dataclass
class Ground:
    """The local folder of both filesystems, and the requests of one test."""

    folder: Path = Path("unset")
    timed: bool = True
    served: list[tuple[str, int, int]] = field(default_factory=list)  # name, offset, bytes
    listed: list[str] = field(default_factory=list)  # URIs whose listing or metadata were requested

    def bytes_served(self) -> int:
        """Returns the number of bytes served."""
        return sum(size for _, _, size in self.served)


GROUND = Ground()


class Denied(Exception):
    """An error of a filesystem's library, with an HTTP status."""

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
        """Returns the scheme of its URIs."""
        return "flat"

    def _real(self, uri: str) -> Path:
        return GROUND.folder / uri.partition("://")[2]

    def _metadata(self, path: Path, name: str) -> FileMetadata:
        stat = path.stat()
        uri = f"{self.scheme()}://{name}"
        return FileMetadata(uri, 0 if path.is_dir() else stat.st_size, stat.st_mtime if GROUND.timed else 0.0)

    def has_dirs(self) -> bool:
        """Returns False: slashes are part of the name."""
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
        """Opens a file that is read by byte ranges."""
        del mime_type
        assert compression_type == "uncompressed", "the source decompresses"
        real = self._real(path)
        if not real.is_file():
            raise BeamIOError("Open failed", {path: FileNotFoundError(2, "No such file or directory", path)})
        return io.BufferedReader(DownloaderStream(_Parts(real)), _BUFFER)

    def exists(self, path: str) -> bool:
        """Whether there is an object with this name."""
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
        """Returns the checksum of a file; folders have none."""
        if not self._real(path).is_file():
            raise BeamIOError("Checksum failed", {path: "not a file"})
        return str(self.size(path))

    def join(self, basepath: str, *paths: str) -> str:
        """Joins names."""
        return "/".join([basepath, *paths])

    def split(self, path: str) -> tuple[str, str]:
        """Splits off the last name."""
        head, _, tail = path.rpartition("/")
        return head, tail

    def create(self, *_: Any) -> Any:
        """Raises: data is read-only."""
        raise NotImplementedError

    copy = rename = delete = mkdirs = create


class Tree(Flat):
    """A filesystem with folders, listed one at a time."""

    @classmethod
    def scheme(cls) -> str:
        """Returns the scheme of its URIs."""
        return "tree"

    def has_dirs(self) -> bool:
        """Returns True."""
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
    """An empty folder under both schemes."""
    GROUND.folder, GROUND.timed = tmp_path, True
    GROUND.served.clear()
    GROUND.listed.clear()
    (tmp_path / "set").mkdir()
    yield GROUND
    GROUND.folder = Path("unset")


@pytest.fixture(params=["flat", "tree"])
def scheme(request: pytest.FixtureRequest) -> str:
    """Both kinds of filesystem."""
    return str(request.param)


@pytest.fixture
def remote(ground: Ground, scheme: str) -> Callable[[Path], RemotePath]:
    """Returns the remote path of a local one."""

    def of(path: Path) -> RemotePath:
        found = data_path(f"{scheme}://{path.relative_to(ground.folder).as_posix()}")
        assert isinstance(found, RemotePath)
        return found

    return of
