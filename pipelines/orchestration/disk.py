"""Explains errors that a full disk causes."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from components.errors import DiskFull, PenstockError
from components.ingest.survey.survey import Survey

_MIN_FREE = 1 << 20  # bytes; if less is free, a full disk is taken for the cause of any error


def full(error: Exception, folder: Path, flag: str, survey: Callable[[], Survey]) -> DiskFull | None:
    """Returns an explanation if the disk of a folder is full; libraries report it in different words, or not at all.

    Args:
        error: what was raised.
        folder: where output is written to; it exists.
        flag: the command-line flag that names another folder.
        survey: lists the raw data, whose size is a part of the explanation.
    """
    free = shutil.disk_usage(folder).free
    if isinstance(error, PenstockError) or (free > _MIN_FREE and "No space left on device" not in str(error)):
        return None
    data_bytes = sum(item.size for item in survey().listing.files)
    return DiskFull(
        f"{folder}: no space left on its disk: {free / 1e6:,.1f} MB free, "
        f"the data alone has {data_bytes / 1e6:,.1f} MB. "
        f"No incomplete output was published; free disk space, or choose another {flag}"
    )


@contextmanager
def explained(folder: Path, flag: str, survey: Callable[[], Survey]) -> Iterator[None]:
    """Raises DiskFull in place of an error that a full disk causes; the arguments are those of `full`."""
    try:
        yield
    except Exception as error:
        if found := full(error, folder, flag, survey):
            raise found from error
        raise
