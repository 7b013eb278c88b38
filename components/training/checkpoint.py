"""Checkpoints: one file with everything that a training needs to continue bit for bit.

    magic │ length of header │ header: JSON │ arrays: raw bytes, one after another │ SHA-256 of all before

    variables, plain state ─► copied ─► thread: written aside, fsync, rename ─► `checkpoint`

The file is replaced whole: after a kill at any moment it is the last complete one. Variables are stored by position,
because Keras's automatic names differ from process to process. Nothing is pickled.
"""

import hashlib
import json
import math
import os
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components import progress
from components.errors import NotFinite
from components.storage import durable

FILE = "checkpoint"
_MAGIC = b"penstock checkpoint 1\n"
_LENGTH = struct.Struct("<Q")
_DIGEST = hashlib.sha256().digest_size
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Checkpoint:
    """The content of one file."""

    header: Mapping[str, Any]
    arrays: tuple[Array, ...]

    @property
    def note(self) -> str:
        """Where training continues, and why it was interrupted."""
        cause, at = self.header["cause"], datetime.fromisoformat(self.header["at"])
        return f"resumed at {_place(self.header)} ({cause or 'killed or failed after the checkpoint'} at {at:%H:%M:%S})"


class Damaged(ValueError):
    """A file is not a complete checkpoint."""


