"""Folders that are classes, `cats/1.jpg` and `dogs/2.jpg`: lists every file below, with its class or a reason.

    data ─► names ─┬─► files: the class is the outermost folder
                   ├─► quarantined: outside any class folder, link that leads outside, pipe, wrong file extension
                   └─► ignored: hidden files, and files beside the class folders that describe them

No local link that leads outside the data folder is followed; object stores have no links.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from components.errors import BadInput
from components.ingest.sources import Found, SourceFiles
from components.records.quarantine import NO_LABEL, Quarantined, printable
from components.storage.entries import Entries
from components.storage.paths import DataPath
from components.storage.uri_path import UriPath
from components.strings import Strings

# Both are here because a folder of texts has to recognise images too.
IMAGE_SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif", ".jp2", ".j2k", ".bmp", ".tif", ".tiff"])
TEXT_SUFFIXES = frozenset([".txt", ".text", ".md"])


def _no_fault(name: str) -> None:
    """Returns None: no name is a reason to quarantine a file."""


@dataclass(frozen=True)
class FolderRules:
    """Which files in class folders are data."""

    expected: str  # for the message if there are none
    is_description: Callable[[str], bool]  # whether a file beside the class folders is not data
    fault: Callable[[str], str | None] = _no_fault  # why a file in a class folder is quarantined by its name


# Relative name with forward slashes, whether it is a link beside the class folders, and why it must not be opened.
_Entry = tuple[str, bool, str | None]


def find(data: DataPath, rules: FolderRules, entries: Entries | None = None) -> Found:
    """Lists every file below `data`; no file that may be data is left out.

    Args:
        data: the folder.
        rules: which files are data.
        entries: the listing of a remote folder, if there is one already.
    """
    try:
        found = _find_local(data, rules) if isinstance(data, Path) else _find_remote(data, rules, entries)
    except OSError as error:
        raise BadInput(f"{error.filename}: cannot be listed: {error.strerror}; check its permissions") from error
    if not found.files:
        raise BadInput(f"{data}: 0 examples in it; {rules.expected}{_first_reason(found.quarantined)}")
    return found


def _find_local(data: Path, rules: FolderRules) -> Found:
    files, others = SourceFiles(), _Others(rules)
    for name, is_link, fault in _local_entries(data, rules):
        if not others.take(name, fault, is_link):
            files.append(name, name.partition("/")[0])
    return others.beside(files)


def _find_remote(data: UriPath, rules: FolderRules, entries: Entries | None) -> Found:
    """Sorts the files below a remote folder, one class folder after another; a hidden folder is one entry."""
    entries = Entries.below(data) if entries is None else entries
    if not entries.names:
        what = "not a folder" if data.is_file() else "no such folder"
        raise BadInput(f"{data}: {what}; {rules.expected}")
    others, chosen, files = _Others(rules), bytearray(), SourceFiles()
    for start, stop in _runs(entries.names):
        label = entries.names[start].partition("/")[0]
        if _is_plain(entries.names, start, stop, label) and rules.fault is _no_fault:
            chosen += b"\1" * (stop - start)
        else:
            chosen += bytes(_are_data(entries.names[start:stop], others))
        files.append_labels(label, sum(chosen[start:stop]))
    entries = entries if all(chosen) else entries.where(chosen)
    files.paths = entries.names
    return replace(others.beside(files), entries=entries)


def _runs(names: Strings) -> Iterator[tuple[int, int]]:
    """Yields where the names of each outermost folder begin and end in sorted names; a file beside them is one run."""
    start = 0
    while start < len(names):
        folder, inside, _ = names[start].partition("/")
        stop, step = start + 1, 1
        if inside:
            after = folder + chr(ord("/") + 1)
            while stop < len(names) and names[stop] < after:  # not a bisection of all names: most runs may be short
                stop, step = stop + step, 2 * step
            stop = bisect_left(names, after, max(start, stop - step // 2), min(stop, len(names)))
        yield start, stop
        start = stop


def _is_plain(names: Strings, start: int, stop: int, label: str) -> bool:
    """Whether a run of names is that of a class folder without hidden files; decided without making each name."""
    is_folder = bool(label.strip()) and names[start] != label and not label.startswith(".")
    return is_folder and not names.contains(b"/.", start, stop)


def _are_data(names: Sequence[str], others: "_Others") -> Iterator[bool]:
    """Yields whether each file is data; a hidden folder is one entry."""
    hidden = ""
    for name in names:
        shown = to_hidden(name)
        if shown != name and shown == hidden:
            yield False  # one more file of the same hidden folder
            continue
        hidden = shown
        yield not others.take(shown, _no_class(shown))


class _Others:
    """Collects the files that are not data, in the order of the listing."""

    def __init__(self, rules: FolderRules) -> None:
        self._rules = rules
        self._quarantined, self._ignored = list[Quarantined](), list[str]()

    def take(self, name: str, fault: str | None, is_link: bool = False) -> bool:
        """Whether a file is not data; then it is kept with the reason."""
        top = "/" not in name
        if name.rpartition("/")[2].startswith(".") or (top and self._rules.is_description(name) and not is_link):
            self._ignored.append(printable(name))
        elif reason := fault or self._rules.fault(name):
            self._quarantined.append(Quarantined(printable(name), reason))
        else:
            return False
        return True

    def beside(self, files: SourceFiles) -> Found:
        """Returns what was found."""
        return Found(files, tuple(self._quarantined), tuple(self._ignored))


def _first_reason(quarantined: Sequence[Quarantined]) -> str:
    if not quarantined:
        return ""
    return f"; {len(quarantined)} quarantined, such as {quarantined[0].path}: {quarantined[0].reason}"


def to_hidden(name: str) -> str:
    """Returns a name up to its first hidden folder; the whole name if there is none."""
    if not name.startswith(".") and "/." not in name:
        return name
    parts = name.split("/")
    end = next((at for at, part in enumerate(parts, 1) if part.startswith(".")), len(parts))
    return "/".join(parts[:end])


def _no_class(name: str) -> str | None:
    folder, inside, _ = name.partition("/")
    if not inside:
        return "not inside a class folder"
    return None if folder.strip() else f"{NO_LABEL}: the name of the class folder is blank"


def _local_entries(data: Path, rules: FolderRules) -> Iterator[_Entry]:
    _check_folder(data, rules)
    home = data.resolve()
    for name, entry in walk(str(data), ""):
        yield name, "/" not in name and entry.is_symlink(), _local_fault(entry, name, home)


def _check_folder(data: Path, rules: FolderRules) -> None:
    try:
        mode = data.stat().st_mode
    except FileNotFoundError:
        raise BadInput(f"{data}: no such folder; {rules.expected}") from None
    if not stat.S_ISDIR(mode):
        raise BadInput(f"{data}: not a folder; {rules.expected}")


def walk(folder: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yields everything below that is not a folder, in order; a hidden or linked folder is yielded and not entered."""
    with os.scandir(folder) as entries:
        os.lstat(f"{folder}/.")  # fails for a folder with permission to list but not to enter
        # A folder by the name with a /: so whole paths are sorted, as those of a store are.
        found = sorted((f"{each.name}/" if _is_entered(each) else each.name, each) for each in entries)
        for name, entry in found:
            if name.endswith("/"):
                yield from walk(entry.path, prefix + name)
            else:
                yield prefix + name, entry


def _is_entered(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")


def _local_fault(entry: os.DirEntry[str], name: str, home: Path) -> str | None:
    # The directory entry has the file type; a stat call per file would take longer than everything else.
    if "/" not in name and not entry.is_dir():
        return _no_class(name)
    try:
        name.partition("/")[0].encode()
    except UnicodeEncodeError:
        return "the class folder's name is not UTF-8"
    if entry.is_symlink():
        return link_fault(Path(entry.path), home)
    return _no_class(name) if entry.is_file(follow_symlinks=False) else "not a regular file"


def link_fault(path: Path, home: Path) -> str | None:
    """Returns why a link must not be followed; None if it leads to a file below `home`, which is resolved."""
    try:
        target = path.resolve()
    except RuntimeError:  # a loop of links
        return "symbolic link to a folder or to nothing"
    if home not in target.parents:
        return "symbolic link that leads outside the data folder"
    return None if target.is_file() else "symbolic link to a folder or to nothing"
