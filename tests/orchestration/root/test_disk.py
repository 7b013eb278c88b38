"""B5: an error of a full disk says which file, which disk, how much is free and needed, and what to do."""

import errno
import resource
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import tensorflow as tf

from components.errors import BadInput, DiskFull
from components.storage import durable
from pipelines.orchestration.root import disk


def fill(folder: Path) -> None:
    """Writes to a folder until its disk is full."""
    with (folder / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def explained(error: Exception, *folders: Path) -> str:
    """Returns the explanation of an error in a command that writes to these folders."""
    found = disk.full(error, disk.places(folders, "choose another --root"), lambda: "9 MB needed")
    return str(found)


@pytest.fixture
def small_file_limit() -> Iterator[None]:
    """This process may write files of 4 KB."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_the_disk_of_a_folder_in_the_root_is_named(tiny_disk: Path) -> None:
    """It may be another one than the root's."""
    fill(tiny_disk)
    with pytest.raises(OSError, match="No space left") as raised:
        (tiny_disk / "model").write_bytes(b"weights")

    assert explained(raised.value, tiny_disk.parent, tiny_disk) == (
        f"{tiny_disk}: no space left on the disk at {tiny_disk}: 0.0 MB free, 9 MB needed. "
        "No incomplete output was published; free disk space, or choose another --root"
    )


def test_the_file_is_named_if_the_error_names_it(tiny_disk: Path) -> None:
    """As open() does."""
    error = OSError(errno.ENOSPC, "No space left on device", str(tiny_disk / "new" / "model"))

    assert explained(error, tiny_disk).startswith(f"{tiny_disk}/new/model: no space left on the disk at {tiny_disk}:")


def test_a_library_that_names_no_file(tiny_disk: Path) -> None:
    """SQLite says only that the database or the disk is full."""
    fill(tiny_disk)
    with (
        closing(sqlite3.connect(tiny_disk / "metadata.db")) as database,
        pytest.raises(sqlite3.OperationalError) as raised,
    ):
        database.execute("CREATE TABLE t (a)")

    assert explained(raised.value, tiny_disk).startswith(f"{tiny_disk}: no space left on the disk at {tiny_disk}:")


def test_tensorflow_names_the_disk_in_its_message(tiny_disk: Path) -> None:
    """Its errors are no OSError."""
    fill(tiny_disk)
    with pytest.raises(tf.errors.ResourceExhaustedError) as raised:
        tf.io.write_file(str(tiny_disk / "model"), bytes(8192))

    assert explained(raised.value, tiny_disk).startswith(f"{tiny_disk}/model: no space left on the disk at {tiny_disk}")


@pytest.mark.parametrize(
    "error", [RuntimeError("broken pipe"), ValueError("cell 'No space left on device': expected a number")]
)
def test_other_errors_on_a_full_disk_are_not_explained(tiny_disk: Path, error: Exception) -> None:
    """B5: a bug or bad data is never a full disk."""
    fill(tiny_disk)

    assert disk.full(error, disk.places([tiny_disk], ""), str) is None


def test_a_full_disk_that_the_command_does_not_write_to(tiny_disk: Path) -> None:
    """B5: neither one beside --out nor a read-only one is named."""
    fill(tiny_disk)
    error = OSError(errno.ENOSPC, "No space left on device")
    beside = explained(error, tiny_disk.parent)
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)

    assert beside.startswith(f"{tiny_disk.parent}: no space left")
    assert explained(error, tiny_disk.parent, tiny_disk).startswith(f"{tiny_disk.parent}: no space left")


def test_a_path_with_blanks(tiny_disk: Path) -> None:
    """B5: the file that the error names is read from its attribute, not from its message."""
    folder = tiny_disk / "my models"
    folder.mkdir()
    fill(tiny_disk)
    error = OSError(errno.ENOSPC, "No space left on device", str(folder / "a"), None, str(folder / "b"))

    assert explained(error, tiny_disk).startswith(f"{folder}/a: no space left on the disk at {tiny_disk}:")


@pytest.mark.parametrize("text", ["/" + "x" * 5000, "/x\0y"])
def test_a_message_with_a_path_that_cannot_exist(tmp_path: Path, text: str) -> None:
    """B5: it is explained all the same."""
    error = RuntimeError(f"No space left on device: {text}")

    assert explained(error, tmp_path).startswith(f"{tmp_path}: no space left on the disk at ")


@pytest.mark.usefixtures("small_file_limit")
def test_a_limit_of_the_file_size(tmp_path: Path) -> None:
    """EFBIG is explained, although its disk has space."""
    with pytest.raises(OSError, match="File too large") as raised:
        durable.write_bytes(tmp_path / "model", bytes(8192))

    assert explained(raised.value, tmp_path).startswith(f"{tmp_path}: file larger than this process may write (ulimit")
    assert list(tmp_path.iterdir()) == []


def test_a_quota(tmp_path: Path) -> None:
    """EDQUOT is explained; no file system here has quotas, so the error is made by hand."""
    error = OSError(errno.EDQUOT, "Disk quota exceeded", str(tmp_path / "model"))

    assert explained(error, tmp_path).startswith(f"{tmp_path}/model: disk quota exceeded on the disk at ")


def test_a_full_disk_that_hides_an_earlier_explanation(tmp_path: Path) -> None:
    """The failure of a node is explained even if it could not be recorded."""
    full = DiskFull("the first")
    second = OSError(errno.ENOSPC, "No space left on device")
    second.__context__ = full

    assert disk.full(second, disk.places([tmp_path], ""), str) is full


@pytest.mark.parametrize("error", [RuntimeError("no such layer"), BadInput("/data: empty"), OSError(errno.EIO, "I/O")])
def test_other_errors_are_not_explained(tmp_path: Path, error: Exception) -> None:
    """If the disk has space."""
    assert disk.full(error, disk.places([tmp_path], ""), str) is None
