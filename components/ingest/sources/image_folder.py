"""A folder with one folder of images a class: `cats/1.jpg`, `dogs/2.png`. The class is the folder's name."""

import os
import stat
from pathlib import Path

from components.errors import BadInput
from components.ingest.images import ImageLimits, ImageRejected, check_image
from components.ingest.sources import Found, Record, Refused, Rejected, SourceFile, printable
from components.settings import Ingest

EXPECTED = "expected a folder with one sub-folder of images a class, such as cats/1.jpg and dogs/2.jpg"
IMAGE_SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"])


class ImageFolder:
    """Finds and reads class folders of images."""

    def find(self, data: Path) -> Found:
        """Lists every file below `data`; nothing that might be an image is left out in silence."""
        try:
            return self._find(data)
        except OSError as error:
            raise BadInput(f"{error.filename}: cannot be listed: {error.strerror}; check its permissions") from error

    def _find(self, data: Path) -> Found:
        _check_folder(data)
        home = data.resolve()
        files, refused, ignored = [], [], []
        for path in _walk(data):
            relative = path.relative_to(data).as_posix()
            if path.name.startswith("."):
                ignored.append(relative)
            elif "/" not in relative and path.suffix.lower() not in IMAGE_SUFFIXES and not path.is_symlink():
                ignored.append(relative)  # a README or licence beside the class folders
            elif reason := _refusal(path, relative, home):
                refused.append(Refused(printable(relative), reason))
            else:
                files.append(SourceFile(relative, relative.partition("/")[0]))
        if not files:
            raise BadInput(f"{data}: 0 examples in it; {EXPECTED}{_first_reason(refused)}")
        return Found(tuple(files), tuple(refused), tuple(map(printable, ignored)))

    def read(self, file: SourceFile, content: bytes, settings: Ingest) -> Record:
        """Checks one image and returns its record."""
        limits = ImageLimits(max_pixels=settings.max_pixels, max_bytes=settings.max_file_mb << 20)
        try:
            image = check_image(content, limits)
        except ImageRejected as error:
            raise Rejected(str(error)) from None
        columns = {"image": image.content, "label": file.label.encode()}
        return Record(columns, side=min(image.width, image.height), changed=image.changed)


SOURCE = ImageFolder()


def _check_folder(data: Path) -> None:
    try:
        mode = data.stat().st_mode
    except FileNotFoundError:
        raise BadInput(f"{data}: no such folder; {EXPECTED}") from None
    if not stat.S_ISDIR(mode):
        raise BadInput(f"{data}: not a folder; {EXPECTED}")


def _walk(data: Path) -> list[Path]:
    found: list[Path] = []
    for parent, folders, names in os.walk(data, onerror=_raise):
        hidden = [name for name in folders if name.startswith(".")]
        linked = [name for name in folders if name not in hidden and Path(parent, name).is_symlink()]
        folders[:] = sorted(set(folders) - set(hidden) - set(linked))
        found.extend(Path(parent, name) for name in (*names, *hidden, *linked))
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error


def _refusal(path: Path, relative: str, home: Path) -> str | None:
    """Returns why a file must not be opened, if so."""
    if "/" not in relative and not path.is_dir():
        return "not inside a class folder"
    try:
        relative.partition("/")[0].encode()
    except UnicodeEncodeError:
        return "the class folder's name is not UTF-8"
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return _link_refusal(path, home)
    return None if stat.S_ISREG(mode) else "not a regular file"


def _link_refusal(path: Path, home: Path) -> str | None:
    try:
        target = path.resolve()
    except RuntimeError:  # a circle of links
        return "symbolic link to a folder or to nothing"
    if home not in target.parents:
        return "symbolic link that leads outside the data folder"
    return None if target.is_file() else "symbolic link to a folder or to nothing"


def _first_reason(refused: list[Refused]) -> str:
    if not refused:
        return ""
    return f"; {len(refused)} refused, such as {refused[0].path}: {refused[0].reason}"
