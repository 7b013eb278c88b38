"""The versions in a serving folder, and the digest by which copies of a model are recognised."""

import hashlib
from pathlib import Path

from components.pretrained.artifacts import PROVENANCE
from components.serving import disk_push, store_push
from components.serving.store_push import MODEL
from components.storage import paths
from components.storage.location import Location

_CHUNK = 8 << 20  # bytes of a model's file in memory


def complete(serving: Location, above: int = 0) -> list[int]:
    """Returns the versions of a serving folder that are complete, lowest first; only those above a number."""
    if not isinstance(serving, Path):
        return store_push.versions(serving, above)
    if not serving.is_dir():
        return []
    numbers = sorted(int(each.name) for each in serving.iterdir() if each.name.isdecimal())
    return [number for number in numbers if number > above and (serving / str(number) / MODEL).is_file()]


def remove(folder: Location) -> None:
    """Deletes a version, so that a reader never loads a part of it."""
    if isinstance(folder, Path):
        disk_push.remove(folder.parent, int(folder.name))
    else:
        store_push.remove(folder.parent, int(folder.name))


def digest_of(model: Location) -> str:
    """Returns a digest of all files but the provenance: every pushed copy of a model has the same one."""
    digest = hashlib.sha256()
    for name in sorted(paths.files_below(model)):
        if name != PROVENANCE.as_posix():
            digest.update(f"{name}\0{_digest_of_file(model / name)}\n".encode())
    return digest.hexdigest()


def _digest_of_file(file: Location) -> str:
    digest = hashlib.sha256()
    with paths.open_whole(file) as stream:
        while content := stream.read(_CHUNK):
            digest.update(content)
    return digest.hexdigest()
