"""Paths of data: on this machine, on an object store, or at another URI that Apache Beam can read.

    text ─► data_path ─┬─ no scheme ──────► pathlib.Path
                       ├─ s3://, gs:// ───► ObjectPath ─► obstore                 can be written, too
                       └─ other scheme:// ► RemotePath ─► Beam's FileSystems      Beam is imported for these alone

A source may use what all three have. A remote file is read by byte ranges, never fetched whole.
"""

import contextlib
import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, TypeAlias

from components import redact
from components.errors import SettingsError
from components.storage.object_stores import SCHEMES
from components.storage.objects import ObjectPath
from components.storage.remote_path import RemotePath
from components.storage.uri_path import LONG_REQUEST, WILD, RemoteStat, UriPath, fits

DataPath: TypeAlias = Path | UriPath
DataStat: TypeAlias = os.stat_result | RemoteStat

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HEAD = re.compile(rf"({_SCHEME.pattern})?/*")
_LIBRARIES = {"azfs": ("azure.storage.blob", "azure")}  # and the extra that installs them
_S3_FLAGS = {  # of Beam, and the environment variable that means the same
    "--s3_endpoint_url": "AWS_ENDPOINT_URL",
    "--s3_region_name": "AWS_REGION",
    "--s3_access_key_id": "AWS_ACCESS_KEY_ID",
    "--s3_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "--s3_session_token": "AWS_SESSION_TOKEN",
}
_FEW = 8  # files up to which each has its own request: a listing may contain millions of others


def is_uri(text: str) -> bool:
    """Whether a text is a URI, and not a path on this machine."""
    return _SCHEME.match(text) is not None


def data_path(text: str) -> DataPath:
    """Returns the path that a text names; raises SettingsError if it cannot be one."""
    if "\0" in text:
        raise SettingsError(f"{text!r}: a path cannot contain NUL")
    found = _SCHEME.match(text)
    if not found:
        return Path(text)
    if redact.has_credentials(text):
        raise SettingsError(
            f"{redact.redact(text)}: the URI contains a password or a token, which would be stored in the metadata; "
            "pass it by an environment variable or a Beam flag of the file system"
        )
    on_store = found[1] in SCHEMES
    if not on_store:
        _check_scheme(found[1], text)
    if ".." in text.split("/") or not text[found.end() :].strip("/"):
        raise SettingsError(f"{text}: expected the URI of a file or folder, such as {found[0]}bucket/folder")
    return ObjectPath(text) if on_store else RemotePath(text.rstrip("/"))


def _check_scheme(scheme: str, text: str) -> None:
    if scheme.lower() == "file":
        raise SettingsError(f"{text}: file:// URIs are not supported; use the path itself")
    from apache_beam.io.filesystem import FileSystem
    from apache_beam.io.filesystems import FileSystems  # this import registers Beam's own filesystems

    known = sorted({*SCHEMES, *filter(None, (system.scheme() for system in FileSystem.get_all_subclasses()))})
    if FileSystems.get_scheme(text) not in known:
        schemes = ", ".join(f"{each}://" for each in known)
        raise SettingsError(f"{text}: no filesystem for {scheme}://; expected a path or one of {schemes}")
    library, extra = _LIBRARIES.get(scheme, ("apache_beam", ""))
    try:
        importlib.import_module(library)
    except ImportError:
        command = f"pip install 'apache-beam[{extra}]'"
        raise SettingsError(f"{text}: {scheme}:// needs {library}, which is not installed; run {command}") from None


def prepare(data: str, beam_args: Sequence[str]) -> None:
    """Passes options such as --hdfs_host to the filesystem of remote data, in this process and those that it starts.

    A Beam pipeline does so for its own workers.
    """
    if data.startswith("s3://"):
        for flag, value in (arg.split("=", 1) for arg in beam_args if "=" in arg):
            if flag in _S3_FLAGS:
                os.environ[_S3_FLAGS[flag]] = value
    elif is_uri(data):
        from apache_beam.io.filesystems import FileSystems
        from apache_beam.options.pipeline_options import PipelineOptions

        FileSystems.set_options(PipelineOptions(list(beam_args)))


