"""A published file or folder is complete or absent: after an exception, after a kill, and on a full disk."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.storage.durable import TEMPORARY, publish_file, publish_folder, sweep, temporary_of, write_bytes

ROOT = Path(__file__).resolve().parents[2]


def tree(folder: Path) -> dict[str, bytes]:
    """Maps every file below `folder` to its content."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_half(file: Path) -> None:
    """Writes half of a file and fails."""
    file.write_bytes(b"wei")
    raise ValueError("half way")


def test_a_file_is_published(tmp_path: Path) -> None:
    """After the block it has its final name, and no other file is left."""
    with publish_file(tmp_path / "model") as temporary:
        temporary.write_bytes(b"weights")

    assert tree(tmp_path) == {"model": b"weights"}


def test_a_file_has_no_final_name_before_the_block_ends(tmp_path: Path) -> None:
    """A reader never sees a file that is still being written."""
    with publish_file(tmp_path / "model") as temporary:
        temporary.write_bytes(b"wei")

        assert not (tmp_path / "model").exists()
        temporary.write_bytes(b"weights")


def test_an_exception_leaves_no_file(tmp_path: Path) -> None:
    """Neither under the final name nor under the temporary one."""
    with pytest.raises(ValueError, match="half way"), publish_file(tmp_path / "model") as temporary:
        write_half(temporary)

    assert tree(tmp_path) == {}


def test_a_file_that_is_not_synced_is_published_too(tmp_path: Path) -> None:
    """On failure it is deleted, and the file that was there before stays."""
    with publish_file(tmp_path / "shard", sync=False) as temporary:
        temporary.write_bytes(b"records")
        assert not (tmp_path / "shard").exists()
    with pytest.raises(ValueError, match="half way"), publish_file(tmp_path / "shard", sync=False) as temporary:
        write_half(temporary)

    assert tree(tmp_path) == {"shard": b"records"}


def test_an_exception_keeps_the_old_file(tmp_path: Path) -> None:
    """It is not changed."""
    (tmp_path / "model").write_bytes(b"old")
    with pytest.raises(ValueError, match="half way"), publish_file(tmp_path / "model") as temporary:
        write_half(temporary)

    assert tree(tmp_path) == {"model": b"old"}


def test_a_file_replaces_the_old_one(tmp_path: Path) -> None:
    """In one step."""
    write_bytes(tmp_path / "model", b"old")
    write_bytes(tmp_path / "model", b"new")

    assert tree(tmp_path) == {"model": b"new"}


def test_a_folder_is_published(tmp_path: Path) -> None:
    """With all that is below it; missing parents are created."""
    with publish_folder(tmp_path / "serving" / "1") as temporary:
        (temporary / "variables").mkdir()
        (temporary / "variables" / "data").write_bytes(b"weights")
        (temporary / "model.pb").write_bytes(b"graph")

    assert tree(tmp_path) == {"serving/1/model.pb": b"graph", "serving/1/variables/data": b"weights"}


def test_an_exception_leaves_no_folder(tmp_path: Path) -> None:
    """Neither under the final name nor under the temporary one."""
    with pytest.raises(ValueError, match="half way"), publish_folder(tmp_path / "1") as temporary:
        write_half(temporary / "model.pb")

    assert list(tmp_path.iterdir()) == []


def test_a_published_folder_is_never_replaced(tmp_path: Path) -> None:
    """A version that is served stays if another one is published under its name."""
    with publish_folder(tmp_path / "1") as temporary:
        (temporary / "model.pb").write_bytes(b"old")
    with pytest.raises(OSError, match="not empty"), publish_folder(tmp_path / "1") as temporary:
        (temporary / "model.pb").write_bytes(b"new")

    assert tree(tmp_path) == {"1/model.pb": b"old"}


KILLED_BEFORE_THE_RENAME = """
import os, pathlib, signal, sys
from components.storage import durable

target = pathlib.Path(sys.argv[1])
durable.fsync = lambda path: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "file":
    durable.write_bytes(target, b"weights")
else:
    with durable.publish_folder(target) as temporary:
        (temporary / "model.pb").write_bytes(b"graph")
"""


