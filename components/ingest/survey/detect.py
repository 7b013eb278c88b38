"""Finds the source that reads a file, folder or pattern: file extensions decide the format."""

import os
import posixpath
import re
import stat
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

from components.errors import BadInput, SettingsError
from components.records.quarantine import printable
from components.storage.entries import Entries
from components.storage.paths import DataPath, data_path, matches, split_pattern
from components.strings import Strings


class Format(NamedTuple):
    """The name of a source for messages, and how its file names end."""

    name: str
    suffix: str  # regular expression


ARRAYS = "components.ingest.sources.arrays.array_rows:SOURCE"
IMAGE_FOLDER = "components.ingest.sources.image_folder:SOURCE"
TEXT_FOLDER = "components.ingest.sources.text_folder:SOURCE"
# Sources whose files hold many records, …
ROW_SOURCES = {
    "components.ingest.sources.csv.csv_rows:SOURCE": Format("CSV", r"\.(csv|tsv)(\.gz)?"),
    "components.ingest.sources.jsonl.jsonl_rows:SOURCE": Format("JSON Lines", r"\.(jsonl|ndjson)(\.gz)?"),
    "components.ingest.sources.parquet.parquet_rows:SOURCE": Format("Parquet", r"\.(parquet|pq)"),
    ARRAYS: Format("NumPy arrays", r"\.(npz|npy)"),
    "components.ingest.sources.tfrecord_rows:SOURCE": Format(
        "TFRecords", r"(\.tfrecords?|tfrecord-(s\d+-)?(f\d+-)?\d+-of-\d+)(\.gz)?"
    ),
}
# … and sources whose files are one record each, with the folder as its class.
FOLDER_SOURCES = {
    IMAGE_FOLDER: Format("class folders of images", r"\.(jpe?g|png|gif|webp|avif|jp2|j2k|bmp|tiff?)"),
    TEXT_FOLDER: Format("class folders of texts", r"\.(txt|text|md)"),
}
_SOURCES = {**FOLDER_SOURCES, **ROW_SOURCES}
_BLOCK, _FEW = 1_000, 8  # names whose suffixes are collected together, and suffixes that are few
Place = DataPath


@dataclass(frozen=True)
class Located:
    """Where the data is, and which source reads it."""

    home: Place
    files: tuple[str, ...]  # relative to home; empty for a source of class folders, which lists its own
    source: str
    links_outside: tuple[str, ...] = ()  # links that lead outside the folder, which are quarantined
    entries: Entries | None = field(default=None, repr=False)  # the listing of a remote folder

    @property
    def is_folder(self) -> bool:
        """Whether each file is one record."""
        return self.source in FOLDER_SOURCES


def locate(data: str, sources: Collection[str] = ()) -> Located:
    """Finds the files and the source of `data`: a file, a folder, or a pattern such as logs/*.csv.

    Args:
        data: path or pattern from the user.
        sources: references of the sources that are allowed; empty for all.
    """
    try:
        home, names, links, entries = _names(data, sources)
    except OSError as error:
        raise BadInput(
            f"{printable(str(error.filename))}: cannot be listed: {error.strerror}; check its permissions"
        ) from error
    inside = _inside(home, names, links)
    source, files = _source_of(data, inside or names, sources)
    if sources and source not in sources:
        raise BadInput(f"{data}: holds {name_of(source)}; {_expected(sources)}")
    if source in FOLDER_SOURCES:
        return Located(home, (), source, entries=entries)
    if not inside:
        raise BadInput(f"{data}: 0 examples: {names[0]} is a link that leads outside its folder")
    if source == ARRAYS:
        files = _with_label_files(home, files)
    kept = set(inside) if links else ()
    outside = [name for name in links if name not in kept and _source_by_name(_tail(name)) == source]
    return Located(home, tuple(files), source, tuple(sorted(outside)), entries)


def name_of(source: str) -> str:
    """Returns the name of a source for messages."""
    return _SOURCES[source].name


def relative(path: Any, home: Any) -> str:
    """Returns a path relative to a folder above it, "" for the folder itself; both local or both remote."""
    return "" if path == home else path.relative_to(home).as_posix()


def _with_label_files(home: Place, files: list[str]) -> list[str]:
    """Adds the label files of arrays: they are read even if the user names only the arrays."""
    from components.ingest.sources.arrays.array_files import labels_of

    labels = [relative(found, home) for name in files if (found := labels_of(home / name))]
    for name in set(labels).difference(_inside(home, labels, labels)):
        raise BadInput(
            f"{home / name}: label file is a symbolic link that leads outside the data folder; "
            "copy the file into the folder"
        )
    return sorted({*files, *labels})


def _source_of(data: str, names: Sequence[str], sources: Collection[str]) -> tuple[str, list[str]]:
    """Returns the source of the data, and the files that it reads if it is one of rows."""
    found = _sources_by_name(names)
    row_sources = ROW_SOURCES.keys() & found
    if not row_sources:
        return _folder_source(data, names, sources, found), []
    if len(row_sources) == 1 and found <= row_sources | {IMAGE_FOLDER}:  # images beside a table are referenced by rows
        return next(iter(row_sources)), sorted(name for name in names if _source_by_name(_tail(name)) in ROW_SOURCES)
    shown = ", ".join(sorted({Path(name).suffix or name for name in names})[:5])
    raise SettingsError(f"{data}: files of several formats ({shown}); select one with a pattern, such as '*.csv'")


