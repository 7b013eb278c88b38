"""Publishes files and folders whole or not at all.

on this machine     temporary name next to the target ─► fsync ─► rename ─► fsync of the parent folder
on an object store  temporary file on this machine ─► uploaded: an object appears with its last byte
"""

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # at run time the path itself knows what to do
    from components.storage.location import Location

TEMPORARY = ".aside-"  # prefix of temporary names, by which leftovers of a killed process are recognised
OWNER_ONLY_FOLDER = 0o700
_SYNCS = 8  # files forced to disk at once
_NAME = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{12}}-(?P<target>.+)", re.DOTALL)


def temporary_of(target: Path) -> Path:
    """Returns a new name next to `target`, on the same filesystem."""
    return target.with_name(f"{TEMPORARY}{secrets.token_hex(6)}-{target.name}")


@contextmanager
def publish_file(target: "Location", *, sync: bool = True, aside: "Location | None" = None) -> Iterator[Path]:
    """Yields a local path to write to; on success the file becomes `target`, on failure it is deleted.

    Args:
        target: the final name; its folder is created if it does not exist.
        sync: force it to disk; False for one of many files that `fsync_tree` forces to disk together.
        aside: folder of the temporary file, on the same filesystem, if what a killed writer leaves must not be next to
            the target; not used on an object store.
    """
    if not isinstance(target, Path):
        with tempfile.TemporaryDirectory(prefix="penstock-upload-") as folder:
            local = Path(folder, target.name)
            yield local
            target.upload(local)
        return
    temporary = temporary_of(target)
    if isinstance(aside, Path):
        temporary = aside / temporary.name
    for parent in {target.parent, temporary.parent}:
        parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        if sync:
            fsync(temporary)
        temporary.replace(target)
        if sync:
            fsync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def publish_folder(target: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; on success it is renamed to `target`, which must not exist."""
    temporary = temporary_of(target)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        fsync_tree(temporary)
        temporary.rename(target)
        fsync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_bytes(target: "Location", content: bytes, *, private: bool = False, sync: bool = True) -> None:
    """Writes a small file whole or not at all; a private one is readable by its owner only, from the beginning.

    On an object store, the rights are those of its bucket.
    """
    if not isinstance(target, Path):
        target.write_bytes(content)
        return
    with (
        publish_file(target, sync=sync) as temporary,
        open(temporary, "wb", opener=owner_only if private else None) as file,
    ):
        file.write(content)


def owner_only(path: str, flags: int) -> int:
    """Opens a file for `open(…, opener=owner_only)`, and makes it readable by its owner only, also an existing one."""
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def fsync(path: Path) -> None:
    """Forces a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: "Location") -> None:
    """Forces a folder and everything below it to disk; a store has done so when an upload ends."""
    if not isinstance(folder, Path):
        return
    found = [(Path(parent), names) for parent, _, names in os.walk(folder, topdown=False)]
    # Together: 40 shards of 10 MB took 0.2 s, and 0.5 s one after another.
    with ThreadPoolExecutor(_SYNCS) as pool:
        list(pool.map(fsync, (parent / name for parent, names in found for name in names)))
    for parent, _ in found:
        fsync(parent)


def sweep(folder: "Location", *targets: str) -> list[Path]:
    """Deletes what killed writers of these targets, or of any target, left in `folder`, and returns the paths.

    Call it only under the lock of all these writers: one that is still running would lose its file. On an object store
    they leave nothing.
    """
    found = leftovers(folder, *targets)
    for leftover in found:
        remove(leftover)
    return found


def leftovers(folder: "Location", *targets: str) -> list[Path]:
    """Returns what `sweep` would delete."""
    if not isinstance(folder, Path):
        return []
    return sorted(path for path in folder.glob(f"{TEMPORARY}*") if _is_of(path.name, targets))


def remove(path: "Location") -> None:
    """Deletes a file, a folder or a symbolic link, if it exists; what a link points to stays."""
    if not isinstance(path, Path):
        path.remove_tree()
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_of(name: str, targets: Sequence[str]) -> bool:
    """Whether a name is a temporary one of these targets, or of any if there are none."""
    found = _NAME.fullmatch(name)
    return found is not None and (not targets or found["target"] in targets)
