"""Decodes Parquet in a worker process.

    this process                            worker process
    file, rows and columns ───────────────► opens a local file itself
    bytes of a remote file ◄─ asks for ──── reads a remote file through this process: it runs without Beam
    batches                ◄─ yields ─────── decodes

A few of a thousand flipped bits do not make Arrow 10 raise: they crash the process, or corrupt its memory.
"""

import atexit
import contextlib
import io
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa

from components.errors import BadInput
from components.ingest import pool
from components.ingest.sources import parquet_file
from components.ingest.sources.rows import Range
from components.records.quarantine import printable
from components.storage.hashing import stat_key
from components.storage.paths import DataPath

_decoders = pool.Pool()
atexit.register(_decoders.close)
os.register_at_fork(after_in_child=_decoders.forget)


def start() -> None:
    """Starts a decoder that will be needed soon: importing Arrow takes it half a second."""
    _decoders.start(1)


def decode(path: DataPath, part: Range, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a range as the file has them."""
    with contextlib.closing(_Remote(path)) as remote, _decoders.lease() as worker:
        where = path.absolute() if isinstance(path, Path) else RemoteFile(str(path), remote.size())
        request = (where, part.start, part.stop, list(names))
        try:
            for batch in worker.call(f"{__name__}:decode_here", *request, answer=remote.read):
                yield _checked(batch)
        except pool.WorkerDied as died:
            raise BadInput(f"{printable(str(path))}: cannot be decoded: {_cause(died.code)}") from None
        except (pa.ArrowException, pool.WorkerFailed) as error:
            raise BadInput(
                f"{printable(str(path))}: cannot be decoded: {error}; the file may be damaged: write it again"
            ) from None


def _cause(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the decoder process was killed (SIGKILL), possibly out of memory; run again with more memory free"
    return f"the decoder process crashed (exit code {code}); the file may be damaged: write it again"


class _Remote:
    """Reads a remote file for the decoder."""

    def __init__(self, path: DataPath) -> None:
        self._path = path
        self._stream: BinaryIO | None = None

    def size(self) -> int:
        """Returns the size of the file in bytes."""
        with self._named():
            return self._path.stat().st_size

    def read(self, offset: int, length: int) -> bytes:
        """Returns some bytes of the file."""
        with self._named():
            self._stream = self._stream or self._path.open("rb")
            self._stream.seek(offset)
            return self._stream.read(length)

    def close(self) -> None:
        """Closes the file if it was opened."""
        if self._stream:
            self._stream.close()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BadInput(f"{printable(str(self._path))}: cannot be read: {error.strerror}") from error


def _checked(packed: bytes) -> pa.RecordBatch:
    batch = pa.ipc.open_stream(packed).read_next_batch()
    for column in batch.columns:
        _validate(column)
    return batch


def _validate(column: pa.Array) -> None:
    """Checks every offset before any is followed; strings that are not UTF-8 become bad rows later."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise


# What follows runs in the worker process.


@dataclass(frozen=True)
class RemoteFile:
    """A remote file, read through the process that started this worker."""

    address: str
    size: int

    def __str__(self) -> str:
        return self.address

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Opens it."""
        del mode
        return cast("BinaryIO", _RemoteStream(self.size))


class _RemoteStream(io.RawIOBase):
    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._position = size, 0

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        data: bytes = pool.ask(self._position, length) if length > 0 else b""
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def decode_here(where: Path | RemoteFile, start: int, stop: int, names: Sequence[str]) -> Iterator[bytes]:
    """Yields the rows from start to stop as Arrow IPC streams of one batch each."""
    try:
        with parquet_file.named(where):
            for batch in _opened.rows(where, start, stop, names).read(start, stop):
                yield _packed(batch)
    except BaseException:
        _opened.forget()
        raise


class _OpenFile(contextlib.ExitStack):
    """The file of the last request, with the rows that are still to come: ranges are usually asked for in order."""

    def __init__(self) -> None:
        super().__init__()
        self._key: tuple[object, ...] = ()
        self._rows: parquet_file.FileRows | None = None

    def rows(self, where: Path | RemoteFile, start: int, stop: int, names: Sequence[str]) -> parquet_file.FileRows:
        """Returns rows that begin at `start` or before."""
        key = (where, *names, stat_key(where.stat())) if isinstance(where, Path) else ()
        if self._rows is None or not key or key != self._key or not self._rows.has(start, stop):
            self.forget()
            self._rows = parquet_file.FileRows(self.enter_context(parquet_file.opened(where)), start, stop, names)
            self._key = key
        return self._rows

    def forget(self) -> None:
        """Closes the file."""
        self.close()
        self._rows = None


_opened = _OpenFile()


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