def _folder_source(data: str, names: Sequence[str], sources: Collection[str], found: Collection[str | None]) -> str:
    if not data_path(data).is_dir():
        raise BadInput(f"{data}: unsupported file {names[0]}; {_expected(sources)}")
    inside = _sources_by_name(name for name in names if "/" in name) if TEXT_FOLDER in found else {IMAGE_FOLDER}
    # Images may have captions beside them; files with an unknown extension are tried as images.
    return TEXT_FOLDER if TEXT_FOLDER in inside and IMAGE_FOLDER not in inside else IMAGE_FOLDER


def _sources_by_name(names: Iterable[str]) -> set[str | None]:
    """Returns the sources that read files with these names; None if there is none for one of them."""
    rest, found = iter(names), set[str | None]()
    while block := list(islice(rest, _BLOCK)):
        suffixes = {name.rpartition(".")[2] for name in block}
        # One of a few suffixes each, as a rule; a name without a dot, or with .gz, is examined as a whole.
        tails = {f".{end}" for end in suffixes} if _all_have(block, suffixes) else set(map(_tail, block))
        found.update(map(_source_by_name, tails))
    return found


def _all_have(names: Sequence[str], suffixes: Collection[str]) -> bool:
    """Whether each name has a dot before one of the few suffixes, none of which is that of a compressed file."""
    if len(suffixes) > _FEW or any(end.lower() == "gz" for end in suffixes):
        return False
    return all(map(str.endswith, names, repeat(tuple(f".{end}" for end in suffixes))))


@lru_cache(maxsize=4096)
def _source_by_name(tail: str) -> str | None:
    return next((source for source, (_, end) in _SOURCES.items() if re.search(f"({end})$", tail, re.IGNORECASE)), None)


def _tail(name: str) -> str:
    """Returns the end of a name that decides its format: usually the suffix, which many files share."""
    dot = name.rfind(".")
    return name if dot < 0 or name[dot:].lower() == ".gz" else name[dot:]


def _names(data: str, sources: Collection[str]) -> tuple[Place, Sequence[str], Collection[str], Entries | None]:
    """Returns the folder, the names of the selected files in it, those that may be links, and a remote listing."""
    path = data_path(data)
    if path.is_file():
        return path.parent, [path.name], [path.name], None
    home, pattern = (path, "**/*") if path.is_dir() else split_pattern(data)
    entries: Entries | None = None
    names: Sequence[str]
    links: Collection[str] = ()
    if path is home and isinstance(home, Path):
        links = set[str]()
        names = Strings(_noting_links(_files_below(str(home)), links))
    elif path is home and not isinstance(home, Path):
        entries = Entries.below(home)
        names = entries.names
        if _may_be_hidden(entries.names):
            names = Strings(filter(_is_shown, entries.names))
    else:
        matched = map(data_path, matches(data)) if isinstance(home, Path) else home.glob(pattern)
        names = sorted(relative(each, home) for each in matched if _is_data(each, home))
        links = set(names)
    if not names:
        reason = f"0 examples in it; {_expected(sources)}" if path is home else "0 examples: no such file or folder"
        raise BadInput(f"{data}: {reason}")
    return home, names, links, entries


def _noting_links(found: Iterator[tuple[str, bool]], links: set[str]) -> Iterator[str]:
    """Yields the names of files, and adds those that are links."""
    for name, is_link in found:
        if is_link:
            links.add(name)
        yield name


def _may_be_hidden(names: Strings) -> bool:
    """Whether sorted names may have hidden files or folders among them; decided without making each name."""
    inside = any(names.contains(part, 0, len(names)) for part in (b"/.", b"/_"))
    return inside or any(bisect_left(names, first) < bisect_left(names, chr(ord(first) + 1)) for first in "._")


def _is_shown(name: str) -> bool:
    """Whether neither a file nor a folder above it is hidden."""
    return not any(part.startswith((".", "_")) for part in name.split("/"))


def _expected(sources: Collection[str]) -> str:
    return f"expected {', '.join(map(name_of, sources or _SOURCES))}"


def _is_data(path: Place, home: Place) -> bool:
    """Whether a path is a file that is not hidden; remote folders are not listed, and asking takes one request each."""
    if isinstance(path, Path) and not path.is_file():
        return False
    return _is_shown(relative(path, home))


def _files_below(folder: str, prefix: str = "") -> Iterator[tuple[str, bool]]:
    """Yields the files below a local folder, and whether each is a link; skips hidden files and linked folders."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.name.startswith((".", "_")):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file():
                yield prefix + entry.name, entry.is_symlink()


def _inside(home: Place, names: Sequence[str], links: Collection[str]) -> Sequence[str]:
    """Returns the names that do not lead outside the folder; only `links` are checked, and object stores have none."""
    if not isinstance(home, Path) or not links:
        return names
    base = os.path.realpath(home)
    real_folder = lru_cache(maxsize=4096)(os.path.realpath)  # many files share a folder

    def leads_inside(name: str) -> bool:
        if name not in links:
            return True
        path = f"{home}/{name}"
        is_link = stat.S_ISLNK(os.lstat(path).st_mode)
        target = os.path.realpath(path) if is_link else real_folder(posixpath.dirname(path))
        return target == base or target.startswith(base.rstrip("/") + "/")

    return [name for name in names if leads_inside(name)]
