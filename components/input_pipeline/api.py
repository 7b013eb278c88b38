"""Ways in for a loop of one's own: artifacts of ingest, TFRecords of anybody, arrays, class folders.

    read(artifact, split)            what `penstock ingest` or a run wrote; columns, label and classes are found out
    from_records(paths, features)    TFRecord files of another program
    from_arrays(columns, labels)     what is in memory
    from_folders(folder)             one folder of images a class, as they lie there

Each returns a tf.data.Dataset of (values by name, labels). For training every pass over it is another epoch: shuffled
and varied anew, yet the same in every run; without training it is in stored order and unaltered. Every setting of the
section `input` may be given by its name: `read(…, batch_size=32, image_size=64, cache="memory")`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image

from components.errors import BadInput
from components.features import Feature
from components.features.image import ImageFeature
from components.features.tensor import TensorFeature
from components.input_pipeline import artifacts, source
from components.input_pipeline.reader import Reader, Records
from components.input_pipeline.sharding import RecordFile, Worker
from components.records.tfrecord_walk import count_records
from components.settings.input import Input
from components.settings.section import checked

_ALONE = Worker()
_IMAGES = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
_MEASURED = 100  # images whose sides are looked at


def read(
    artifact: str | Path,
    split: str = "train",
    *,
    features: Mapping[str, Feature] | None = None,
    label: str = "label",
    training: bool | None = None,
    seed: int = 0,
    worker: Worker = _ALONE,
    **settings: Any,
) -> tf.data.Dataset:
    """Reads a split of an artifact.

    Args:
        artifact: A folder with `manifest.json` in it.
        split: Which of its splits.
        features: The columns that are wanted and how they are decoded; none given: all, as far as they tell.
        label: The label's column; if the records lack it, batches are values alone.
        training: Whether to shuffle and vary; none given: for the split `train` only.
        seed: Decides about order and variation.
        worker: Which part of the records, where several read.
        settings: Those of the section `input`.

    Returns:
        Batches of (values by name, labels); names of classes are numbered in their order (`classes`).

    Raises:
        BadInput: There is no such artifact, split or record.
        SettingsError: A setting is unknown, out of range, or too large for its budget.
    """
    home, chosen = Path(artifact), _settings(settings)
    files = artifacts.shards(home, split)
    found = artifacts.describe(home, chosen, label)
    reader = Reader(
        features or found.features,
        found.label,
        found.label_number(),
        chosen,
        seed,
        len(found.classes),
        found.label_type,
        artifacts.record_id(home),
    )
    return _data(reader, files, split == "train" if training is None else training, worker)


def classes(artifact: str | Path) -> tuple[str, ...]:
    """Returns the names of an artifact's classes, in the order of their numbers."""
    return artifacts.describe(Path(artifact), Input()).classes


def from_records(
    paths: Sequence[str | Path],
    features: Mapping[str, Feature],
    *,
    label: str = "",
    label_type: str = "int64",
    label_number: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
    training: bool = True,
    seed: int = 0,
    worker: Worker = _ALONE,
    **settings: Any,
) -> tf.data.Dataset:
    """Reads TFRecord files of tf.Example, plain or `.gz`, whoever wrote them; their records are counted first."""
    found = [Path(path) for path in paths]
    files = [RecordFile(path, count_records(path), path.stat().st_size) for path in found]
    if not sum(file.records for file in files):
        raise BadInput(f"0 examples in {len(files)} files")
    reader = Reader(features, label, label_number, _settings(settings), seed, label_type=label_type)
    return _data(reader, files, training, worker)


def from_arrays(
    columns: Mapping[str, Any],
    labels: Any = None,
    *,
    features: Mapping[str, Feature] | None = None,
    training: bool = True,
    seed: int = 0,
    worker: Worker = _ALONE,
    **settings: Any,
) -> tf.data.Dataset:
    """Reads arrays of one length; without features each row is handed on as it is."""
    held = {key: np.asarray(column) for key, column in columns.items()}
    named = "" if labels is None else "label"
    numbers, names = _numbered(labels) if named else (None, ())
    rows = source.arrays({**held, **({named: numbers} if named else {})})
    chosen = features or {key: TensorFeature(column.shape[1:], column.dtype.name) for key, column in held.items()}
    reader = Reader(chosen, named, tf.identity, _settings(settings), seed, len(names))
    return _data(reader, rows, training, worker)


def from_folders(
    folder: str | Path, *, training: bool = True, seed: int = 0, worker: Worker = _ALONE, **settings: Any
) -> tf.data.Dataset:
    """Reads class folders of JPEG, PNG, GIF and BMP as they lie there: nothing is checked, turned or split."""
    home, chosen = Path(folder), _settings(settings)
    names = sorted(child.name for child in home.iterdir() if child.is_dir() and not child.name.startswith("."))
    files = [
        (path, number)
        for number, name in enumerate(names)
        for path in sorted((home / name).rglob("*"))
        if path.suffix.lower() in _IMAGES and path.is_file()
    ]
    if not files:
        raise BadInput(f"{home}: 0 images in it; expected folders of classes with {', '.join(_IMAGES)} files")
    rows = source.files("image", [path for path, _ in files], {"label": [number for _, number in files]})
    feature = ImageFeature.of(chosen, _Sides([path for path, _ in files[:: max(1, len(files) // _MEASURED)]]))
    reader = Reader({"image": feature}, "label", tf.identity, chosen, seed, len(names))
    return _data(reader, rows, training, worker)


def _data(reader: Reader, records: Records, training: bool, worker: Worker) -> tf.data.Dataset:
    return reader.passes(records, worker) if training else reader.evaluation(records, worker)


def _settings(given: Mapping[str, Any]) -> Input:
    return checked(Input, given, "input")


def _numbered(labels: Any) -> tuple[Any, Sequence[Any]]:
    """Returns labels as numbers, and the classes they stand for: names are numbered in their order."""
    held = np.asarray(labels)
    if held.dtype.kind in "fc":
        return held, ()
    if held.dtype.kind in "iub":
        return held.astype(np.int64), range(int(held.max()) + 1)
    names, numbers = np.unique(held, return_inverse=True)
    return numbers.astype(np.int64), names.tolist()


class _Sides:
    """The sizes of some images."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    @property
    def median_side(self) -> int:
        """Shorter side of a image in pixels, from the headers."""
        return int(np.median([_side(path) for path in self._paths]))


def _side(path: Path) -> int:
    with Image.open(path) as image:
        return min(image.size)
