"""A path at an address that Apache Beam can read: gs://, s3://, hdfs://, azfs://, or the scheme of a plugin.

    RemotePath ─┬─ stat, exists ─► metadata of Beam's FileSystem
                ├─ glob ─────────► match ─► files at any depth (where folders are listed one by one, they are entered)
                └─ open ─────────► io.BufferedReader ─► requests for parts of the file

It has the names and the manners of `pathlib.Path`; whatever a filesystem's library raises becomes an OSError with a
reason and the address. Beam is imported when something is read, not before.
"""

import contextlib
import errno
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Literal, TypeVar

from components.errors import BadInput

T = TypeVar("T")

WILD = re.compile(r"[*?\[]")
_REQUEST = 1 << 20  # bytes asked for at once, at the least: a header must not cost as much as a range
_REASON = 300  # characters of what a library says
_STATUS = {401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT}  # of HTTP
_WORDS = {errno.EACCES: "Permission denied", errno.ENOENT: "No such file or directory"}


@dataclass(frozen=True)
class RemoteStat:
    """What a filesystem tells of a file."""

    st_size: int
    st_mtime_ns: int  # 0 if it does not tell


@dataclass(frozen=True, order=True)
class RemotePath:
    """A file or folder at an address; a folder is what files are below."""

    address: str  # without a slash at its end

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> "RemotePath":
        """Returns what stands below; a name that leads elsewhere is refused."""
        if not name or "\0" in name or name.startswith("/") or "://" in name or ".." in name.split("/"):
            raise BadInput(f"{self}: {name!r} leads out of it; expected the path of a file below it")
        return RemotePath(f"{self.address}/{name}")

    @property
    def _home(self) -> str:
        """Scheme and first part, which has no parent: gs://bucket."""
        scheme, _, rest = self.address.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"

    @property
    def name(self) -> str:
        """Last part of the address; empty for a bucket."""
        return PurePosixPath(self.address[len(self._home) :]).name

    @property
    def stem(self) -> str:
        """Name without its suffix."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """End of the name, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> "RemotePath":
        """The folder it stands in; a bucket is its own."""
        return self if self.address == self._home else RemotePath(self.address.rpartition("/")[0])

    def with_name(self, name: str) -> "RemotePath":
        """Returns what stands beside it."""
        return self.parent / name

    def relative_to(self, folder: "RemotePath") -> PurePosixPath:
        """Returns the path as seen from a folder above."""
        if not self.address.startswith(f"{folder}/"):
            raise ValueError(f"{self} is not below {folder}")
        return PurePosixPath(self.address[len(folder.address) + 1 :])

    def stat(self) -> RemoteStat:
        """Returns size and time of a file."""
        return _stat_of(_asked(self.address, lambda system: system.metadata(self.address)))

    def exists(self) -> bool:
        """Whether there is a file, or one below."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether there is a file."""
        if not _asked(self.address, lambda system: system.exists(self.address)):
            return False
        return not _is_folder(self.address, self.stat())

    def is_dir(self) -> bool:
        """Whether there is a file below."""
        try:
            return bool(_match(self.address, limit=1))
        except FileNotFoundError:
            return False
        except OSError:  # WebHDFS has no other word for "not a folder"
            if self.is_file():
                return False
            raise

    def open(self, mode: Literal["rb"] = "rb", buffering: int = -1) -> BinaryIO:
        """Opens a file that can be entered anywhere; `buffering` is how much is asked for at once, at the least."""
        del mode
        return io.BufferedReader(_Stream(self.address), max(buffering, _REQUEST))

    def read_bytes(self) -> bytes:
        """Returns the whole content."""
        with self.open() as stream:
            return stream.read()

    def glob(self, pattern: str) -> Iterator["RemotePath"]:
        """Lists the files below that match, by the rules of `pathlib`."""
        wanted = pattern.split("/")
        fixed = next(at for at, part in enumerate([*wanted[:-1], "*"]) if WILD.search(part))
        start = self / "/".join(wanted[:fixed]) if fixed else self
        wanted = wanted[fixed:]
        for name in sorted(start.files_below(None if "**" in wanted else len(wanted))):
            if fits(name.split("/"), wanted):
                yield start / name

    def files_below(self, depth: int | None = None) -> dict[str, RemoteStat]:
        """Returns all files below by their relative names; `depth` may spare the listing of deeper folders."""
        found: dict[str, RemoteStat] = {}
        listed: list[tuple[str, RemoteStat]] = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # object stores do not know them either
            listed = _match(self.address)
        for address, stat in listed:
            name = address[len(self.address) + 1 :]  # what Beam's match returns begins as the pattern does
            if address.endswith("/") and not stat.st_size:
                continue  # what object stores keep in the place of a folder
            if not _is_folder(address, stat):
                found[name] = stat
            elif depth is None or depth > 1:
                below = RemotePath(address).files_below(depth and depth - 1)
                found |= {f"{name}/{inner}": stat for inner, stat in below.items()}
        return found


