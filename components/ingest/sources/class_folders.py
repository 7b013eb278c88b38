"""Folders that are classes, `cats/1.jpg` and `dogs/2.jpg`: every file below is listed, with its class or a reason.

    data ─► names ─┬─► files: the class is the outermost folder
                   ├─► refused: without a class, a link that leads out, a pipe, of another kind
                   └─► ignored: hidden files, and what stands beside the class folders to describe them

On this machine nothing is followed that leads out of the data folder; at an address there are no links to follow.
"""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from components.errors import BadInput
from components.ingest.sources import Found, SourceFile
from components.records.quarantine import Quarantined, printable
from components.storage.paths import DataPath

# By name: a folder of texts has to know images too.
IMAGE_SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"])
TEXT_SUFFIXES = frozenset([".txt", ".text", ".md"])


@dataclass(frozen=True)
class Kind:
    """What is looked for in class folders."""

    expected: str  # told where it is not found
    describes: Callable[[str], bool]  # whether a name beside the class folders is no data
    refusal: Callable[[str], str | None] = lambda _: None  # why a name inside a class folder is not taken, if so


class _Entry(NamedTuple):
    name: str  # relative, forward slashes
    is_link: bool
    fault: Callable[[], str | None]  # why it must not be opened, if so


def find(data: DataPath, kind: Kind) -> Found:
    """Lists every file below `data`; nothing that might be data is left out in silence."""
    try:
        return _sort(_local_entries(data, kind) if isinstance(data, Path) else _remote_entries(data, kind), data, kind)
    except OSError as error:
        raise BadInput(f"{error.filename}: cannot be listed: {error.strerror}; check its permissions") from error


def _sort(entries: Iterator[_Entry], data: DataPath, kind: Kind) -> Found:
    files, refused, ignored = [], [], []
    for entry in entries:
        name = entry.name
        top = "/" not in name
        if name.rpartition("/")[2].startswith(".") or (top and kind.describes(name) and not entry.is_link):
            ignored.append(printable(name))
        elif reason := entry.fault() or kind.refusal(name):
            refused.append(Quarantined(printable(name), reason))
        else:
            files.append(SourceFile(name, name.partition("/")[0]))
    if not files:
        raise BadInput(f"{data}: 0 examples in it; {kind.expected}{_first_reason(refused)}")
    return Found(tuple(files), tuple(refused), tuple(ignored))


def _first_reason(refused: list[Quarantined]) -> str:
    if not refused:
        return ""
    return f"; {len(refused)} refused, such as {refused[0].path}: {refused[0].reason}"


def _remote_entries(data: DataPath, kind: Kind) -> Iterator[_Entry]:
    """Yields the files below an address; of a hidden folder only the folder itself."""
    names = {_to_hidden(str(path).removeprefix(f"{data}/")) for path in data.glob("**/*")}
    if not names:
        what = "not a folder" if data.is_file() else "no such folder"
        raise BadInput(f"{data}: {what}; {kind.expected}")
    for name in sorted(names, key=lambda each: each.split("/")):
        yield _Entry(name, False, partial(_no_class, name))


def _to_hidden(name: str) -> str:
    parts = name.split("/")
    end = next((at for at, part in enumerate(parts, 1) if part.startswith(".")), len(parts))
    return "/".join(parts[:end])


def _no_class(name: str) -> str | None:
    return None if "/" in name else "not inside a class folder"


def _local_entries(data: Path, kind: Kind) -> Iterator[_Entry]:
    _check_folder(data, kind)
    home = data.resolve()
    for name, entry in sorted(_walk(str(data), ""), key=lambda found: found[0].split("/")):
        yield _Entry(name, "/" not in name and entry.is_symlink(), partial(_local_fault, entry, name, home))


def _check_folder(data: Path, kind: Kind) -> None:
    try:
        mode = data.stat().st_mode
    except FileNotFoundError:
        raise BadInput(f"{data}: no such folder; {kind.expected}") from None
    if not stat.S_ISDIR(mode):
        raise BadInput(f"{data}: not a folder; {kind.expected}")


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yields all that is below and is no folder; a hidden or linked folder is told of and not entered."""
    with os.scandir(folder) as entries:
        os.lstat(f"{folder}/.")  # fails in a folder that may be listed and not entered
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _walk(entry.path, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name, entry


def _local_fault(entry: os.DirEntry[str], name: str, home: Path) -> str | None:
    # The listing itself tells what an entry is: to ask for a stat of each would take longer than all the rest.
    if "/" not in name and not entry.is_dir():
        return _no_class(name)
    try:
        name.partition("/")[0].encode()
    except UnicodeEncodeError:
        return "the class folder's name is not UTF-8"
    if entry.is_symlink():
        return _link_fault(Path(entry.path), home)
    return None if entry.is_file(follow_symlinks=False) else "not a regular file"


def _link_fault(path: Path, home: Path) -> str | None:
    try:
        target = path.resolve()
    except RuntimeError:  # a circle of links
        return "symbolic link to a folder or to nothing"
    if home not in target.parents:
        return "symbolic link that leads outside the data folder"
    return None if target.is_file() else "symbolic link to a folder or to nothing"
