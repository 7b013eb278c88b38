"""Which source reads a file, folder or pattern of the user's: decided by the names of what stands there."""

import contextlib
import os
import posixpath
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from components.errors import BadInput, SettingsError
from components.storage.paths import place, split_pattern
from components.storage.remote_path import RemotePath


class Kind(NamedTuple):
    """A source, as people call it, and the ends of the names that it reads."""

    name: str
    ends: str


# One line a source. In these a file holds many records, …
ROW_SOURCES = {
    "components.ingest.sources.csv_rows:SOURCE": Kind("CSV", r"\.(csv|tsv)(\.gz)?"),
    "components.ingest.sources.jsonl_rows:SOURCE": Kind("JSON Lines", r"\.(jsonl|ndjson)(\.gz)?"),
    "components.ingest.sources.parquet_rows:SOURCE": Kind("Parquet", r"\.(parquet|pq)"),
    "components.ingest.sources.array_rows:SOURCE": Kind("NumPy arrays", r"\.(npz|npy)"),
    "components.ingest.sources.tfrecord_rows:SOURCE": Kind(
        "TFRecords", r"(\.tfrecords?|tfrecord-(s\d+-)?\d+-of-\d+)(\.gz)?"
    ),
}
# … and in these a file is a record, and its class is the folder it stands in.
FOLDER_SOURCES = {
    "components.ingest.sources.image_folder:SOURCE": Kind(
        "class folders of images", r"\.(jpe?g|png|gif|webp|bmp|tiff?)"
    ),
    "components.ingest.sources.text_folder:SOURCE": Kind("class folders of texts", r"\.(txt|text|md)"),
}
IMAGE_FOLDER, TEXT_FOLDER = FOLDER_SOURCES
ARRAYS = "components.ingest.sources.array_rows:SOURCE"
Place = Path | RemotePath


@dataclass(frozen=True)
class Located:
    """Where the data is and who reads it."""

    home: Place
    files: tuple[str, ...]  # relative to home; for a source of rows only
    source: str
    refused: tuple[str, ...] = ()  # links that lead out of the folder; a source of folders finds its own

    @property
    def is_folder(self) -> bool:
        """Whether a file is a record."""
        return self.source in FOLDER_SOURCES


def locate(data: str, sources: Collection[str] = ()) -> Located:
    """Finds out what `data` names: a file, a folder, or a pattern such as logs/*.csv.

    Args:
        data: what the user said.
        sources: the ones that can be used; none named: all of them.
    """
    home, names, links = _names(data, sources)
    inside = _inside(home, names, links)
    source, files = _source_of(data, inside or names, sources)
    if sources and source not in sources:
        raise BadInput(f"{data}: holds {name_of(source)}; {_expected(sources)}")
    if source in FOLDER_SOURCES:
        return Located(home, (), source)
    if not inside:
        raise BadInput(f"{data}: 0 examples: {names[0]} is a link that leads outside its folder")
    if source == ARRAYS:
        files = _with_label_files(home, files)
    outside = [name for name in names if name not in inside and _match(name, {source: ROW_SOURCES[source]})]
    return Located(home, tuple(files), source, tuple(outside))


def _with_label_files(home: Place, files: list[str]) -> list[str]:
    """Returns arrays with the label files beside them, which are read although the user may name the arrays alone."""
    from components.ingest.sources.array_files import labels_of

    labels = [relative(found, home) for name in files if (found := labels_of(home / name))]
    for name in set(labels).difference(_inside(home, labels, labels)):
        raise BadInput(
            f"{home / name}: label file is a symbolic link that leads outside the data folder; "
            "copy the file into the folder"
        )
    return sorted({*files, *labels})


def _source_of(data: str, names: list[str], sources: Collection[str]) -> tuple[str, list[str]]:
    """Returns who reads the data, and the files to hand over."""
    holds_rows = _end("|".join(f"({kind.ends})" for kind in ROW_SOURCES.values()))
    rowlike = {end for end in set(map(_tail, names)) if holds_rows.search(end)}
    rows = [name for name in names if _tail(name) in rowlike] if rowlike else []
    if not rows:
        return _folder_source(data, names, sources), names
    others = set(names) - set(rows)
    kinds = {_match(name, ROW_SOURCES) or "" for name in rows}
    if len(kinds) == 1 and all(_match(name, FOLDER_SOURCES) == IMAGE_FOLDER for name in others):
        return kinds.pop(), rows  # images beside a table are what its rows refer to
    shown = ", ".join(sorted({Path(name).suffix or name for name in names})[:5])
    raise SettingsError(f"{data}: files of several kinds ({shown}); name one kind by a pattern, such as '*.csv'")


