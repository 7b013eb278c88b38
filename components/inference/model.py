"""A served model in memory, once per process: plain TensorFlow, nothing of ours but the names of its arguments.

    columns of a batch ─► signature raw ─► probabilities [n, classes], or values [n]

Each operation runs in one thread, and several batches at once: so a result depends neither on the number of cores nor
on what else runs, and small operations, such as decoding one image, do not wait for a thread pool.
"""

import atexit
import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.errors import PenstockError, SettingsError
from components.records.roles import MISSING
from components.serving import versions
from components.serving.reading import Argument, Reading
from components.storage import transfers
from components.storage.location import location
from components.storage.objects import ObjectPath

SIGNATURE = "raw"
_OUTPUTS = {"class": "probabilities", "quantity": "value"}
_DOWNLOADS = 8  # files at once
_MESSAGE = 300  # characters of TensorFlow's error
_NODES = re.compile(r"\{\{.*?\}\}|\[Op:.*?\]")  # functions in it, which each process numbers in its own way
_lock = threading.Lock()
_loaded: dict[str, "LoadedModel"] = {}
atexit.register(_loaded.clear)  # TensorFlow prints errors if its functions are deleted after its own modules


class RejectedByModel(Exception):
    """TensorFlow cannot predict a batch; the message is the reason."""


@dataclass(frozen=True)
class LoadedModel:
    """A model that predicts batches; threads may share it."""

    function: Any
    dtypes: Mapping[str, Any]  # of the arguments
    keep: Any = None  # TensorFlow frees a model's variables with the object that was loaded

    def predict(self, columns: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        """Returns what the model predicts for arrays by argument; raises RejectedByModel if it cannot."""
        import tensorflow as tf

        try:
            values = {name: tf.constant(column, self.dtypes[name]) for name, column in columns.items()}
            return self.function(**values).numpy()
        except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError, tf.errors.UnimplementedError) as error:
            raise RejectedByModel(_reason(error.message)) from error


def _reason(message: str) -> str:
    """Returns TensorFlow's message as one line, without the nodes and functions that it names."""
    lines = [line for line in _NODES.sub("", message).splitlines() if not line.strip().startswith("[[")]
    return " ".join(" ".join(lines).split())[:_MESSAGE]


def load(path: str, digest: str, reading: Reading) -> LoadedModel:
    """Returns the model in a folder, which this process loads once; raises PenstockError if it has changed."""
    with _lock:
        if digest not in _loaded:
            _loaded.clear()
            _loaded[digest] = _load(path, digest, reading)
        return _loaded[digest]


def values_of(column: pa.Array, argument: Argument) -> Any:
    """Returns a column of a batch as the argument of the signature; missing values as training represents them."""
    if argument.kind == "float":
        return column.to_numpy(zero_copy_only=False).astype(np.float32)
    if argument.kind in ("int", "bool"):
        return column.cast(pa.int64()).fill_null(int(MISSING["int64"])).to_numpy(zero_copy_only=False)
    return column.cast(pa.binary()).fill_null(b"").to_numpy(zero_copy_only=False)


def _load(path: str, digest: str, reading: Reading) -> LoadedModel:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):  # this process has used TensorFlow before
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(os.cpu_count() or 1)
    with _local_copy(path) as folder:
        if versions.digest_of(Path(folder)) != digest:
            raise PenstockError(f"model {path}: its files changed after it was found; run again")
        try:
            model = tf.saved_model.load(folder)
        except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
            raise SettingsError(
                f"model {path}: TensorFlow cannot load it: {str(error)[:_MESSAGE]}; it is damaged, or it was exported "
                "by another version of TensorFlow: export it again"
            ) from error
    signature = model.signatures.get(SIGNATURE)
    wanted = [argument.name for argument in reading.arguments]
    found = dict(signature.structured_input_signature[1]) if signature is not None else {}
    if sorted(found) != sorted(wanted) or _OUTPUTS[reading.kind] not in signature.structured_outputs:
        raise SettingsError(
            f"model {path}: expected the signature {SIGNATURE} with the arguments {', '.join(wanted)}; it has "
            f"{_described(model.signatures)}; export the model again with this version of Penstock"
        )
    output = _OUTPUTS[reading.kind]
    # Only one output: TensorFlow then leaves out the class names, which the signature repeats for every record.
    function = tf.function(lambda **values: signature(**values)[output], autograph=False)
    specs = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in found.items()}
    concrete = function.get_concrete_function(**specs)
    return LoadedModel(concrete, {name: spec.dtype for name, spec in found.items()}, model)


def _described(signatures: Mapping[str, Any]) -> str:
    found = [
        f"{name} ({', '.join(sorted(signatures[name].structured_input_signature[1]))})" for name in sorted(signatures)
    ]
    return ", ".join(found) or "no signature"


@contextlib.contextmanager
def _local_copy(path: str) -> Any:
    """Yields a local folder with the files of a model: plain TensorFlow reads no object store."""
    place = location(path)
    if isinstance(place, Path):
        yield str(place)
        return
    with tempfile.TemporaryDirectory(prefix="penstock-model-") as folder:
        _download(place, Path(folder))
        yield folder


def _download(place: ObjectPath, folder: Path) -> None:
    names: Sequence[str] = sorted(place.files_below())
    if not names:
        raise PenstockError(f"model {place}: it was deleted while it was used; run again")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    transfers.each(lambda name: (place / name).download(folder / name), names, _DOWNLOADS)