def kill_before_the_rename(target: Path, kind: str) -> None:
    """Publishes in a process that is killed after all is written and before it is renamed."""
    command = [sys.executable, "-c", KILLED_BEFORE_THE_RENAME, str(target), kind]
    killed = subprocess.run(command, cwd=ROOT, check=False)

    assert killed.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_killed_writer_leaves_only_a_temporary_name(kind: str, tmp_path: Path) -> None:
    """Promise B1: there is no final name, and the leftover can be recognised."""
    kill_before_the_rename(tmp_path / "model", kind)

    assert [path.name.startswith(TEMPORARY) for path in tmp_path.iterdir()] == [True]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_sweep_removes_what_a_killed_writer_left(kind: str, tmp_path: Path) -> None:
    """Data and other hidden files stay."""
    (tmp_path / "kept").write_bytes(b"data")
    (tmp_path / ".hidden").write_bytes(b"data")
    kill_before_the_rename(tmp_path / "model", kind)
    leftovers = list(tmp_path.glob(f"{TEMPORARY}*"))

    assert sweep(tmp_path) == leftovers
    assert tree(tmp_path) == {"kept": b"data", ".hidden": b"data"}


def test_a_sweep_of_a_clean_folder_removes_nothing(tmp_path: Path) -> None:
    """Data stays."""
    (tmp_path / "kept").write_bytes(b"data")

    assert sweep(tmp_path) == []
    assert tree(tmp_path) == {"kept": b"data"}


def test_a_sweep_deletes_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    """B1: a leftover name may be a symbolic link."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "model").write_bytes(b"data")
    link = temporary_of(tmp_path / "model")
    link.symlink_to(tmp_path / "kept")

    assert sweep(tmp_path) == [link]
    assert (link.is_symlink(), tree(tmp_path)) == (False, {"kept/model": b"data"})


def test_a_sweep_of_one_target_leaves_the_others(tmp_path: Path) -> None:
    """Also those whose name ends like it, or matches it as a pattern."""
    names = ["model", "my-model", "0123456789ab-model", "mode[l]", "model-2"]
    for name in names:
        temporary_of(tmp_path / name).mkdir()
    (tmp_path / f"{TEMPORARY}model").mkdir()
    swept = sorted(path.name[len(TEMPORARY) + 12 :] for path in sweep(tmp_path, "model", "mode[l]"))

    assert swept == ["-mode[l]", "-model"]
    assert len(list(tmp_path.iterdir())) == 4


def test_a_full_disk_leaves_no_truncated_file(tiny_disk: Path) -> None:
    """Promise B5: the error is raised, the old file stays, and the space is free again."""
    write_bytes(tiny_disk / "model", b"old")
    with pytest.raises(OSError, match="No space left") as full:
        write_bytes(tiny_disk / "model", bytes(1 << 20))

    assert full.value.errno == errno.ENOSPC
    assert tree(tiny_disk) == {"model": b"old"}


def test_a_full_disk_leaves_no_truncated_folder(tiny_disk: Path) -> None:
    """Promise B5: a version that does not fit is absent, and the served one stays."""
    with publish_folder(tiny_disk / "1") as temporary:
        (temporary / "model.pb").write_bytes(b"graph")
    with pytest.raises(OSError, match="No space left"), publish_folder(tiny_disk / "2") as temporary:
        (temporary / "variables").write_bytes(bytes(1 << 20))

    assert tree(tiny_disk) == {"1/model.pb": b"graph"}


def test_a_private_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """From the beginning, also instead of a file that others could read; other files follow the umask."""
    old = os.umask(0o002)
    try:
        (tmp_path / "private").touch()
        write_bytes(tmp_path / "private", b"row", private=True)
        write_bytes(tmp_path / "public", b"row")
    finally:
        os.umask(old)

    assert {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {
        "private": "0o600",
        "public": "0o664",
    }
