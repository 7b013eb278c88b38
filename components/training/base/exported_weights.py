"""Weights of an exported model by name: read from its checkpoint, without loading or running its graph.

variables/                the checkpoint: every weight once, under its layer's path
assets.extra/weights.json names of the rows or columns of a weight: tokens, values, classes
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import tensorflow as tf

from components.errors import BadInput
from components.models.names import AxisNames
from components.pretrained.artifacts import WEIGHTS
from components.storage.hashing import digest_of
from components.training.base.base_model import ADVICE, VARIABLES

# Keys of the attribute `weights` of the exported module, which has the weights by path. The graph of the objects, a
# string, would say the same; but a crafted string may claim any length, and TensorFlow allocates it before it reads.
_KEY = re.compile(r"weights/(.+)/\.ATTRIBUTES/VARIABLE_VALUE")
_ESCAPED = re.compile(r"\.(.)")  # TensorFlow writes / as .S and . as ..


class ExportedWeights:
    """The weights of an exported model."""

    def __init__(self, folder: Path) -> None:
        """Opens the checkpoint; raises BadInput if it cannot be read."""
        self._folder = folder
        try:
            stored = orjson.loads((folder / WEIGHTS).read_bytes())
            self.pretrained: str = stored["pretrained"]  # digest of its pretrained model, or empty
            self.splits: str = stored.get("splits", "")  # digest of the settings that decided its splits
            self.names = {path: _axis_names(*each) for path, each in stored["names"].items()}
            self._reader = tf.train.load_checkpoint(str(folder / VARIABLES))
            shapes, self._dtypes = self._reader.get_variable_to_shape_map(), self._reader.get_variable_to_dtype_map()
            self._keys = {_path(found[1]): found[0] for found in map(_KEY.fullmatch, shapes) if found}
            self.shapes = {path: tuple(shapes[key]) for path, key in self._keys.items()}
            self._size = sum(file.stat().st_size for file in (folder / VARIABLES).parent.iterdir())
        except Exception as error:  # a crafted or damaged file can fail in any way
            raise BadInput(f"base model {folder}: its weights cannot be read: {error!r:.300}; {ADVICE}") from error

    def read(self, path: str, dtype: str) -> Any:
        """Returns a weight as an array; raises BadInput if it is damaged."""
        # A crafted file may claim any type and shape: TensorFlow would allocate it before it reads.
        if self._dtypes[self._keys[path]] != dtype:
            raise self._bad(path, f"expected values of {dtype}")
        if np.prod(self.shapes[path], dtype=float) * np.dtype(dtype).itemsize > self._size:
            raise self._bad(path, f"shape {self.shapes[path]} is larger than the file")
        try:
            found = self._reader.get_tensor(self._keys[path])
        except (ValueError, RuntimeError, tf.errors.OpError) as error:
            raise self._bad(path, str(error)) from error
        if not np.isfinite(found).all():
            raise self._bad(path, f"expected finite values of {dtype}")
        return found

    def _bad(self, path: str, reason: str) -> BadInput:
        return BadInput(f"base model {self._folder}: weight {path} cannot be read: {reason:.300}; {ADVICE}")


def write_names(folder: Path, names: Mapping[str, AxisNames], pretrained: str, splits: Mapping[str, Any]) -> None:
    """Writes the names of the rows or columns of an exported model's weights beside its checkpoint.

    Args:
        folder: of the exported model.
        names: by weight path.
        pretrained: digest of its pretrained model, or empty.
        splits: settings that decided the split of each record.
    """
    (folder / WEIGHTS).parent.mkdir(exist_ok=True)
    axes = {path: [each.axis, each.names] for path, each in names.items()}
    content = {"pretrained": pretrained, "splits": digest_of_splits(splits), "names": axes}
    (folder / WEIGHTS).write_bytes(orjson.dumps(content))


def digest_of_splits(splits: Mapping[str, Any]) -> str:
    """Returns a digest of the settings that decide the split of a record."""
    return digest_of([orjson.dumps(splits, option=orjson.OPT_SORT_KEYS).decode()])


def _axis_names(axis: int, names: Iterable[Any]) -> AxisNames:
    found = AxisNames(axis, tuple(tuple(name) if isinstance(name, list) else name for name in names))
    hash(found)  # raises TypeError now and not when names are compared
    return found


def _path(escaped: str) -> str:
    """Returns the weight's path in a key of the checkpoint."""
    return _ESCAPED.sub(lambda found: "/" if found[1] == "S" else found[1], escaped)
