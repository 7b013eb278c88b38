"""Where data lies: on this machine, or at an address such as gs://bucket/folder that Apache Beam can read.

    text ─► place ─┬─ no scheme ─► pathlib.Path                  Beam is not even imported
                   └─ scheme:// ─► RemotePath ─► Beam's FileSystems

`DataPath` is what both can do: all that a source may ask of its data. A remote file is read by requests for parts of
it, never fetched whole.
"""

import glob
import importlib
import os.path
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, TypeVar

from components.errors import SettingsError
from components.storage.remote_path import WILD, RemotePath, RemoteStat, fits

D = TypeVar("D")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HEAD = re.compile(rf"({_SCHEME.pattern})?/*")
_LIBRARIES = {"s3": ("boto3", "aws"), "azfs": ("azure.storage.blob", "azure")}  # and the extra that brings them
_FEW = 8  # files are asked about one by one: a listing may be of many that are not meant
_LONG_REQUEST = 8 << 20  # bytes asked for at once


class DataStat(Protocol):
    """What is known of a file without reading it."""

    @property
    def st_size(self) -> int:
        """Bytes."""

    @property
    def st_mtime_ns(self) -> int:
        """When it was last written; 0 if that cannot be told."""


class DataPath(Protocol):
    """A file or folder of the user's data: as much of `pathlib.Path` as can be had at any address."""

    @property
    def name(self) -> str:
        """Last part of the path."""

    @property
    def stem(self) -> str:
        """Name without its suffix."""

    @property
    def suffix(self) -> str:
        """End of the name, with its dot."""

    @property
    def parent(self: D) -> D:
        """The folder it stands in."""

    def __truediv__(self: D, name: str, /) -> D:
        """Returns what stands below."""

    def with_name(self: D, name: str, /) -> D:
        """Returns what stands beside it."""

    def exists(self) -> bool:
        """Whether there is a file or folder."""

    def is_file(self) -> bool:
        """Whether there is a file."""

    def is_dir(self) -> bool:
        """Whether there is a folder."""

    def stat(self) -> DataStat:
        """Returns size and time."""

    def open(self, mode: Literal["rb"], buffering: int = -1) -> BinaryIO:
        """Opens a file that can be entered anywhere."""

    def read_bytes(self) -> bytes:
        """Returns the whole content."""

    def glob(self: D, pattern: str, /) -> Iterable[D]:
        """Lists what is below and matches; at an address files only."""


def is_address(text: str) -> bool:
    """Whether a text names something that is not a path of this machine."""
    return _SCHEME.match(text) is not None


def place(text: str) -> Path | RemotePath:
    """Returns the place that a text names; refuses what cannot be one."""
    if "\0" in text:
        raise SettingsError(f"{text!r}: a path cannot hold NUL")
    found = _SCHEME.match(text)
    if not found:
        return Path(text)
    _check_scheme(found[1], text)
    if ".." in text.split("/") or not text[found.end() :].strip("/"):
        raise SettingsError(f"{text}: expected the plain address of a file or folder, such as {found[0]}bucket/folder")
    return RemotePath(text.rstrip("/"))


def _check_scheme(scheme: str, text: str) -> None:
    if scheme.lower() == "file":
        raise SettingsError(f"{text}: file:// addresses are not taken; give the path itself")
    from apache_beam.io.filesystem import FileSystem
    from apache_beam.io.filesystems import FileSystems  # importing it registers those that Beam brings along

    known = sorted(filter(None, {system.scheme() for system in FileSystem.get_all_subclasses()}))
    if FileSystems.get_scheme(text) not in known:
        schemes = ", ".join(f"{each}://" for each in known)
        raise SettingsError(f"{text}: no filesystem for {scheme}://; expected a path, or one of {schemes}")
    library, extra = _LIBRARIES.get(scheme, ("apache_beam", ""))
    try:
        importlib.import_module(library)
    except ImportError:
        wanted = f"pip install 'apache-beam[{extra}]'"
        raise SettingsError(f"{text}: {scheme}:// needs {library}, which is not installed; {wanted}") from None


def prepare(data: str, beam_args: Sequence[str]) -> None:
    """Makes data at an address readable in this process; data on this machine needs nothing."""
    if is_address(data):
        configure(beam_args)


def configure(beam_args: Sequence[str]) -> None:
    """Gives Beam's filesystems their options, such as --hdfs_host; a pipeline does so for its own workers."""
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    FileSystems.set_options(PipelineOptions(list(beam_args)))


def split_pattern(text: str) -> tuple[Path | RemotePath, str]:
    """Returns the folder before the first wildcard, and the pattern from there on; the last part is always in it."""
    head, parts = _parts(text)
    fixed = next(at for at, part in enumerate([*parts[:-1], "*"]) if WILD.search(part))
    return place(head + "/".join(parts[:fixed]) or "."), "/".join(parts[fixed:])


def matches(pattern: str) -> list[str]:
    """Lists the files and folders that match a pattern, as it is spelt."""
    folder, rest = split_pattern(pattern)
    if isinstance(folder, Path):
        return sorted(glob.iglob(pattern))  # noqa: PTH207 - pathlib would spell ./a* another way
    wanted = rest.split("/")
    paths = {"/".join(name.split("/")[: len(wanted)]) for name in folder.files_below()}
    return [f"{folder}/{path}" for path in sorted(paths) if fits(path.split("/"), wanted)]


def common_folder(folders: Sequence[Path | RemotePath]) -> Path | RemotePath:
    """Returns the innermost folder that all of these are in, or are."""
    found = _SCHEME.match(str(folders[0]))
    head = found[0] if found else ""
    return place(head + os.path.commonpath([str(folder).removeprefix(head) for folder in folders]))


def _parts(text: str) -> tuple[str, list[str]]:
    """Returns what a path begins with, and its parts."""
    rest = _HEAD.sub("", text, count=1)
    return text[: len(text) - len(rest)], [part for part in rest.split("/") if part]


def stats(folder: DataPath, names: Sequence[str]) -> list[DataStat]:
    """Returns the stat of each file below a folder; at an address by one listing instead of a request for each."""
    if not isinstance(folder, RemotePath) or len(names) <= _FEW:
        return [(folder / name).stat() for name in names]
    known: dict[str, RemoteStat] = folder.files_below()
    return [known.get(name) or (folder / name).stat() for name in names]


def open_whole(path: DataPath) -> BinaryIO:
    """Opens a file that will be read from its start to its end: at an address in large requests."""
    return path.open("rb") if isinstance(path, Path) else path.open("rb", _LONG_REQUEST)
