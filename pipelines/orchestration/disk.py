"""Explains errors that a full disk causes: libraries report it in different words, or not at all."""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from components.errors import DiskFull, PenstockError
from components.ingest.survey.survey import Survey
from pipelines.config import RunConfig

_MIN_FREE = 1 << 20  # bytes; if less is free, a full disk is taken for the cause of any error
REASONS = {  # errors that mean it
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "disk quota exceeded",
    errno.EFBIG: "file larger than this process may write (ulimit -f)",
}
_TEXTS = {**{os.strerror(code): text for code, text in REASONS.items()}, "disk is full": REASONS[errno.ENOSPC]}
_PATH = re.compile(r"(?<![\w.])/[^\s'\"<>;:,()\[\]]+")


def places(home: Path, advice: str) -> dict[Path, str]:
    """Returns the folders that a command writes to, each with the way to use another one."""
    inside = sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else ()  # may be other disks
    own = dict.fromkeys((home, *inside), advice)
    return {**own, Path(tempfile.gettempdir()): "set TMPDIR to another folder"}


def places_of_run(config: RunConfig) -> dict[Path, str]:
    """Returns the folders that a run writes to; see `places`."""
    serving = {config.serving: "choose another folder (--set push.directory=…)"}
    return {**places(config.root, "choose another --root"), **serving}


def full(error: BaseException, folders: Mapping[Path, str], needed: Callable[[], str]) -> DiskFull | None:
    """Returns an explanation if a full disk, a quota or a limit caused an error.

    Args:
        error: what was raised.
        folders: where output is written to, and what the user can do to use another folder.
        needed: returns what is known about the space that is needed.
    """
    errors = list(_chain(error))
    if explained := next((each for each in errors[1:] if isinstance(each, DiskFull)), None):
        return explained  # the disk was also too full to record the failure
    reason = next(filter(None, map(_reason, errors)), None)
    named = [path for each in errors for path in _named(each)] if reason else []
    crowded = [path for path in (*named, *folders) if _is_full(path)]
    if isinstance(error, PenstockError) or not (reason or crowded):
        return None
    inside = [path for path in named if _advice(path, folders)]
    path = next(iter([*crowded, *inside, *folders]))
    advice = _advice(path, folders) or "write to another disk"
    return DiskFull(
        f"{path}: {reason or REASONS[errno.ENOSPC]} on the disk at {_mount(path)}: "
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
    return f"the data alone has {sum(item.size for item in found.listing.files) / 1e6:,.1f} MB"


def size(folders: Iterable[Path]) -> int:
    """Returns the bytes of all files in some folders."""
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: BaseException) -> str | None:
    if isinstance(error, OSError) and error.errno in REASONS:
        return REASONS[error.errno]
    return next((reason for text, reason in _TEXTS.items() if text in str(error)), None)


def _named(error: BaseException) -> list[Path]:
    """Returns the paths that an error names."""
    return [Path(text) for text in _PATH.findall(str(error))]


def _advice(path: Path, folders: Mapping[Path, str]) -> str:
    """Returns what to do about the innermost of the folders that contains a path."""
    around = [folder for folder in folders if path.is_relative_to(folder)]
    return folders[max(around, key=lambda folder: len(folder.parts))] if around else ""


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _usage(path: Path) -> "shutil._ntuple_diskusage":
    return shutil.disk_usage(_existing(path))


def _is_full(path: Path) -> bool:
    usage = _usage(path)
    return usage.free < _MIN_FREE and usage.total > 0  # /proc has no space at all


def _mount(path: Path) -> Path:
    return next(folder for folder in (_existing(path), *path.parents) if folder.is_mount())
