"""What is published is there whole or not at all: after an exception, a kill and on a full disk."""

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.storage.durable import ASIDE, begin_sync, publish_file, publish_folder, publish_part, sweep, write_bytes

ROOT = Path(__file__).resolve().parents[2]


def tree(folder: Path) -> dict[str, bytes]:
    """Maps every file below `folder` to its content."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_half(file: Path) -> None:
    """Writes something and fails."""
    file.write_bytes(b"wei")
    raise ValueError("half way")


def test_a_file_is_published_whole(tmp_path: Path) -> None:
    """After the block the content stands under the final name and nothing beside it."""
    with publish_file(tmp_path / "model") as aside:
        aside.write_bytes(b"weights")

    assert tree(tmp_path) == {"model": b"weights"}


def test_a_file_has_no_final_name_before_the_block_ends(tmp_path: Path) -> None:
    """A reader never sees a file that is still being written."""
    with publish_file(tmp_path / "model") as aside:
        aside.write_bytes(b"wei")

        assert not (tmp_path / "model").exists()
        aside.write_bytes(b"weights")


def test_an_exception_leaves_no_file(tmp_path: Path) -> None:
    """Neither the final name nor the aside is left behind."""
    with pytest.raises(ValueError, match="half way"), publish_file(tmp_path / "model") as aside:
        write_half(aside)

    assert tree(tmp_path) == {}


def test_one_of_many_files_is_published_whole_too(tmp_path: Path) -> None:
    """It is only not waited for; on failure it is gone, and what was there before is not."""
    with publish_part(tmp_path / "shard") as aside:
        aside.write_bytes(b"records")
        assert not (tmp_path / "shard").exists()
    with pytest.raises(ValueError, match="half way"), publish_part(tmp_path / "shard") as aside:
        write_half(aside)

    assert tree(tmp_path) == {"shard": b"records"}


def test_an_exception_keeps_the_old_file(tmp_path: Path) -> None:
    """What was published before stays as it was."""
    (tmp_path / "model").write_bytes(b"old")
    with pytest.raises(ValueError, match="half way"), publish_file(tmp_path / "model") as aside:
        write_half(aside)

    assert tree(tmp_path) == {"model": b"old"}


def test_a_file_replaces_the_old_one(tmp_path: Path) -> None:
    """Publishing again under the same name is one step from old to new."""
    write_bytes(tmp_path / "model", b"old")
    write_bytes(tmp_path / "model", b"new")

    assert tree(tmp_path) == {"model": b"new"}


def test_a_folder_is_published_whole(tmp_path: Path) -> None:
    """Files and folders below it come along; missing parents are made."""
    with publish_folder(tmp_path / "serving" / "1") as aside:
        (aside / "variables").mkdir()
        (aside / "variables" / "data").write_bytes(b"weights")
        (aside / "model.pb").write_bytes(b"graph")

    assert tree(tmp_path) == {"serving/1/model.pb": b"graph", "serving/1/variables/data": b"weights"}


def test_what_goes_to_disk_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    """It is begun and not waited for; that it cannot be begun is no error, for the file is forced to disk later."""
    with publish_file(tmp_path / "out") as aside:
        with aside.open("wb") as stream:
            stream.write(b"one" * 1000)
            stream.flush()
            begin_sync(stream.fileno(), 0, 3000)
            stream.write(b"two")
        begin_sync(-1, 0, 1)

    assert (tmp_path / "out").read_bytes() == b"one" * 1000 + b"two"


def test_an_exception_leaves_no_folder(tmp_path: Path) -> None:
    """What was filled half is gone, and there is no final name."""
    with pytest.raises(ValueError, match="half way"), publish_folder(tmp_path / "1") as aside:
        write_half(aside / "model.pb")

    assert list(tmp_path.iterdir()) == []


def test_a_published_folder_is_never_replaced(tmp_path: Path) -> None:
    """A version that serves stays when another one is published under its name."""
    with publish_folder(tmp_path / "1") as aside:
        (aside / "model.pb").write_bytes(b"old")
    with pytest.raises(OSError, match="not empty"), publish_folder(tmp_path / "1") as aside:
        (aside / "model.pb").write_bytes(b"new")

    assert tree(tmp_path) == {"1/model.pb": b"old"}


KILLED_BEFORE_THE_RENAME = """
import os, pathlib, signal, sys
from components import durable

target = pathlib.Path(sys.argv[1])
durable.fsync = lambda path: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "file":
    durable.write_bytes(target, b"weights")
else:
    with durable.publish_folder(target) as aside:
        (aside / "model.pb").write_bytes(b"graph")
"""


def kill_before_the_rename(target: Path, kind: str) -> None:
    """Publishes in a process that is killed after all is written and before it is renamed."""
    command = [sys.executable, "-c", KILLED_BEFORE_THE_RENAME, str(target), kind]
    killed = subprocess.run(command, cwd=ROOT, check=False)

    assert killed.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_killed_writer_leaves_only_what_is_marked_as_aside(kind: str, tmp_path: Path) -> None:
    """Promise B1: there is no final name, and the leftover can be told from data."""
    kill_before_the_rename(tmp_path / "model", kind)

    assert [path.name.startswith(ASIDE) for path in tmp_path.iterdir()] == [True]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_sweep_removes_what_a_killed_writer_left(kind: str, tmp_path: Path) -> None:
    """Leftovers are returned by name; data and other hidden files stay."""
    (tmp_path / "kept").write_bytes(b"data")
    (tmp_path / ".hidden").write_bytes(b"data")
    kill_before_the_rename(tmp_path / "model", kind)
    leftovers = list(tmp_path.glob(f"{ASIDE}*"))

    assert sweep(tmp_path) == leftovers
    assert tree(tmp_path) == {"kept": b"data", ".hidden": b"data"}


def test_a_sweep_of_a_clean_folder_removes_nothing(tmp_path: Path) -> None:
    """No leftovers, no work."""
    (tmp_path / "kept").write_bytes(b"data")

    assert sweep(tmp_path) == []
    assert tree(tmp_path) == {"kept": b"data"}


def test_a_full_disk_leaves_no_truncated_file(tiny_disk: Path) -> None:
    """Promise B5: the error comes through, the old file stays, the space is given back."""
    write_bytes(tiny_disk / "model", b"old")
    with pytest.raises(OSError, match="No space left") as full:
        write_bytes(tiny_disk / "model", bytes(1 << 20))

    assert full.value.errno == errno.ENOSPC
    assert tree(tiny_disk) == {"model": b"old"}


def test_a_full_disk_leaves_no_truncated_folder(tiny_disk: Path) -> None:
    """Promise B5: a version that does not fit is not there at all, and the served one stays."""
    with publish_folder(tiny_disk / "1") as aside:
        (aside / "model.pb").write_bytes(b"graph")
    with pytest.raises(OSError, match="No space left"), publish_folder(tiny_disk / "2") as aside:
        (aside / "variables").write_bytes(bytes(1 << 20))

    assert tree(tiny_disk) == {"1/model.pb": b"graph"}
