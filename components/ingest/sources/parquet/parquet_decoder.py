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
import re
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from components.ingest import pool
from components.ingest.sources.conversion import is_list, is_text
from components.ingest.sources.parquet import parquet_file
from components.ingest.sources.rows import Range, bad_file, too_large
from components.storage.hashing import stat_key
from components.storage.paths import DataPath

# Memory of the decoder: for any file, for the page and the dictionary of a column, and for copies of a row.
_DECODING, _COLUMN, _COPIES = 256 << 20, 8 << 20, 6
_allowed = 0  # bytes that the decoder had when it started

_decoders = pool.Pool()
atexit.register(_decoders.close)
os.register_at_fork(after_in_child=_decoders.forget)


def start() -> None:
    """Starts a decoder that will be needed soon: importing Arrow takes it half a second."""
    _decoders.start(1)


def decode(path: DataPath, part: Range, names: Sequence[str], max_row: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a range as the file has them; a row of more than `max_row` bytes raises BadInput."""
    try:
        with _opened_for(path) as (where, read), _decoders.lease() as worker:
            request = (where, part.start, part.stop, list(names), max_row)
            for batch in worker.call(f"{__name__}:decode_here", *request, answer=read):
                yield _checked(batch)
    except pool.WorkerDied as died:
        raise bad_file(path, f"cannot be decoded: {_cause(died.code)}") from None
    except (pa.ArrowException, pool.WorkerFailed) as error:
        raise bad_file(path, f"cannot be decoded: {error}; the file may be damaged: write it again") from None
    except TimeoutError:  # the store is away: the file is not bad
        raise
    except OSError as error:
        raise bad_file(path, f"cannot be read: {error.strerror}") from error


def _cause(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the decoder process was killed (SIGKILL), possibly out of memory; run again with more memory free"
    return f"the decoder process crashed (exit code {code}); the file may be damaged: write it again"


@contextlib.contextmanager
def _opened_for(path: DataPath) -> "Iterator[tuple[Path | RemoteFile, Callable[[int, int], bytes] | None]]":
    """Yields what the decoder opens, and a function that reads bytes of a remote file for it."""
    if isinstance(path, Path):
        yield path.absolute(), None
        return
    with path.open("rb") as stream:

        def read(offset: int, length: int) -> bytes:
            stream.seek(offset)
            return stream.read(length)

        yield RemoteFile(str(path), path.stat().st_size), read


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

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def decode_here(where: Path | RemoteFile, start: int, stop: int, names: Sequence[str], max_row: int) -> Iterator[bytes]:
    """Yields the rows from start to stop as Arrow IPC streams of one batch each.

    A kilobyte of Parquet may decode to gigabytes, because a dictionary holds a repeated value once. The memory of this
    process is limited, and a batch that exceeds it is decoded again in fewer rows.
    """
    _limit_memory(_COPIES * max_row + _COLUMN * len(names))
    try:
        with parquet_file.named(where):
            yield from _packed_rows(where, start, stop, names, max_row, parquet_file.BATCH_ROWS)
    except BaseException:
        _opened.forget()
        raise


def _packed_rows(
    where: Path | RemoteFile, start: int, stop: int, names: Sequence[str], max_row: int, most: int
) -> Iterator[bytes]:
    """Yields packed batches; decodes `most` rows at once, and fewer where the memory is not enough."""
    try:
        for batch in _opened.rows(where, start, stop, names, most).read(start, stop):
            for piece in _pieces(batch):
                if piece.num_rows == 1 and (size := _decoded_bytes(piece.columns)) > max_row:
                    raise too_large(where, f"row {start + 1:,}", f"{size:,} bytes", max_row)
                packed = _packed(piece)
                start += piece.num_rows
                yield packed
        return  # noqa: TRY300 - what follows is for the exception
    except MemoryError:
        if most == 1:
            raise too_large(where, f"row {start + 1:,}", "more bytes than the decoder may use", max_row) from None
    # Not inside the handler: until it ends, the traceback keeps what was decoded.
    _opened.forget()
    pa.default_memory_pool().release_unused()
    yield from _packed_rows(where, start, stop, names, max_row, max(1, most // 16))


def _limit_memory(needed: int) -> None:
    """Limits the memory that this process may allocate."""
    global _allowed  # noqa: PLW0603 - a limit of the process
    # Arrow's jemalloc keeps the address space of what was freed, which counts.
    pa.set_memory_pool(pa.system_memory_pool())
    _allowed = _allowed or _data_bytes()
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = _allowed + _DECODING + needed
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _data_bytes() -> int:
    """Returns the bytes of private memory that this process has now."""
    found = re.search(rb"VmData:\s+(\d+) kB", Path("/proc/self/status").read_bytes())
    return int(found[1]) << 10 if found else 0


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Divides a batch of large rows, which the other process would have to hold twice."""
    if batch.num_rows > 1 and _decoded_bytes(batch.columns) > 2 * parquet_file.BATCH_BYTES:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    else:
        yield batch


def _decoded_bytes(columns: Sequence[pa.Array]) -> int:
    """Returns the bytes of columns whose dictionaries are replaced by their values, as they will be."""
    return sum(map(_column_bytes, columns))


def _column_bytes(column: pa.Array) -> int:
    kind = column.type
    if pa.types.is_struct(kind):
        return _decoded_bytes(column.flatten())
    if is_list(kind):
        return _column_bytes(column.flatten())
    if not pa.types.is_dictionary(kind) or not (is_text(kind.value_type) or pa.types.is_binary(kind.value_type)):
        return int(column.nbytes)
    return pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0


class _OpenFile(contextlib.ExitStack):
    """The file of the last request, with the rows not yet read: ranges are usually requested in order."""

    def __init__(self) -> None:
        super().__init__()
        self._key: tuple[object, ...] = ()
        self._rows: parquet_file.FileRows | None = None

    def rows(
        self, where: Path | RemoteFile, start: int, stop: int, names: Sequence[str], most: int
    ) -> parquet_file.FileRows:
        """Returns rows that begin at `start` or before."""
        key = (where, most, *names, stat_key(where.stat())) if isinstance(where, Path) else ()
        if self._rows is None or not key or key != self._key or not self._rows.has(start, stop):
            self.forget()
            file = self.enter_context(parquet_file.opened(where))
            self._rows = parquet_file.FileRows(file, start, stop, names, most)
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
