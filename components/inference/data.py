"""The data to predict: a table, or a folder of files that are one record each, with or without labels.

DATA ─► spans ─┬─ rows ──────────► files, and which column is which argument (columns.py)
               └─ images, texts ─► every file below, whatever its folder; the folder is the label if it names a class
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from components.errors import BadInput
from components.ingest.sources.class_folders import IMAGE_SUFFIXES, TEXT_SUFFIXES
from components.ingest.survey import detect, spans
from components.ingest.survey.detect import Place
from components.records.quarantine import Quarantined, printable
from components.serving.reading import Argument, Reading
from components.settings.ingest import Ingest
from components.storage import paths

if TYPE_CHECKING:
    from components.inference.columns import Columns

_SUFFIXES = {"image": IMAGE_SUFFIXES, "text": TEXT_SUFFIXES}
_LINK = "symbolic link that leads outside the data folder, or to nothing"


@dataclass(frozen=True)
class SpanData:
    """The files of one span, or of all data without spans."""

    home: Place
    names: tuple[str, ...]  # relative to home
    prefix: str = ""  # of the names in predictions, if there are several spans


@dataclass(frozen=True)
class Data:
    """Everything that will be predicted."""

    data: str
    source: str  # for people, such as CSV
    spans: tuple[SpanData, ...]
    columns: "Columns | None" = None  # None: a file is a record
    quarantined: tuple[Quarantined, ...] = ()  # files that are not opened
    ignored: int = 0  # files that are no data

    @property
    def files(self) -> int:
        """Number of files that will be read."""
        return sum(len(each.names) for each in self.spans)


def find(data: str, reading: Reading, settings: Ingest, given: Mapping[str, object]) -> Data:
    """Finds the files and columns of the data; reads only the first rows of tables.

    Args:
        data: path or pattern from the user.
        reading: what the model knows.
        settings: of ingest, those of the model included.
        given: settings of ingest that the user has set for this data.
    """
    found = spans.find(data, settings.spans, paths.matches)
    file = file_argument(reading)
    if file is not None and all(_holds_files(each.data, file) for each in found):
        return _files(data, [each.data for each in found], file)
    located = [detect.locate(each.data) for each in found]
    if any(each.is_folder for each in located):
        needs = ", ".join(f"{each.column} ({each.role})" for each in reading.arguments)
        raise BadInput(
            f"{data}: holds {detect.name_of(located[0].source)}, but the model reads {needs}; expected a table (CSV, "
            "JSON Lines, Parquet, NumPy arrays or TFRecords) with these columns"
        )
    if len({each.source for each in located}) > 1:
        raise BadInput(f"{data}: its spans have different formats; all spans must have the same one")
    from components.inference import columns

    base = paths.common_folder([each.home for each in located])
    return Data(
        data,
        detect.name_of(located[0].source),
        tuple(SpanData(each.home, each.files, _prefix(each.home, base)) for each in located),
        columns.of_table(located, reading, settings, given),
        tuple(Quarantined(printable(name), _LINK) for each in located for name in each.links_outside),
    )


def file_argument(reading: Reading) -> Argument | None:
    """Returns the argument of a model that reads one image or one text and nothing else; None of any other model."""
    only = reading.arguments[0]
    return only if len(reading.arguments) == 1 and only.role in _SUFFIXES else None


def stats(found: Data) -> list[object]:
    """Returns what identifies the state of the files of a table: it must not change while they are read."""
    return [
        (stat.st_size, stat.st_mtime_ns, getattr(stat, "identity", ""))
        for span in found.spans
        for stat in paths.stats(span.home, span.names)
    ]


def _holds_files(data: str, argument: Argument) -> bool:
    """Whether the data is a folder without tables, or a file or pattern that names images or texts."""
    if _is_data(data, argument):
        return True
    place = paths.data_path(data) if "*" not in data and "?" not in data else None
    return place is not None and place.is_dir() and detect.locate(data).is_folder


def _files(data: str, places: Sequence[str], argument: Argument) -> Data:
    homes = [_home(place) for place in places]
    base = paths.common_folder([home for home, _ in homes])
    parts, quarantined, ignored = [], list[Quarantined](), 0
    for home, pattern in homes:
        prefix, names = _prefix(home, base), list[str]()
        for name, is_outside in _listed(home, pattern):
            if not _is_data(name, argument):
                ignored += 1
            elif is_outside:
                quarantined.append(Quarantined(printable(prefix + name), _LINK))
            else:
                names.append(name)
        parts.append(SpanData(home, tuple(names), prefix))
    if not any(part.names for part in parts) and not quarantined:
        wanted = ", ".join(sorted(_SUFFIXES[argument.role]))
        raise BadInput(
            f"{data}: 0 examples in it: no file with an extension of the model's input ({argument.role}); expected "
            f"files whose names end in {wanted}"
        )
    noun = "images" if argument.role == "image" else "texts"
    return Data(data, f"files of {noun}", tuple(parts), None, tuple(quarantined), ignored)


def _is_data(name: str, argument: Argument) -> bool:
    return PurePosixPath(name).suffix.lower() in _SUFFIXES[argument.role]


def _home(data: str) -> tuple[Place, str]:
    """Returns a folder and the pattern of the names in it; an empty one for all."""
    if "*" not in data and "?" not in data:
        path = paths.data_path(data)
        if path.is_dir():
            return path, ""
    return paths.split_pattern(data)


def _listed(home: Place, pattern: str) -> Iterator[tuple[str, bool]]:
    """Yields the names of all files below a folder in order, and whether each leads outside; not hidden ones."""
    if isinstance(home, Path):
        found = dict(_local(home, pattern))
    else:
        listed = home.files_below() if not pattern else (detect.relative(each, home) for each in home.glob(pattern))
        found = dict.fromkeys(listed, False)
    for name in sorted(found, key=lambda each: each.split("/")):
        if not any(part.startswith(".") for part in name.split("/")):
            yield name, found[name]


def _local(home: Path, pattern: str) -> Iterator[tuple[str, bool]]:
    real = os.path.realpath(home)
    if pattern:
        for path in map(Path, paths.matches(f"{home}/{pattern}")):
            if not path.is_dir():
                yield path.relative_to(home).as_posix(), path.is_symlink() and not _is_inside(str(path), real)
        return
    for parent, folders, names in os.walk(home, onerror=_cannot_list):
        folders[:] = [name for name in folders if not name.startswith(".") and not os.path.islink(f"{parent}/{name}")]  # noqa: PTH114
        prefix = "" if parent == str(home) else f"{parent[len(str(home)) :].lstrip('/')}/"
        for name in names:
            full = f"{parent}/{name}"
            yield prefix + name, os.path.islink(full) and not _is_inside(full, real)  # noqa: PTH114 - faster


def _cannot_list(error: OSError) -> None:
    raise BadInput(f"{error.filename}: cannot be listed: {error.strerror}; check its permissions") from error


def _is_inside(path: str, real: str) -> bool:
    target = os.path.realpath(path)
    return target.startswith(real.rstrip("/") + "/") and os.path.isfile(target)  # noqa: PTH113


def _prefix(home: Place, base: Place) -> str:
    return f"{detect.relative(home, base)}/".lstrip("/")
