"""Bytes on disk, with files that have several hard links counted once: what a deletion frees, and what stays."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from components.storage.location import Location

_BLOCK = 512  # bytes; the unit of st_blocks, whatever the file system


class DiskUse:
    """The files of some folders, as `du` counts them: allocated blocks, each file once."""

    def __init__(self, places: Iterable[Location]) -> None:
        """Lists files and folders; those on an object store are objects of their own."""
        self._links: dict[tuple[int, int], int] = {}  # how often a file was found
        self._found: dict[tuple[int, int], os.stat_result] = {}
        self._stored = 0
        local: set[Path] = set()
        for place in places:
            if isinstance(place, Path):
                local.update(_below(place))
            else:
                self._stored += sum(each.st_size for _, each in place.entries())
        for path in local:
            try:
                found = path.lstat()
            except FileNotFoundError:  # never written, or a temporary file of another process
                continue
            file = found.st_dev, found.st_ino
            self._links[file] = self._links.get(file, 0) + 1
            self._found[file] = found

    @property
    def all_bytes(self) -> int:
        """Bytes of all files, folders and objects."""
        return self._stored + sum(found.st_blocks * _BLOCK for found in self._found.values())

    @property
    def own_bytes(self) -> int:
        """Bytes that no name outside of these folders holds: what is freed when they are deleted."""
        own = (found for file, found in self._found.items() if self._links[file] >= found.st_nlink or _is_folder(found))
        return self._stored + sum(found.st_blocks * _BLOCK for found in own)


def _is_folder(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode)


def _below(place: Path) -> Iterator[Path]:
    yield place
    if place.is_dir() and not place.is_symlink():
        for parent, folders, files in os.walk(place):
            yield from (Path(parent, name) for name in (*folders, *files))