def fits(names: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern; ** stands for any number of folders."""
    if not wanted:
        return not names
    if wanted[0] == "**":
        return any(fits(names[at:], wanted[1:]) for at in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], wanted[0]) and fits(names[1:], wanted[1:])


class _Stream(io.RawIOBase):
    """Beam's stream of a file, with errors that name it."""

    def __init__(self, address: str) -> None:
        from apache_beam.io.filesystem import CompressionTypes

        super().__init__()
        self._address = address
        plain = CompressionTypes.UNCOMPRESSED  # else names that end in .gz would be unpacked here
        self._inner = _unbuffered(_asked(address, lambda system: system.open(address, compression_type=plain)))

    def readinto(self, buffer: Any) -> int:
        """Reads on."""
        with _told(self._address):
            data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Enters the file anywhere."""
        with _told(self._address):
            self._inner.seek(offset, whence)
            return int(self._inner.tell())

    def tell(self) -> int:
        """Returns where the next read begins."""
        with _told(self._address):
            return int(self._inner.tell())

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def seekable(self) -> bool:
        """Streams of Beam are."""
        return True

    def close(self) -> None:
        """Closes Beam's stream."""
        if not self.closed:
            self._inner.close()
        super().close()


def _unbuffered(stream: Any) -> Any:
    """Takes the large buffers of Beam's own streams away: a header of a few bytes would fetch 16 MB and more."""
    if isinstance(stream, io.BufferedReader):
        return stream.detach()
    if getattr(stream, "_chunk_size", 0) > _REQUEST:  # of Google's reader, whose constructor Beam calls
        stream._chunk_size = _REQUEST  # noqa: SLF001 - it has no other name
    return stream


def _asked(address: str, question: Callable[[Any], T]) -> T:
    """Returns what the filesystem of an address answers."""
    from apache_beam.io.filesystems import FileSystems

    with _told(address):
        return question(FileSystems.get_filesystem(address))


def _match(folder: str, limit: int | None = None) -> list[tuple[str, RemoteStat]]:
    """Lists what is below a folder: at any depth, or where the filesystem has folders perhaps the next one only."""
    if WILD.search(folder):
        raise BadInput(f"{folder}: a folder with *, ? or [ in its name cannot be listed; rename it")
    [found] = _asked(folder, lambda system: system.match([f"{folder}/**"], [limit]))
    return [(each.path, _stat_of(each)) for each in found.metadata_list]


def _stat_of(metadata: Any) -> RemoteStat:
    return RemoteStat(metadata.size_in_bytes, round(1e9 * metadata.last_updated_in_seconds))


def _is_folder(address: str, stat: RemoteStat) -> bool:
    """Whether what was listed is a folder: Beam's metadata do not tell, but only a file has a checksum."""
    if stat.st_size or not _asked(address, lambda system: system.has_dirs()):
        return False
    try:
        _asked(address, lambda system: system.checksum(address))
    except OSError as error:
        return not isinstance(error.__cause__, NotImplementedError)
    return False


@contextlib.contextmanager
def _told(address: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of all kinds: each library raises its own
        raise _as_os_error(error, address) from error


def _as_os_error(error: BaseException, address: str) -> OSError:
    """Returns an error with number, reason and address; Beam packs what happened into an error of its own."""
    while details := getattr(error, "exception_details", None):
        error = next(iter(details.values())) if isinstance(details, dict) else details
    if isinstance(error, OSError) and error.errno:
        return OSError(error.errno, error.strerror, address)
    number = _STATUS.get(getattr(error, "code", None) or 0, errno.EIO)  # google.api_core and Beam's client of S3
    if getattr(error, "exception", "") == "FileNotFoundException":  # of WebHDFS
        number = errno.ENOENT
    said = (str(error).splitlines() or [""])[0][:_REASON]
    return OSError(number, _WORDS.get(number) or f"{type(error).__name__}: {said}", address)
