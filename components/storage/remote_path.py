"""A path on a filesystem that Apache Beam can read: hdfs://, azfs://, or the scheme of a plugin.

    RemotePath ─┬─ stat, exists ─► metadata of Beam's FileSystem
                ├─ glob ─────────► match ─► files at any depth (folder by folder, if the filesystem has folders)
                └─ open ─────────► io.BufferedReader ─► requests for byte ranges

It has the methods of `pathlib.Path`. Whatever a filesystem's library raises becomes an OSError with a reason and the
URI. Beam is imported when something is read, not before.
"""

import contextlib
import errno
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypeVar

from components.errors import BadInput
from components.storage.uri_path import LONG_REQUEST, REQUEST, WILD, RemoteStat, UriPath

T = TypeVar("T")

_REASON = 300  # characters of a library's message
_STATUS = {401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT}  # HTTP status
_WORDS = {errno.EACCES: "Permission denied", errno.ENOENT: "No such file or directory"}


@dataclass(frozen=True, order=True)
class RemotePath(UriPath):
    """A remote file or folder."""

    def stat(self) -> RemoteStat:
        """Returns size and time of a file."""
        return _stat_of(_ask(self.uri, lambda system: system.metadata(self.uri)))

    def is_file(self) -> bool:
        """Whether it is a file."""
        if not _ask(self.uri, lambda system: system.exists(self.uri)):
            return False
        return not _is_folder(self.uri, self.stat())

    def is_dir(self) -> bool:
        """Whether there are files below it."""
        try:
            return bool(_match(self.uri, limit=1))
        except FileNotFoundError:
            return False
        except OSError:  # WebHDFS has no other error for "not a folder"
            if self.is_file():
                return False
            raise

    def open(self, mode: Literal["rb"] = "rb", buffering: int = -1) -> BinaryIO:
        """Opens a seekable file; `buffering` is the minimum of bytes per request."""
        del mode
        return io.BufferedReader(_BeamStream(self.uri), max(buffering, REQUEST))

    def files_below(self, depth: int | None = None) -> dict[str, RemoteStat]:
        """Returns all files below by their relative names; `depth` limits how deep folders are listed."""
        found: dict[str, RemoteStat] = {}
        listed: list[tuple[str, RemoteStat]] = []
        # An object store lists nothing for a folder that does not exist; others do the same here.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            listed = _match(self.uri)
        for uri, stat in listed:
            name = uri[len(self.uri) + 1 :]  # Beam's match returns URIs that start as the pattern does
            if uri.endswith("/") and not stat.st_size:
                continue  # the placeholder of a folder in an object store
            if not _is_folder(uri, stat):
                found[name] = stat
            elif depth is None or depth > 1:
                below = RemotePath(uri).files_below(depth and depth - 1)
                found |= {f"{name}/{inner}": stat for inner, stat in below.items()}
        return found


class _BeamStream(io.RawIOBase):
    """Beam's stream of a file, with errors that name the file."""

    def __init__(self, uri: str) -> None:
        from apache_beam.io.filesystem import CompressionTypes

        super().__init__()
        self._uri = uri
        plain = CompressionTypes.UNCOMPRESSED  # else files whose name ends in .gz would be decompressed here
        self._inner = _unbuffered(_ask(uri, lambda system: system.open(uri, compression_type=plain)))

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes."""
        with _explained(self._uri):
            data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """Reads the rest; Python's own method would request 8 KB at a time."""
        with _explained(self._uri):
            return b"".join(iter(lambda: self._inner.read(LONG_REQUEST), b""))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to an offset."""
        with _explained(self._uri):
            self._inner.seek(offset, whence)
            return int(self._inner.tell())

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True: all streams of Beam are."""
        return True

    def close(self) -> None:
        """Closes Beam's stream."""
        if not self.closed:
            self._inner.close()
        super().close()


def _unbuffered(stream: Any) -> Any:
    """Removes the large buffers of Beam's own streams: a header of a few bytes would fetch 16 MB and more."""
    if isinstance(stream, io.BufferedReader):
        return stream.detach()
    if getattr(stream, "_chunk_size", 0) > REQUEST:  # Google's reader, which Beam creates
        stream._chunk_size = REQUEST  # noqa: SLF001 - it has no public name
    return stream


def _ask(uri: str, question: Callable[[Any], T]) -> T:
    """Calls a function with the filesystem of a URI, and returns its result."""
    from apache_beam.io.filesystems import FileSystems

    with _explained(uri):
        return question(FileSystems.get_filesystem(uri))


def _match(folder: str, limit: int | None = None) -> list[tuple[str, RemoteStat]]:
    """Lists a folder: at any depth, or only the next level on some filesystems with folders."""
    if WILD.search(folder):
        raise BadInput(f"{folder}: a folder with *, ? or [ in its name cannot be listed; rename the folder")
    [found] = _ask(folder, lambda system: system.match([f"{folder}/**"], [limit]))
    return [(each.path, _stat_of(each)) for each in found.metadata_list]


def _stat_of(metadata: Any) -> RemoteStat:
    return RemoteStat(metadata.size_in_bytes, round(1e9 * metadata.last_updated_in_seconds))


def _is_folder(uri: str, stat: RemoteStat) -> bool:
    """Whether a listed path is a folder: Beam's metadata do not say, but only a file has a checksum."""
    if stat.st_size or not _ask(uri, lambda system: system.has_dirs()):
        return False
    try:
        _ask(uri, lambda system: system.checksum(uri))
    except OSError as error:
        return not isinstance(error.__cause__, NotImplementedError)
    return False


@contextlib.contextmanager
def _explained(uri: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # any kind: each library raises its own
        raise _as_os_error(error, uri) from error


def _as_os_error(error: BaseException, uri: str) -> OSError:
    """Returns an OSError with number, reason and URI; Beam wraps the original error in one of its own."""
    while details := getattr(error, "exception_details", None):
        error = next(iter(details.values())) if isinstance(details, dict) else details
    if isinstance(error, OSError) and error.errno:
        return OSError(error.errno, error.strerror, uri)
    number = _STATUS.get(getattr(error, "code", None) or 0, errno.EIO)  # of google.api_core and Beam's S3 client
    if getattr(error, "exception", "") == "FileNotFoundException":  # of WebHDFS
        number = errno.ENOENT
    message = (str(error).splitlines() or [""])[0][:_REASON]
    return OSError(number, _WORDS.get(number) or f"{type(error).__name__}: {message}", uri)
