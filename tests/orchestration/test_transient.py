"""B10: which errors may be gone if a node is tried again. The errors are those that libraries really raise."""

import errno
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from components import errors
from components.errors import BadInput, DiskFull, PenstockError, WorkerLost
from components.ingest.pool import Pool
from components.storage import object_stores
from components.storage.objects import ObjectPath
from pipelines.orchestration import transient
from pipelines.orchestration.root import disk

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print(flush=True)
sys.stdin.read()
"""


def raised(call: Callable[[], object]) -> BaseException:
    """Returns what a call raises."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any
        return error
    raise AssertionError("no error")


def wrapped(outer: Exception, inner: BaseException, *, is_named: bool = False) -> BaseException:
    """Returns an error that was raised while another one was handled, as its cause or not."""

    def call() -> None:
        try:
            raise inner
        except type(inner):
            if is_named:
                raise outer from inner
            raise outer  # noqa: B904 - that is the case

    return raised(call)


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A metadata database that another process has locked."""
    database = tmp_path / "metadata.db"
    metadata_store.MetadataStore(connection(database))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield database
        holder.communicate()


def connection(database: Path) -> Any:
    """Returns a connection that gives a locked database up at once."""
    config = pb.ConnectionConfig(sqlite=pb.SqliteMetadataSourceConfig(filename_uri=str(database)))
    config.retry_options.max_num_retries = 1
    return config


def test_a_locked_database(tmp_path: Path, locked: Path) -> None:
    """Both MLMD and Python's SQLite say so."""
    other = sqlite3.connect(locked, timeout=0)
    by_sqlite = raised(lambda: other.execute("SELECT * FROM Type"))
    other.close()
    free = metadata_store.MetadataStore(connection(tmp_path / "other.db"))
    free.put_artifact_type(pb.ArtifactType(name="A"))
    by_opening = RuntimeError("Concurrent writes aborted after max number of retries.")  # the same, after half a minute

    assert [transient.reason(each) for each in (by_sqlite, by_opening)] == ["metadata locked"] * 2


def test_a_connection_that_is_refused() -> None:
    """A port without a server, directly or below other errors."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        refused = raised(lambda: socket.create_connection(free.getsockname()))

    assert transient.reason(refused) == "no connection"
    assert transient.reason(wrapped(RuntimeError("the stage failed"), refused)) == "no connection"
    assert transient.reason(wrapped(BadInput("a server: cannot be read"), refused, is_named=True)) == "no connection"


def test_a_store_that_is_away(s3_server: Any, s3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a worker process has asked it, whose error arrives as number and text."""
    monkeypatch.setattr(object_stores, "PATIENCE", 0.2)
    s3_server.stop()
    away = raised(lambda: ObjectPath(f"{s3_bucket}/a").read_bytes())
    text = RuntimeError(f"Traceback (most recent call last):\n  File …\nTimeoutError: {away} [while running 'Ingest']")

    assert transient.reason(away) == transient.reason(text) == "no connection"


def test_an_object_that_is_not_there(s3_bucket: str) -> None:
    """It is not there the next time either."""
    missing = raised(lambda: ObjectPath(f"{s3_bucket}/a").read_bytes())
    assert transient.reason(missing) == transient.reason(wrapped(RuntimeError("stage"), missing)) == ""


def test_a_full_disk(tiny_disk: Path) -> None:
    """By its number, by our error, or by the text of a library; a limit of the process stays."""
    full = raised(lambda: (tiny_disk / "a").write_bytes(bytes(1 << 20)))
    ours = disk.full(full, {tiny_disk: "use another"}, lambda: "1 MB needed")
    beyond = disk.full(OSError(errno.EFBIG, "File too large"), {tiny_disk: "use another"}, lambda: "1 MB needed")
    native = RuntimeError("RecordWriter: No space left on device")

    assert ours is not None
    assert beyond is not None
    assert [transient.reason(each) for each in (full, ours, native)] == ["disk full"] * 3
    assert transient.reason(beyond) == ""


def test_a_worker_that_dies() -> None:
    """A process of the pool, also after Beam has wrapped its end."""

    def call() -> None:
        with Pool() as pool, pool.lease() as worker:
            worker.kill()
            list(worker.call("builtins:list"))

    died = raised(call)
    assert isinstance(died, WorkerLost)
    assert transient.reason(died) == transient.reason(wrapped(RuntimeError("WorkerDied: …"), died)) == "worker lost"


@pytest.mark.parametrize(
    "error",
    [
        *(
            kind("why")
            for kind in (
                errors.SettingsError, errors.NotBlessed, errors.BadInput, errors.GateStopped, errors.LedgerMismatch,
                errors.NotFinite, errors.Late, errors.Skipped, errors.Locked, errors.JobFailed, PenstockError,
            )
        ),
        errors.Cancelled(15), KeyboardInterrupt(), MemoryError(), ValueError("a column"), KeyError("a"),
        FileNotFoundError(errno.ENOENT, "No such file", "a"), PermissionError(errno.EACCES, "denied", "a"),
        RuntimeError("File …\ncomponents.errors.BadInput: a.csv: no rows"),
    ],
    ids=lambda error: re.sub(r"\W+", "-", f"{type(error).__name__} {error}")[:40],
)  # fmt: skip
def test_final_errors(error: BaseException) -> None:
    """Bad input, settings, gates, verdicts, NaN, lost records and errors of code fail the same way again.

    What they were raised for does not matter, unless they name it as their cause.
    """
    assert transient.reason(error) == ""
    if isinstance(error, Exception):
        assert transient.reason(wrapped(error, ConnectionResetError("reset"))) == ""
    assert transient.reason(RuntimeError("the model of a user")) == ""


def test_what_libraries_say_in_words() -> None:
    """MLMD on a server, and TensorFlow's client of S3."""
    messages = {
        "mysql_query failed: errno: 1205, Lock wait timeout exceeded": "metadata locked",
        "mysql_real_connect failed: errno: 2003, Can't connect to server": "no connection",
        "mysql_real_connect failed: errno: 1045, Access denied for user": "",
        "; curlCode: 7, Couldn't connect to server": "no connection",
        "; curlCode: 60, SSL peer certificate was not OK": "",
    }
    assert {text: transient.reason(RuntimeError(text)) for text in messages} == messages


def test_codes_of_tensorflow_and_grpc() -> None:
    """UNAVAILABLE may be gone, INVALID_ARGUMENT is not."""
    import tensorflow as tf

    assert transient.reason(tf.errors.UnavailableError(None, None, "worker 1")) == "no connection"
    assert transient.reason(tf.errors.InvalidArgumentError(None, None, "shape")) == ""


def test_the_disk_explains(tiny_disk: Path) -> None:
    """DiskFull that is raised from an error of the disk is a full disk."""
    inner = OSError(errno.ENOSPC, "No space left on device", str(tiny_disk / "a"))
    assert transient.reason(wrapped(DiskFull(f"{tiny_disk}: no space left"), inner, is_named=True)) == "disk full"


def test_an_error_that_causes_itself() -> None:
    """It decides nothing, and is final."""
    error = RuntimeError("again")
    error.__cause__ = error

    assert transient.reason(error) == ""
