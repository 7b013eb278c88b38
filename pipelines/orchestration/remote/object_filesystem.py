"""TFX's file operations on object stores, for its launcher: output folders, working folders, executor output.

    tfx.dsl.io.fileio ─► registry ─► ObjectFilesystem (s3://, gs://) ─► components/storage/objects.py

Without it, TFX hands these URIs to TensorFlow, which needs tensorflow-io for s3:// and another set of credentials.
A folder exists if there are objects below it: creating one does nothing, deleting one that is not there is no error.
"""

import fnmatch
import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfx.dsl.io import filesystem, filesystem_registry

from components.storage.objects import ObjectPath

_PRIORITY = -10  # TFX prefers the lowest; TensorFlow's filesystem has 0 or more


def register() -> None:
    """Makes TFX use this filesystem for s3:// and gs://. Can be called repeatedly."""
    filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY.register(ObjectFilesystem, priority=_PRIORITY)


class ObjectFilesystem(filesystem.Filesystem):
    """TFX's filesystem interface on the storage layer."""

    SUPPORTED_SCHEMES = ["s3://", "gs://"]  # noqa: RUF012 - TFX's way

    @staticmethod
    def open(name: Any, mode: str = "r") -> Any:
        """Opens an object for reading, or a buffer that is written whole when it is closed."""
        path = _path(name)
        if "r" in mode:
            try:
                content = path.read_bytes()
            except FileNotFoundError as error:
                raise filesystem.NotFoundError from error
            return io.BytesIO(content) if "b" in mode else io.StringIO(content.decode())
        if "w" not in mode:
            raise ValueError(f"{name}: mode {mode!r}; objects are read or written whole: expected r, rb, w or wb")
        return _BinaryWriter(path) if "b" in mode else _TextWriter(_BinaryWriter(path), write_through=True)

    @staticmethod
    def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
        """Copies an object."""
        target = _path(dst)
        if not overwrite and target.is_file():
            raise OSError(f"{dst}: exists already")
        with ObjectFilesystem.open(src, "rb") as stream:
            target.write_bytes(stream.read())

    @staticmethod
    def exists(path: Any) -> bool:
        """Whether there is an object, or one below it."""
        return _path(path).exists()

    @staticmethod
    def glob(pattern: Any) -> list[Any]:
        """Returns the objects that match a pattern."""
        text = _text(pattern)
        head = text[: min(at for at in (text.find(mark) for mark in "*?[") if at >= 0)] if _is_wild(text) else text
        if head == text:
            return [text] if ObjectFilesystem.exists(text) else []
        folder = _path(head.rpartition("/")[0])
        depth = text.count("/")
        found = [f"{folder}/{name}" for name in folder.files_below()]
        return sorted(uri for uri in found if uri.count("/") == depth and fnmatch.fnmatchcase(uri, text))

    @staticmethod
    def isdir(path: Any) -> bool:
        """Whether there are objects below it."""
        return _path(path).is_dir()

    @staticmethod
    def listdir(path: Any) -> list[Any]:
        """Returns the names of the next level."""
        names = sorted({name.partition("/")[0] for name in _path(path).files_below()})
        if not names:
            raise filesystem.NotFoundError
        return names

    @staticmethod
    def makedirs(path: Any) -> None:
        """Does nothing: a folder exists with its first object."""

    @staticmethod
    def mkdir(path: Any) -> None:
        """Does nothing."""

    @staticmethod
    def remove(path: Any) -> None:
        """Deletes an object; one that does not exist is no error, as TFX removes outputs that were never written."""
        _path(path).unlink(missing_ok=True)

    @staticmethod
    def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
        """Copies an object, or a folder, and deletes the old one: stores have no rename."""
        source, target = _path(src), _path(dst)
        if not overwrite and target.exists():
            raise OSError(f"{dst}: exists already")
        if source.is_file():
            ObjectFilesystem.copy(src, dst, overwrite=overwrite)
            source.unlink()
            return
        for name in source.files_below():
            ObjectFilesystem.copy(f"{source}/{name}", f"{target}/{name}", overwrite=overwrite)
        source.remove_tree()

    @staticmethod
    def rmtree(path: Any) -> None:
        """Deletes all objects below a folder."""
        _path(path).remove_tree()

    @staticmethod
    def stat(path: Any) -> Any:
        """Returns size and time of an object."""
        try:
            return _path(path).stat()
        except FileNotFoundError as error:
            raise filesystem.NotFoundError from error

    @staticmethod
    def walk(
        top: Any, topdown: bool = True, onerror: Callable[..., None] | None = None
    ) -> Iterable[tuple[Any, list[Any], list[Any]]]:
        """Yields folders with the names of their folders and files, as os.walk does."""
        del onerror
        found = list(_walk(_text(top).rstrip("/"), sorted(_path(top).files_below())))
        return found if topdown else reversed(found)


class _BinaryWriter(io.BytesIO):
    """Collects what is written, and writes the object when it is closed; not after an error in its `with` block."""

    def __init__(self, path: ObjectPath) -> None:
        super().__init__()
        self._path = path
        self.is_partial = False

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Closes it."""
        self.is_partial = kind is not None
        self.close()

    def close(self) -> None:
        """Writes the object."""
        if not self.closed and not self.is_partial:
            self._path.write_bytes(self.getvalue())
        super().close()


class _TextWriter(io.TextIOWrapper):
    """Writes text to a _BinaryWriter."""

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Closes it."""
        self.buffer.is_partial = kind is not None  # type: ignore[attr-defined]
        self.close()


def _walk(folder: str, names: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    folders = sorted({name.partition("/")[0] for name in names if "/" in name})
    yield folder, folders, [name for name in names if "/" not in name]
    for each in folders:
        yield from _walk(f"{folder}/{each}", [name[len(each) + 1 :] for name in names if name.startswith(f"{each}/")])


def _is_wild(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _text(path: Any) -> str:
    return path.decode() if isinstance(path, bytes) else str(path)


def _path(path: Any) -> ObjectPath:
    return ObjectPath(_text(path).rstrip("/"))