class Checkpoints:
    """The checkpoint of one training: read at its start, and replaced while it runs.

    Args:
        folder: where the file is; None: nothing is saved and nothing is found.
        seconds: that may pass between two checkpoints within an epoch.
        writes: False: only found, because another worker writes it.
    """

    def __init__(self, folder: Path | None, seconds: float = math.inf, *, writes: bool = True) -> None:
        self._folder, self._seconds, self._writes = folder, seconds, writes
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None
        self._last, self._described, self._warned = time.monotonic(), "", False
        self.found = self._find()

    def _find(self) -> Checkpoint | None:
        if self._folder is None:
            return None
        try:
            if self._writes and self._folder.is_dir():
                durable.sweep(self._folder)
            found = read(self._folder / FILE)
        except FileNotFoundError:
            return None
        except (Damaged, OSError) as error:
            progress.warn(f"{error}; training starts from the beginning")
            return None
        self._described = _place(found.header)
        return found

    def release(self) -> None:
        """Frees the memory of the arrays that were found."""
        self.found = self.found and replace(self.found, arrays=())

    def is_due(self) -> bool:
        """Whether enough time has passed since the last one."""
        idle = self._writing is None or self._writing.done()
        return self._folder is not None and self._writes and idle and time.monotonic() >= self._last + self._seconds

    def save(
        self, header: Mapping[str, Any], weights: Iterable[Any], others: Iterable[Any], arrays: Iterable[Array] = ()
    ) -> None:
        """Copies variables and starts to write them; raises NotFinite if a weight is not finite.

        Args:
            header: plain values, with `epoch` and `step`.
            weights: variables of model and optimizer.
            others: variables of metrics, stored after them.
            arrays: that nobody changes any more, stored at the end.
        """
        if self._folder is None:
            return
        copies = [np.array(variable.numpy()) for variable in weights]
        if not all(map(_is_finite, copies)):
            raise NotFinite(f"a weight is not finite after {_place(header)}; {self.advice()}")
        copies += [np.array(variable.numpy()) for variable in others]
        if not self._writes:  # reading the variables was the part of this worker
            return
        self.wait()
        header = {**header, "at": datetime.now().astimezone().isoformat()}
        self._writing = self._writer.submit(self._write, self._folder / FILE, header, [*copies, *arrays])
        self._last = time.monotonic()

    def _write(self, file: Path, header: Mapping[str, Any], arrays: Sequence[Array]) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write(file, header, arrays)
            self._described = _place(header)
        except OSError as error:  # a checkpoint is a safety net: training goes on without it
            if not self._warned:
                progress.warn(f"no checkpoint was written, training goes on: {error}")
            self._warned = True

    def wait(self) -> None:
        """Waits until the file is on disk; raises what the writing thread raised."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def saved(self) -> str:
        """Returns what the last checkpoint holds, for the message of a stopped training; empty if there is none here.

        A worker that does not write it cannot know.
        """
        is_known = self._folder and self._writes and self._described
        return f"saved at {self._described}; run again to continue" if is_known else ""

    def advice(self) -> str:
        """Returns what to do about a training that diverged, and which checkpoint is left."""
        self.wait()
        left = (
            f"the last good checkpoint, of {self._described}, is {self._folder / FILE}"
            if (self._folder and self._described)
            else "no checkpoint was written before"
        )
        return f"no model was exported, and {left}. Lower train.learning_rate, or check the data for extreme values"

    def close(self) -> None:
        """Ends the thread, after the file that it may be writing."""
        self._writer.shutdown()


def write(file: Path, header: Mapping[str, Any], arrays: Iterable[Array]) -> None:
    """Writes a checkpoint whole or not at all."""
    arrays = [np.asarray(array, order="C") for array in arrays]
    described = {**header, "arrays": [[array.dtype.name, array.shape] for array in arrays]}
    text, digest = json.dumps(described).encode(), hashlib.sha256()  # orjson would turn NaN into null
    raw: list[Any] = [array.reshape(-1).view(np.uint8).data for array in arrays]
    with durable.publish_file(file) as temporary, temporary.open("wb") as stream:
        for part in (_MAGIC, _LENGTH.pack(len(text)), text, *raw):
            digest.update(part)
            stream.write(part)
        stream.write(digest.digest())


def read(file: Path) -> Checkpoint:
    """Reads a checkpoint; raises Damaged if it is not what was written."""
    content = file.read_bytes()
    body, digest = memoryview(content)[:-_DIGEST], content[-_DIGEST:]
    if not content.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        raise Damaged(f"{file}: damaged, its checksum does not match its content")
    (length,) = _LENGTH.unpack_from(body, len(_MAGIC))
    begin = len(_MAGIC) + _LENGTH.size
    header = json.loads(bytes(body[begin : begin + length]))
    return Checkpoint(header, tuple(_arrays(body[begin + length :], header["arrays"])))


def _arrays(body: memoryview, specs: Iterable[tuple[str, Sequence[int]]]) -> Iterator[Array]:
    offset = 0
    for name, shape in specs:
        dtype = tf.dtypes.as_dtype(name).as_numpy_dtype  # numpy alone does not know bfloat16
        count = math.prod(shape)
        yield np.frombuffer(body, dtype, count, offset).reshape(shape)
        offset += count * np.dtype(dtype).itemsize


def threads() -> list[int]:
    """Returns the number of threads within an operation and between operations; results depend on it."""
    config, cores = tf.config.threading, len(os.sched_getaffinity(0))
    return [
        config.get_intra_op_parallelism_threads() or int(os.environ.get("TF_NUM_INTRAOP_THREADS", "0")) or cores,
        config.get_inter_op_parallelism_threads() or int(os.environ.get("TF_NUM_INTEROP_THREADS", "0")) or cores,
    ]


def set_threads(wanted: Sequence[int]) -> None:
    """Sets the numbers of threads as they were; warns if TensorFlow has already started with others."""
    if (present := threads()) == list(wanted):
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(wanted[0])
        tf.config.threading.set_inter_op_parallelism_threads(wanted[1])
    except RuntimeError:
        progress.warn(
            f"training began with {wanted[0]} threads and continues with {present[0]}: "
            "the result may differ in the last bits from that of a training without interruption"
        )


def _is_finite(array: Array) -> bool:
    return not tf.dtypes.as_dtype(array.dtype).is_floating or bool(np.isfinite(array).all())


def _place(header: Mapping[str, Any]) -> str:
    return f"epoch {header['epoch'] + 1}, step {header['step']}"
