"""A served model in memory, once per process: plain TensorFlow, nothing of ours but the names of its arguments.

    columns of a batch ─► signature raw, its weights as constants ─► probabilities [n, classes], or values [n]

Each operation runs in one thread, and several batches at once: so a result depends neither on the number of cores nor
on what else runs, and small operations, such as decoding one image, do not wait for a thread pool.
"""

import atexit
import contextlib
import logging
import math
import os
import re
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
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
_FROZEN_BYTES = 256 << 20  # of weights: freezing copies them several times, and a graph holds 2 GB
# What else is in TensorFlow's errors: nodes, functions, which each process numbers in its own way, and lines of code.
_NODES = re.compile(r"\{\{.*?\}\}|\[Op:.*?\]")
_TRACE = ("[[", 'File "', "<stack traces", "Detected at node", "Graph execution error")
_log = logging.getLogger(__name__)
_lock = threading.Lock()
_loaded: dict[str, "LoadedModel"] = {}
atexit.register(_loaded.clear)  # TensorFlow prints errors if its functions are deleted after its own modules


class RejectedByModel(Exception):
    """TensorFlow cannot predict a batch; the message is the reason."""


@dataclass(frozen=True)
class LoadedModel:
    """A model that predicts batches; threads may share it."""

    function: Callable[[Mapping[str, Any]], Any]
    dtypes: Mapping[str, Any]  # of the arguments
    keep: Any = None  # TensorFlow frees a model's variables and tables with the object that was loaded

    def predict(self, columns: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        """Returns what the model predicts for arrays by argument; raises RejectedByModel if it cannot."""
        import tensorflow as tf

        try:
            values = {name: tf.constant(column, self.dtypes[name]) for name, column in columns.items()}
            return self.function(values).numpy()
        except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError, tf.errors.UnimplementedError) as error:
            raise RejectedByModel(_reason(error.message)) from error


def _reason(message: str) -> str:
    """Returns TensorFlow's message as one line, without the nodes, functions and lines of code that it names."""
    lines = [line for line in _NODES.sub("", message).splitlines() if not line.strip().startswith(_TRACE)]
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
    dtypes = {name: spec.dtype for name, spec in found.items()}
    if not any(argument.role == "image" for argument in reading.arguments):
        return LoadedModel(lambda values: concrete(**values), dtypes, model)
    return LoadedModel(_frozen(concrete) or (lambda values: concrete(**values)), dtypes, model)


def _frozen(concrete: Any) -> Callable[[Mapping[str, Any]], Any] | None:
    """Returns the function with its weights as constants; None if they are too large, or if TensorFlow cannot do it.

    TensorFlow then folds batch normalization into convolutions and fuses more operations: docs/adr/0059.
    """
    from tensorflow.python.framework import convert_to_constants  # no public name; TensorFlow's converters use it

    if sum(math.prod(each.shape) * each.dtype.size for each in concrete.variables) > _FROZEN_BYTES:
        return None
    try:
        frozen = convert_to_constants.convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    except Exception as error:  # noqa: BLE001 - it has no list of its errors, and the model can do without it
        _log.warning("the weights of the model were not made constants, so it is slower: %s", error)
        return None
    # What cannot become a constant, such as a lookup table, is one more argument.
    captured = concrete.captured_inputs
    kept = {each.name: value for each, value in zip(reversed(concrete.inputs), reversed(captured), strict=False)}
    names = [each.name for each in frozen.inputs]

    def of_constants(values: Mapping[str, Any]) -> Any:
        (result,) = frozen(*(kept[name] if name in kept else values[name.partition(":")[0]] for name in names))
        return result

    return of_constants


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