def _folder_source(data: str, names: list[str], sources: Collection[str]) -> str:
    if not place(data).is_dir():
        raise BadInput(f"{data}: {names[0]} is of no known kind by its name; {_expected(sources)}")
    inside = {_match(end, FOLDER_SOURCES) for end in {_tail(name) for name in names if "/" in name}}
    # Images may have their captions beside them; what says nothing by its name is looked into as a image.
    return TEXT_FOLDER if TEXT_FOLDER in inside and IMAGE_FOLDER not in inside else IMAGE_FOLDER


def _names(data: str, sources: Collection[str]) -> tuple[Place, list[str], Collection[str]]:
    """Returns a folder, the names of what is meant in it, and those among them that may lead elsewhere."""
    path = place(data)
    if path.is_file():
        return path.parent, [path.name], [path.name]
    home, pattern = (path, "**/*") if path.is_dir() else split_pattern(data)
    if path is home and isinstance(home, Path):
        found = dict(_files_below(str(home)))
        names, links = sorted(found), {name for name, is_link in found.items() if is_link}
    else:
        names = sorted(relative(each, home) for each in home.glob(pattern) if _is_data(each, home))
        links = set(names)
    if not names:
        said = f"0 examples in it; {_expected(sources)}" if path is home else "0 examples: no such file or folder"
        raise BadInput(f"{data}: {said}")
    return home, names, links


def _expected(sources: Collection[str]) -> str:
    return f"expected {', '.join(map(name_of, sources or [*FOLDER_SOURCES, *ROW_SOURCES]))}"


def _tail(name: str) -> str:
    """Returns as much of a name as tells its kind: mostly the suffix, which many have in common."""
    dot = name.rfind(".")
    return name if dot < 0 or name[dot:].lower() == ".gz" else name[dot:]


def _match(name: str, sources: dict[str, Kind]) -> str | None:
    return next((ref for ref, kind in sources.items() if _end(kind.ends).search(name)), None)


@lru_cache(maxsize=64)
def _end(pattern: str) -> re.Pattern[str]:
    return re.compile(f"{pattern}$", re.IGNORECASE)


def name_of(source: str) -> str:
    """Returns what people call a source."""
    return {**ROW_SOURCES, **FOLDER_SOURCES}[source].name


def relative(path: Any, home: Any) -> str:
    """Returns a path as seen from a folder above, both of this machine or both at an address; itself is nothing."""
    return "" if path == home else path.relative_to(home).as_posix()


def _is_data(path: Place, home: Place) -> bool:
    """Whether a path is a file that could be read: hidden ones are not."""
    return path.is_file() and not any(part.startswith((".", "_")) for part in relative(path, home).split("/"))


def _files_below(folder: str, prefix: str = "") -> Iterator[tuple[str, bool]]:
    """Yields the files below a folder of this machine that could be read, and whether they are links.

    Hidden ones could not, nor what is below a link to a folder. Only links are asked.
    """
    with contextlib.suppress(PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith((".", "_")):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file():
                yield prefix + entry.name, entry.is_symlink()


def _inside(home: Place, names: list[str], links: Collection[str]) -> list[str]:
    """Returns the names that lead nowhere else, of which only some may; there are no links at an address."""
    if not isinstance(home, Path):
        return names
    base = os.path.realpath(home)
    real = lru_cache(maxsize=4096)(os.path.realpath)  # of folders, in each of which many files stand

    def leads_inside(name: str) -> bool:
        if name not in links:
            return True
        path = f"{home}/{name}"
        leads = os.path.realpath(path) if stat.S_ISLNK(os.lstat(path).st_mode) else real(posixpath.dirname(path))
        return leads == base or leads.startswith(base.rstrip("/") + "/")

    return [name for name in names if leads_inside(name)]