def split_pattern(text: str) -> tuple[DataPath, str]:
    """Returns the folder before the first wildcard, and the rest as a pattern, which has at least the last part."""
    head, parts = _parts(text)
    fixed = next(at for at, part in enumerate([*parts[:-1], "*"]) if WILD.search(part))
    return data_path(head + "/".join(parts[:fixed]) or "."), "/".join(parts[fixed:])


def matches(pattern: str) -> list[str]:
    """Returns the files and folders that match a pattern, spelled as the pattern is."""
    folder, rest = split_pattern(pattern)
    wanted = rest.split("/")
    if isinstance(folder, Path):
        # As it is spelled: pathlib would drop the ./ of ./a*.
        head = pattern.removesuffix(rest) if pattern.endswith(rest) else f"{folder}/"
        return sorted({head + name for name in _matching(head.rstrip("/") or (head[:1] or "."), wanted)})
    paths = {"/".join(name.split("/")[: len(wanted)]) for name in folder.files_below()}
    return [f"{folder}/{path}" for path in sorted(paths) if fits(path.split("/"), wanted)]


def _matching(folder: str, wanted: Sequence[str], prefix: str = "") -> Iterator[str]:
    """Yields what matches the parts of a pattern below a local folder, relative to it; hidden files only if named.

    A folder that cannot be read raises an OSError with its path: `glob` and `pathlib` would leave out what is in it.
    """
    part, rest = wanted[0], wanted[1:]
    if part == "**":
        yield from _matching(folder, rest or ["*"], prefix)
        for name in _names_in(folder, "*", lambda entry: entry.is_dir(follow_symlinks=False)):
            yield from _matching(f"{folder}/{name}", wanted, f"{prefix}{name}/")
    elif not rest:
        yield from (prefix + name for name in _names_in(folder, part, lambda _: True))
    else:
        for name in _names_in(folder, part, os.DirEntry.is_dir):
            yield from _matching(f"{folder}/{name}", rest, f"{prefix}{name}/")


def _names_in(folder: str, part: str, fits_too: "Callable[[os.DirEntry[str]], bool]") -> list[str]:
    """Returns the names in a folder that match one part of a pattern; none if the folder does not exist."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not WILD.search(part):
            os.lstat(f"{folder}/{part}")
            return [part]
        with os.scandir(folder) as entries:
            return [
                entry.name
                for entry in entries
                if fnmatchcase(entry.name, part) and not entry.name.startswith(".") and fits_too(entry)
            ]
    return []


def common_folder(folders: Sequence[DataPath]) -> DataPath:
    """Returns the innermost folder that contains all of these, or is one of them."""
    found = _SCHEME.match(str(folders[0]))
    head = found[0] if found else ""
    return data_path(head + os.path.commonpath([str(folder).removeprefix(head) for folder in folders]))


def _parts(text: str) -> tuple[str, list[str]]:
    """Returns scheme and leading slashes of a path, and its parts."""
    rest = _HEAD.sub("", text, count=1)
    return text[: len(text) - len(rest)], [part for part in rest.split("/") if part]


def stats(folder: DataPath, names: Sequence[str]) -> list[DataStat]:
    """Returns the stat of each file below a folder; of many remote files, by one listing."""
    if isinstance(folder, Path):
        return [os.stat(f"{folder}/{name}") for name in names]  # noqa: PTH116 - making a Path takes longer
    if len(names) <= _FEW:
        return [(folder / name).stat() for name in names]
    known = folder.files_below()
    return [known.get(name) or (folder / name).stat() for name in names]


def open_whole(path: DataPath) -> BinaryIO:
    """Opens a file to be read from start to end; a remote one with large requests."""
    return path.open("rb") if isinstance(path, Path) else path.open("rb", LONG_REQUEST)


def files_below(folder: DataPath) -> Mapping[str, DataStat]:
    """Returns all files below a folder by their relative names; none if it does not exist."""
    if not isinstance(folder, Path):
        return folder.files_below()
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return {path.relative_to(folder).as_posix(): path.lstat() for path in found}
