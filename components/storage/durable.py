"""Publish whole or not at all: write aside, fsync, rename.

tmp file next to the target ─► fsync ─► rename ─► fsync of the folder
"""

import ctypes
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

# Leftovers of a killed process carry this mark, so that they can be told from data and swept.
ASIDE = ".aside-"
_RANGE_WRITE = 2  # SYNC_FILE_RANGE_WRITE: start, and do not wait
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE: the file does not grow by it


def aside_of(target: Path) -> Path:
    """Returns a fresh name next to `target`, on the same filesystem."""
    return target.with_name(f"{ASIDE}{secrets.token_hex(6)}-{target.name}")


@contextmanager
def publish_file(target: Path) -> Iterator[Path]:
    """Yields a path to write to; on success it becomes `target` whole, on failure it is gone."""
    aside = aside_of(target)
    try:
        yield aside
        fsync(aside)
        aside.replace(target)
        fsync(target.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def publish_part(target: Path) -> Iterator[Path]:
    """The same for one of many files: it goes to disk meanwhile, and `fsync_tree` waits for all of them together."""
    aside = aside_of(target)
    try:
        yield aside
        _begin_sync_of(aside)
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def publish_folder(target: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; on success it becomes `target` whole. `target` must not exist."""
    aside = aside_of(target)
    aside.mkdir(parents=True)
    try:
        yield aside
        fsync_tree(aside)
        aside.rename(target)
        fsync(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def write_bytes(target: Path, content: bytes) -> None:
    """Writes a small file whole or not at all."""
    with publish_file(target) as aside:
        aside.write_bytes(content)


def fsync(path: Path) -> None:
    """Forces a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def begin_sync(descriptor: int, start: int, size: int) -> None:
    """Has a part of a file go to disk meanwhile, so that there is less to wait for when it is forced to.

    Args:
        descriptor: of the file.
        start: first byte of the part.
        size: bytes of the part; 0: all to the end.
    """
    begin = _linux_call("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    if begin is not None:
        begin(descriptor, start, size, _RANGE_WRITE)  # whatever is wrong, `fsync` will tell


def _begin_sync_of(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        begin_sync(descriptor, 0, 0)
    finally:
        os.close(descriptor)


def reserve(descriptor: int, size: int) -> None:
    """Makes room for so many bytes of a file that is written next: in one go, not page by page as they come.

    What is not needed in the end must be given back, by `os.ftruncate`.
    """
    make_room = _linux_call("fallocate", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if make_room is not None:
        make_room(descriptor, _KEEP_SIZE, 0, size)  # if there is no room, who writes will be told


@lru_cache(maxsize=4)
def _linux_call(name: str, *arguments: type) -> Callable[..., int] | None:
    """Returns one of Linux's own calls that Python does not have."""
    found = getattr(ctypes.CDLL(None), name, None)
    if found is not None:
        found.argtypes = arguments
    return found


def fsync_tree(folder: Path) -> None:
    """Forces a folder, and all that is in it, to disk."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            fsync(Path(parent, name))
        fsync(Path(parent))


def sweep(folder: Path, target: str = "*") -> list[Path]:
    """Removes what killed writers of `target` left in `folder` and returns it. Call it under the lock only."""
    leftovers = sorted(folder.glob(f"{ASIDE}*-{target}"))
    for leftover in leftovers:
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()
    return leftovers
