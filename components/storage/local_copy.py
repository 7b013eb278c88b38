"""A file or folder on this machine, for libraries that cannot read an object store."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from components.storage import transfers

if TYPE_CHECKING:
    from components.storage.location import Location
    from components.storage.objects import ObjectPath

_DOWNLOADS = 8  # files at once


@contextmanager
def local_copy(path: "Location") -> Iterator[Path]:
    """Yields the path itself if it is local, else that of a copy, which is deleted afterwards."""
    if isinstance(path, Path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="penstock-copy-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder, path.name)
        if path.is_file():
            path.download(copy)
        else:
            _download_tree(path, copy)
        yield copy


def _download_tree(source: "ObjectPath", target: Path) -> None:
    names = list(source.files_below())
    for parent in {(target / name).parent for name in names} | {target}:
        parent.mkdir(parents=True, exist_ok=True)
    transfers.each(lambda name: (source / name).download(target / name), names, _DOWNLOADS)
