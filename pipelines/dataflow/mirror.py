"""gs:// folders as copies on local disk, for code that looks at its inputs while it builds a pipeline.

    gs://bucket/root/Schema/schema/2/schema.pbtxt ─┬─ Beam's FileSystems ─┐
                                                   ├─ TFX's fileio ───────┼─► <mirror>/bucket/root/Schema/schema/2/…
                                                   └─ our ObjectPath ─────┘

Only for a process that builds jobs and ends: registries of file systems are changed in place. TensorFlow's own gs://
has no registry in Python; no node uses it while its pipeline is built.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apache_beam.io.filesystem import FileMetadata, FileSystem
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem
from tfx.dsl.io import filesystem_registry
from tfx.dsl.io.plugins import local as tfx_local

from components.storage import object_stores

_SCHEME = "gs://"


def mount(folder: Path) -> None:
    """Lets Beam, TFX and ObjectPath find gs://bucket/key at <folder>/bucket/key, until the process ends."""
    beam_system, other = _BeamSystem(folder), FileSystems.get_filesystem
    tfx_system, registry = _tfx_system(folder), filesystem_registry.FilesystemRegistry
    by_path = registry.get_filesystem_for_path

    def of_beam(path: str) -> Any:
        return beam_system if path.startswith(_SCHEME) else other(path)

    def of_tfx(self: Any, path: Any) -> Any:
        text = path.decode() if isinstance(path, bytes) else path
        return tfx_system if text.startswith(_SCHEME) else by_path(self, path)

    def of_bucket(scheme: str, bucket: str) -> Any:
        from obstore.store import LocalStore

        del scheme
        return LocalStore(folder / bucket, mkdir=True)

    FileSystems.get_filesystem = staticmethod(of_beam)
    registry.get_filesystem_for_path = of_tfx
    object_stores.client = of_bucket


def copy(source: Path, uri: str, folder: Path) -> None:
    """Copies a file or folder into the mirror, to be found at a URI."""
    target = folder / uri.removeprefix(_SCHEME)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)


def _local(path: str, folder: Path) -> str:
    return f"{folder}/{path.removeprefix(_SCHEME)}" if path.startswith(_SCHEME) else path


def _remote(path: str, folder: Path) -> str:
    return path.replace(f"{folder}/", _SCHEME, 1)


class _BeamSystem:
    """What building a pipeline asks of a Beam FileSystem: listing and reading, with the semantics of a store.

    No subclass of FileSystem: Beam lists all of those in the job, and every worker would import this one.
    """

    match = FileSystem.match
    match_files = FileSystem.match_files
    translate_pattern = staticmethod(FileSystem.translate_pattern)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *(each.strip("/") for each in paths)])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def has_dirs(self) -> bool:
        return False

    def exists(self, path: str) -> bool:
        return Path(_local(path, self._folder)).is_file()  # a store has no folders

    def metadata(self, path: str) -> FileMetadata:
        found = Path(_local(path, self._folder)).stat()
        return FileMetadata(path, found.st_size, found.st_mtime)

    def size(self, path: str) -> int:
        return Path(_local(path, self._folder)).stat().st_size

    def open(self, path: str, *arguments: Any, **named: Any) -> Any:
        return LocalFileSystem(None).open(_local(path, self._folder), *arguments, **named)

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        prefix = _local(dir_or_prefix, self._folder)
        above = Path(prefix) if prefix.endswith("/") else Path(prefix).parent
        for found in sorted(above.rglob("*")):
            if str(found).startswith(prefix) and found.is_file():
                yield self.metadata(_remote(str(found), self._folder))


def _tfx_system(folder: Path) -> Any:
    class Mirror(tfx_local.LocalFilesystem):
        """TFX's local file system with other names."""

        @staticmethod
        def open(name: Any, mode: str = "r") -> Any:
            return tfx_local.LocalFilesystem.open(_local(name, folder), mode)

        @staticmethod
        def exists(path: Any) -> bool:
            return bool(tfx_local.LocalFilesystem.exists(_local(path, folder)))

        @staticmethod
        def glob(pattern: Any) -> list[Any]:
            return [_remote(each, folder) for each in tfx_local.LocalFilesystem.glob(_local(pattern, folder))]

        @staticmethod
        def isdir(path: Any) -> bool:
            return bool(tfx_local.LocalFilesystem.isdir(_local(path, folder)))

        @staticmethod
        def listdir(path: Any) -> list[Any]:
            return list(tfx_local.LocalFilesystem.listdir(_local(path, folder)))

        @staticmethod
        def makedirs(path: Any) -> None:
            tfx_local.LocalFilesystem.makedirs(_local(path, folder))

        @staticmethod
        def mkdir(path: Any) -> None:
            tfx_local.LocalFilesystem.mkdir(_local(path, folder))

    return Mirror
