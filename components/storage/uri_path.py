"""What paths with a URI have in common: names, patterns and reading, in the words of `pathlib.Path`.

    UriPath ─┬─ ObjectPath   s3:// and gs://                        read and written, by obstore
             └─ RemotePath   hdfs://, azfs:// and those of plugins  read, by Beam's filesystems

A folder exists if there are files below it. A name can never lead to another folder: names come from the user's data.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import BinaryIO, Literal, NamedTuple

from typing_extensions import Self

from components.errors import BadInput

WILD = re.compile(r"[*?\[]")
REQUEST = 1 << 20  # bytes per request, at least: reading a header must not fetch a whole range
LONG_REQUEST = 8 << 20  # bytes per request of a file that is read whole


class RemoteStat(NamedTuple):  # made ten million times in a large listing, in half the time of a frozen dataclass
    """Size, time and identity of a remote file."""

    st_size: int
    st_mtime_ns: int  # 0 if unknown
    identity: str = ""  # changes with the content: the etag of an object; empty if unknown


@dataclass(frozen=True, order=True)
class UriPath(ABC):
    """A remote file or folder."""

    uri: str  # without a slash at its end

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str | PurePosixPath) -> Self:
        """Returns a path below this one; raises BadInput for a name that leads elsewhere."""
        name = str(name)
        if not name or "\0" in name or name.startswith("/") or "://" in name or ".." in name.split("/"):
            raise BadInput(f"{self}: {name!r} leads outside of it; expected the relative path of a file below it")
        return type(self)(f"{self.uri}/{name}")

    @property
    def _home(self) -> str:
        """Scheme and first part, which has no parent, such as gs://bucket."""
        scheme, _, rest = self.uri.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"

    @property
    def name(self) -> str:
        """Last part of the path; empty for a bucket."""
        return PurePosixPath(self.uri[len(self._home) :]).name

    @property
    def stem(self) -> str:
        """Name without its suffix."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """Last suffix of the name, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> Self:
        """The folder that contains it; a bucket is its own parent."""
        return self if self.uri == self._home else type(self)(self.uri.rpartition("/")[0])

    def with_name(self, name: str) -> Self:
        """Returns a path in the same folder."""
        return self.parent / name

    def relative_to(self, folder: "UriPath") -> PurePosixPath:
        """Returns the path relative to a folder above."""
        if not self.uri.startswith(f"{folder}/"):
            raise ValueError(f"{self} is not below {folder}")
        return PurePosixPath(self.uri[len(folder.uri) + 1 :])

    @abstractmethod
    def stat(self) -> RemoteStat:
        """Returns size, time and identity of a file."""

    @abstractmethod
    def is_file(self) -> bool:
        """Whether it is a file."""

    @abstractmethod
    def is_dir(self) -> bool:
        """Whether there are files below it."""

    def exists(self) -> bool:
        """Whether it is a file or a folder."""
        return self.is_file() or self.is_dir()

    @abstractmethod
    def open(self, mode: Literal["rb"] = "rb", buffering: int = -1) -> BinaryIO:
        """Opens a seekable file; `buffering` is the minimum of bytes per request."""

    def read_bytes(self) -> bytes:
        """Returns the whole content."""
        with self.open("rb", LONG_REQUEST) as stream:
            return stream.read()

    def read_at_most(self, limit: int) -> bytes:
        """Returns the content, or so many bytes of it; of a larger file, no more than about that is transferred."""
        with self.open("rb") as stream:
            return stream.read(limit)

    def read_text(self) -> str:
        """Returns the whole content, which is UTF-8."""
        return self.read_bytes().decode()

    @abstractmethod
    def files_below(self, depth: int | None = None) -> Mapping[str, RemoteStat]:
        """Returns all files below by their relative names; `depth` limits how deep folders are listed."""

    def glob(self, pattern: str) -> Iterator[Self]:
        """Yields the files below that match, by the rules of `pathlib`; not the folders."""
        wanted = pattern.split("/")
        fixed = next(at for at, part in enumerate([*wanted[:-1], "*"]) if WILD.search(part))
        start = self / "/".join(wanted[:fixed]) if fixed else self
        wanted = wanted[fixed:]
        for name in sorted(start.files_below(None if "**" in wanted else len(wanted))):
            if fits(name.split("/"), wanted):
                yield start / name

    def rglob(self, pattern: str) -> Iterator[Self]:
        """Yields the files at any depth that match."""
        return self.glob(f"**/{pattern}")


def fits(names: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern; ** matches any number of folders."""
    if not wanted:
        return not names
    if wanted[0] == "**":
        return any(fits(names[at:], wanted[1:]) for at in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], wanted[0]) and fits(names[1:], wanted[1:])
