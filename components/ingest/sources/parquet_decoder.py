"""A process that decodes Parquet for this one.

    this process                                the decoder
    file, rows and columns ───────────────────► opens a local file itself
    bytes of a remote file ◄─ offset, length ── asks for what it needs: so it does without Beam and its options
                           ─ bytes ───────────►
    batches                ◄─ batch, batch, … ─

A few of a thousand flipped bits do not make Arrow 10 raise: they end the process, or spoil its memory.
"""

import atexit
import contextlib
import io
import json
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa

from components.errors import BadInput
from components.ingest.sources import parquet_file
from components.ingest.sources.rows import Range
from components.ingest.work.helper import Helper
from components.records.quarantine import printable
from components.storage.hashing import stat_key
from components.storage.paths import DataPath

_BATCH, _REFUSED, _ASKED = b"b", b"!", b"?"  # first bytes of what a decoder says
_PART = struct.Struct("<QQ")  # offset and length of a part that it asks for


def decoded(path: DataPath, part: Range, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a range as they stand in the file."""
    decoder = _hire()
    try:
        yield from decoder.batches(path, part, names)
    except BaseException:  # whoever reads may stop half way: the rest of the answer is still to come
        decoder.close()
        raise
    _IDLE.append(decoder)


class _Decoder:
    """The process, seen from here."""

    def __init__(self) -> None:
        self._helper = Helper(f"{__name__}:serve")
        self._pipe = self._helper.pipe

    def batches(self, path: DataPath, part: Range, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a range as they stand in the file."""
        try:
            with contextlib.closing(_Lender(path)) as lender:
                request = {"start": part.start, "stop": part.stop, "names": list(names), **lender.described()}
                self._pipe.send_bytes(json.dumps(request).encode())
                while reply := self._pipe.recv_bytes():
                    if reply[:1] == _ASKED:
                        self._pipe.send_bytes(lender.read(*_PART.unpack(reply[1:])))
                    else:
                        yield _unpacked(reply)
        except (EOFError, ConnectionError, pa.ArrowException) as error:
            reason = str(error) or f"Arrow's process ended with {self._helper.ended_with()}"
            raise BadInput(
                f"{printable(str(path))}: cannot be decoded: {reason}; it may be damaged: write it again"
            ) from None

    def alive(self) -> bool:
        """Whether it can be asked; one that waits may have been killed, which is no fault of the next file."""
        return self._helper.alive()

    def close(self) -> None:
        """Ends the process."""
        self._helper.close()


_IDLE: list[_Decoder] = []  # started once and kept: a start takes half a second
os.register_at_fork(after_in_child=_IDLE.clear)  # a pipe has one reader


@atexit.register
def _dismiss() -> None:
    while _IDLE:
        _IDLE.pop().close()


def expect() -> None:
    """Has a decoder started that will be asked soon."""
    if not _IDLE:
        _IDLE.append(_Decoder())


def _hire() -> _Decoder:
    while True:
        try:
            decoder = _IDLE.pop()  # or someone else is faster
        except IndexError:
            return _Decoder()
        if decoder.alive():
            return decoder
        decoder.close()


class _Lender:
    """Reads a remote file for the decoder, which opens a local one itself."""

    def __init__(self, path: DataPath) -> None:
        self._path = path
        self._stream: BinaryIO | None = None

    def described(self) -> dict[str, Any]:
        """Returns what the decoder is told of the file; one with a size is read for it."""
        if isinstance(self._path, Path):
            return {"path": str(self._path.absolute()), "size": None}
        with self._told():
            return {"path": str(self._path), "size": self._path.stat().st_size}

    def read(self, offset: int, length: int) -> bytes:
        """Returns a part of the file."""
        with self._told():
            self._stream = self._stream or self._path.open("rb")
            self._stream.seek(offset)
            return self._stream.read(length)

    def close(self) -> None:
        """Closes what was opened."""
        if self._stream:
            self._stream.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BadInput(f"{printable(str(self._path))}: cannot be read: {error.strerror}") from error


def _unpacked(reply: bytes) -> pa.RecordBatch:
    kind, content = reply[:1], reply[1:]
    if kind == _REFUSED:
        raise BadInput(content.decode())
    batch = pa.ipc.open_stream(content).read_next_batch()
    for column in batch.columns:
        _validate(column)
    return batch


def _validate(column: pa.Array) -> None:
    """Looks at every offset before any is followed; what is not UTF-8 is a bad row, and told later."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise


def serve(pipe: "Connection[Any, Any]") -> None:
    """Answers requests until the other end is closed: each batch in a message, then an empty one."""
    with _Opened() as opened:
        while True:
            for answer in _answers(pipe, opened, **json.loads(pipe.recv_bytes())):
                pipe.send_bytes(answer)


def _answers(
    pipe: "Connection[Any, Any]", opened: "_Opened", path: str, size: int | None, start: int, stop: int,
    names: Sequence[str],
) -> Iterator[bytes]:  # fmt: skip
    where = Path(path) if size is None else _Lent(path, size, pipe)
    try:
        with parquet_file.named(where):
            for batch in opened.rows(where, start, stop, names).read(start, stop):
                yield _BATCH + _packed(batch)
    except BadInput as error:
        opened.forget()
        yield _REFUSED + str(error).encode()
    yield b""


class _Opened(contextlib.ExitStack):
    """The file that was asked for last, with what is still to come of it: ranges are asked for in their order."""

    def __init__(self) -> None:
        super().__init__()
        self._key: tuple[object, ...] = ()
        self._rows: parquet_file.Rows | None = None

    def rows(self, path: "Path | _Lent", start: int, stop: int, names: Sequence[str]) -> parquet_file.Rows:
        """Returns rows that begin at `start` or before."""
        key = (path, *names, stat_key(path.stat())) if isinstance(path, Path) else ()
        if self._rows is None or not key or key != self._key or not self._rows.has(start, stop):
            self.forget()
            self._rows = parquet_file.Rows(self.enter_context(parquet_file.opened(path)), start, stop, names)
            self._key = key
        return self._rows

    def forget(self) -> None:
        """Closes the file."""
        self.close()
        self._rows = None


@dataclass(frozen=True)
class _Lent:
    """A file that the other end reads for this one."""

    address: str
    size: int
    pipe: "Connection[Any, Any]"

    def __str__(self) -> str:
        return self.address

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Opens it."""
        del mode
        return cast("BinaryIO", _LentStream(self))


class _LentStream(io.RawIOBase):
    def __init__(self, lent: _Lent) -> None:
        super().__init__()
        self._lent, self._position = lent, 0

    def readinto(self, buffer: Any) -> int:
        """Asks for the next part."""
        length = min(len(buffer), self._lent.size - self._position)
        if length <= 0:
            return 0
        self._lent.pipe.send_bytes(_ASKED + _PART.pack(self._position, length))
        data = self._lent.pipe.recv_bytes()
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to where the next part begins."""
        self._position = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._lent.size}[whence] + offset
        return self._position

    def tell(self) -> int:
        """Returns where the next part begins."""
        return self._position

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def seekable(self) -> bool:
        """It can be entered anywhere."""
        return True


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
