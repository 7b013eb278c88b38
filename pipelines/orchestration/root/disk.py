"""Explains errors that a full disk causes: libraries report it in different words."""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from components.errors import DiskFull, PenstockError, causes
from components.ingest.survey.survey import Survey
from pipelines.config import RunConfig
from pipelines.orchestration import graph

_BLOCK = 512  # bytes: POSIX counts st_blocks in these
_MIN_FREE = 1 << 20  # bytes; a disk with less is the full one
REASONS = {  # errors that mean it
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "disk quota exceeded",
    errno.EFBIG: "file larger than this process may write (ulimit -f)",
}
_TEXTS = {**{os.strerror(code): text for code, text in REASONS.items()}, "disk is full": REASONS[errno.ENOSPC]}
FULL = tuple(text for text in _TEXTS if text != os.strerror(errno.EFBIG))  # of a disk, not of a process
_OF_DATA = (ValueError, TypeError, LookupError, PenstockError)  # their messages may quote data, never a disk's state
_PATH = re.compile(r"(?<![\w.])/[^\s'\"<>;:,()\[\]]+")


def places(folders: Iterable[Path], advice: str) -> dict[Path, str]:
    """Returns the folders that a command writes to, which may be on several disks, and how to use other ones."""
    own = dict.fromkeys((folder.absolute() for folder in folders), advice)
    return {**own, Path(tempfile.gettempdir()): "set TMPDIR to another folder"}


def places_of_run(config: RunConfig) -> dict[Path, str]:
    """Returns the folders that a run writes to; see `places`."""
    home, flag = (config.state, "--root") if config.store is None else (config.mirror, "--state")
    inside = [home / node.id for node in graph.nodes(config.settings)]
    own = places((config.state, *inside, config.notes, config.logs), f"choose another {flag}")
    served = {config.serving: "choose another folder (--set push.directory=…)"}
    return {**own, **{folder: advice for folder, advice in served.items() if isinstance(folder, Path)}}


def full(error: BaseException, folders: Mapping[Path, str], needed: Callable[[], str]) -> DiskFull | None:
    """Returns an explanation if a full disk, a quota or a limit caused an error.

    Args:
        error: what was raised.
        folders: where output is written to, and what the user can do to use another folder.
        needed: returns what is known about the space that is needed.
    """
    errors = list(causes(error))
    if explained := next((each for each in errors[1:] if isinstance(each, DiskFull)), None):
        return explained  # the disk was also too full to record the failure
    reason = next(filter(None, map(_reason, errors)), None)
    if isinstance(error, PenstockError) or reason is None:
        return None
    named = [path for each in errors for path in _named(each)]
    crowded = [path for path in (*named, *folders) if _is_full(path)]
    inside = [path for path in named if _advice(path, folders)]
    path = next(iter([*crowded, *inside, *folders]))
    advice = _advice(path, folders) or "write to another disk"
    return DiskFull(
        f"{path}: {reason} on the disk at {_mount(path)}: "
        f"{_usage(path).free / 1e6:,.1f} MB free, {needed()}. "
        f"No incomplete output was published; free disk space, or {advice}"
    )


@contextmanager
def explained(folders: Callable[[], Mapping[Path, str]], needed: Callable[[], str]) -> Iterator[None]:
    """Raises DiskFull in place of an error that a full disk causes; the arguments return those of `full`."""
    try:
        yield
    except Exception as error:
        if found := full(error, folders(), needed):
            raise found from error
        raise


def needed_for(found: Survey) -> str:
    """Returns what is known about the space for raw data."""
    return f"the data alone has {found.listing.size / 1e6:,.1f} MB"


def size(folders: Iterable[Path]) -> int:
    """Returns the bytes of all files in some folders."""
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())


def used(folder: Path) -> int:
    """Returns the bytes that a folder occupies on its disk; files with several names count once."""
    seen: set[tuple[int, int]] = set()
    total, folders = 0, [str(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:  # others may delete files meanwhile
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif (key := (status.st_dev, status.st_ino)) not in seen:
                    seen.add(key)
                    total += status.st_blocks * _BLOCK
    return total


def _reason(error: BaseException) -> str | None:
    if isinstance(error, OSError) and error.errno in REASONS:
        return REASONS[error.errno]
    if isinstance(error, _OF_DATA):
        return None
    return next((reason for text, reason in _TEXTS.items() if text in str(error)), None)


def _named(error: BaseException) -> list[Path]:
    """Returns the paths that an error names; those in a message only if it has no attribute for them."""
    given = (error.filename, error.filename2) if isinstance(error, OSError) else ()
    texts = [os.fsdecode(name) for name in given if isinstance(name, str | bytes)] or _PATH.findall(str(error))
    return [Path(text).absolute() for text in texts]


def _advice(path: Path, folders: Mapping[Path, str]) -> str:
    """Returns what to do about the innermost of the folders that contains a path."""
    around = [folder for folder in folders if path.is_relative_to(folder)]
    return folders[max(around, key=lambda folder: len(folder.parts))] if around else ""


def _existing(path: Path) -> Path:
    # os.path.exists: the path may be any text of a message, too long or forbidden, for which Path.exists raises.
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder))  # noqa: PTH110


def _usage(path: Path) -> "shutil._ntuple_diskusage":
    return shutil.disk_usage(_existing(path))


def _is_full(path: Path) -> bool:
    usage, mount = _usage(path), os.statvfs(_existing(path))
    # /proc has no space at all; a read-only disk (an ISO image, a snap) is always full.
    return usage.free < _MIN_FREE and usage.total > 0 and not mount.f_flag & os.ST_RDONLY


def _mount(path: Path) -> Path:
    existing = _existing(path)
    return next(folder for folder in (existing, *existing.parents) if folder.is_mount())
