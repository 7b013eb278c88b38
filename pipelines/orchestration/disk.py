"""Explains errors that a full disk causes."""

import shutil
from collections.abc import Callable
from pathlib import Path

from components.errors import DiskFull, PenstockError

_MIN_FREE = 1 << 20  # bytes; if less is free, a full disk is taken for the cause of any error


def full(error: Exception, folder: Path, flag: str, data_bytes: Callable[[], int]) -> DiskFull | None:
    """Returns an explanation if the disk of a folder is full; libraries report it in different words, or not at all.

    Args:
        error: what was raised.
        folder: where output is written to; it exists.
        flag: the command-line flag that names another folder.
        data_bytes: returns the size of the raw data.
    """
    free = shutil.disk_usage(folder).free
    if isinstance(error, PenstockError) or (free > _MIN_FREE and "No space left on device" not in str(error)):
        return None
    return DiskFull(
        f"{folder}: no space left on its disk: {free / 1e6:,.1f} MB free, "
        f"the data alone has {data_bytes() / 1e6:,.1f} MB. "
        f"No incomplete output was published; free disk space, or choose another {flag}"
    )
