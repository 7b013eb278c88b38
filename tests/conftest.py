"""What faults are injected with: a user without rights, a folder that he may enter, a disk that is soon full."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

_NOBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder for any user; pytest's own are closed to all but their owner."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    for parent, names, _ in os.walk(folder):
        for name in names:
            Path(parent, name).chmod(0o700)  # before it is listed, or what a test has closed stays closed
    shutil.rmtree(folder)


@pytest.fixture
def without_rights() -> Callable[[], AbstractContextManager[None]]:
    """Opens a block in which permissions count, as they do not for root."""

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(_NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)

    return block


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of its own with room for 64 KB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a full disk needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
