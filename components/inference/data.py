"""The data to predict: a table, or a folder of files that are one record each, with or without labels.

DATA ─► spans ─┬─ rows ──────────► files, and which column is which argument (columns.py)
               └─ images, texts ─► every file below, whatever its folder; the folder is the label if it names a class
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from components.errors import BadInput
from components.ingest.sources import class_folders
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
_SPECIAL = "not a regular file"


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
        for name, fault in _listed(home, pattern):
            if name.rpartition("/")[2].startswith("."):
                ignored += 1
            elif fault and (_is_data(name, argument) or _is_folder(home, name)):
                quarantined.append(Quarantined(printable(prefix + name), fault))
            elif not _is_data(name, argument):
                ignored += 1
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


def _is_folder(home: Place, name: str) -> bool:
    return (home / name).is_dir()


def _home(data: str) -> tuple[Place, str]:
    """Returns a folder and the pattern of the names in it; an empty one for all."""
    if "*" not in data and "?" not in data:
        path = paths.data_path(data)
        if path.is_dir():
            return path, ""
    return paths.split_pattern(data)


def _listed(home: Place, pattern: str) -> Iterator[tuple[str, str | None]]:
    """Yields everything below a folder in order, a hidden or linked folder as one, and why it must not be opened."""
    if isinstance(home, Path):
        try:
            yield from _matched(home, pattern) if pattern else _walked(home)
        except OSError as error:
            raise BadInput(f"{error.filename}: cannot be listed: {error.strerror}; check its permissions") from error
        return
    found = home.files_below() if not pattern else (detect.relative(each, home) for each in home.glob(pattern))
    for name in sorted(set(map(class_folders.to_hidden, found))):
        yield name, None


def _walked(home: Path) -> Iterator[tuple[str, str | None]]:
    real = home.resolve()
    for name, entry in class_folders.walk(str(home), ""):
        if entry.is_symlink():
            yield name, class_folders.link_fault(Path(entry.path), real)
        else:
            yield name, None if entry.is_file(follow_symlinks=False) else _SPECIAL


def _matched(home: Path, pattern: str) -> Iterator[tuple[str, str | None]]:
    """Yields the files that match; unlike a folder that is walked, a pattern leads into linked folders."""
    real = home.resolve()
    is_inside = lru_cache(maxsize=4096)(lambda folder: real in (folder.resolve() / "file").parents)  # many share one
    found = (path for path in map(Path, paths.matches(f"{home}/{pattern}")) if not path.is_dir())
    for path in sorted(found, key=lambda each: each.parts):
        name = path.relative_to(home).as_posix()
        if path.is_symlink() or not is_inside(path.parent):
            yield name, class_folders.link_fault(path, real)
        else:
            yield name, None if path.is_file() else _SPECIAL


def _prefix(home: Place, base: Place) -> str:
    return f"{detect.relative(home, base)}/".lstrip("/")
