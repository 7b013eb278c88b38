"""Which source reads a file, folder or pattern of the user's: decided by the names of what stands there."""

import re
from dataclasses import dataclass
from pathlib import Path

from components.errors import BadInput, SettingsError

# One line a source of rows: its reference, and the ends of the names that it reads.
ROW_SOURCES = {
    "components.ingest.sources.csv_rows:SOURCE": r"\.(csv|tsv)(\.gz)?",
    "components.ingest.sources.jsonl_rows:SOURCE": r"\.(jsonl|ndjson)(\.gz)?",
    "components.ingest.sources.parquet_rows:SOURCE": r"\.(parquet|pq)",
    "components.ingest.sources.array_rows:SOURCE": r"\.(npz|npy)",
    "components.ingest.sources.tfrecord_rows:SOURCE": r"(\.tfrecords?|tfrecord-\d+-of-\d+)(\.gz)?",
}
IMAGE_FOLDER = "components.ingest.sources.image_folder:SOURCE"
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Located:
    """Where the data is and who reads it."""

    home: Path
    files: tuple[str, ...]  # relative to home; for a source of rows only
    source: str


def locate(data: str) -> Located:
    """Finds out what `data` names: a file, a folder, or a pattern such as logs/*.csv."""
    home, names = _names(data)
    kinds = {_row_source(name) for name in names}
    if kinds == {None} and Path(data).is_dir():
        return Located(home, (), IMAGE_FOLDER)
    if kinds == {None}:
        known = "CSV, TSV, JSONL, Parquet, npz, npy or TFRecord, or a folder of class folders with images"
        raise BadInput(f"{data}: {names[0]} is of no known kind; expected {known}")
    if len(kinds) > 1:
        shown = ", ".join(sorted({Path(name).suffix or name for name in names})[:5])
        raise SettingsError(f"{data}: files of several kinds ({shown}); name one kind by a pattern, such as '*.csv'")
    (source,) = kinds
    return Located(home, tuple(names), source or IMAGE_FOLDER)


def _names(data: str) -> tuple[Path, list[str]]:
    path = Path(data)
    if path.is_file():
        return path.parent, [path.name]
    home, pattern = (path, "**/*") if path.is_dir() else _split_pattern(path)
    names = sorted(found.relative_to(home).as_posix() for found in home.glob(pattern) if _is_data(found, home))
    if not names:
        raise BadInput(f"{data}: 0 examples: no such file or folder, or nothing in it that could be data")
    return home, names


def _split_pattern(path: Path) -> tuple[Path, str]:
    """Returns the folder before the first wildcard, and the pattern from there on."""
    for index, part in enumerate(path.parts):
        if _WILD.search(part):
            return Path(*path.parts[:index]), "/".join(path.parts[index:])
    return path.parent, path.name


def _row_source(name: str) -> str | None:
    return next((ref for ref, end in ROW_SOURCES.items() if re.search(f"{end}$", name, re.IGNORECASE)), None)


def _is_data(path: Path, home: Path) -> bool:
    """Whether a path is a file to read: hidden ones are not, nor links that lead out of the folder."""
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(home).parts)
    return path.is_file() and not hidden and home.resolve() in path.resolve().parents
