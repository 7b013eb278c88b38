"""gs:// on an emulator of Google Cloud Storage: the same class, the same behaviour as on s3://."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from components.storage.objects import ObjectPath

pytestmark = pytest.mark.all  # its server takes two minutes to build
TOOLS = Path(__file__).resolve().parents[2] / "scripts" / "tools.sh"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of fake-gcs-server with one empty bucket; skips the test where it cannot be built."""
    built = subprocess.run([TOOLS, "fake-gcs-server"], check=False, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"no emulator of Google Cloud Storage: {built.stderr.strip().splitlines()[-1]}")
    folder = tmp_path_factory.mktemp("gs")
    (folder / "bucket").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["-scheme=http", "-host=127.0.0.1", f"-port={port}", f"-public-host=127.0.0.1:{port}"]
    server = subprocess.Popen(
        [built.stdout.strip(), *flags, "-backend=memory", f"-data={folder}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while True:
            assert server.poll() is None, "fake-gcs-server did not start"
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.01)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def home(address: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ObjectPath:
    """An empty folder."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    return ObjectPath(f"gs://bucket/{request.node.name}")


def test_objects_are_written_listed_and_read(home: ObjectPath) -> None:
    """Odd names too; a listing has the stat of each object."""
    names = ["a", "sub/b c", "ü [1]"]
    for name in names:
        (home / name).write_bytes(name.encode())
    found = home.files_below()

    assert sorted(found) == sorted(names)
    assert {name: (home / name).read_text() for name in names} == {name: name for name in names}
    assert [found[name].identity for name in names] == [(home / name).stat().identity for name in names]
    assert sorted(path.name for path in home.iterdir()) == ["a", "sub", "ü [1]"]
    assert [(home / name).exists() for name in ("a", "sub", "none")] == [True, True, False]


def test_a_large_file_is_uploaded_and_read_by_ranges(home: ObjectPath, tmp_path: Path) -> None:
    """20 MB."""
    (tmp_path / "large").write_bytes(os.urandom(20 << 20))
    (home / "large").upload(tmp_path / "large")
    (home / "large").download(tmp_path / "again")
    with (tmp_path / "large").open("rb") as here, (home / "large").open("rb") as there:
        for offset, size in ((0, 3), (7 << 20, 2 << 20), ((20 << 20) - 9, 100)):
            assert (there.seek(offset), there.read(size)) == (here.seek(offset), here.read(size))

    assert (tmp_path / "again").read_bytes() == (tmp_path / "large").read_bytes()


def test_objects_are_copied_and_removed(home: ObjectPath) -> None:
    """One, and all below a folder."""
    (home / "a").write_bytes(b"content")
    (home / "a").copy_to(home / "copy/b")
    (home / "a").unlink()
    (home / "a").unlink(missing_ok=True)

    assert {name: (home / name).read_bytes() for name in home.files_below()} == {"copy/b": b"content"}
    home.remove_tree()
    assert not home.exists()
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        (home / "a").read_bytes()


def test_of_racing_creators_one_wins(home: ObjectPath) -> None:
    """And an object is replaced only if it is the known one."""
    barrier = threading.Barrier(8)

    def create(number: int) -> bool:
        barrier.wait()
        return (home / "lock").create(f"{number}".encode())

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(8)))
    assert (won.count(True), (home / "lock").read_text()) == (1, str(won.index(True)))

    known = (home / "lock").stat().identity
    assert [(home / "lock").replace_if(text, known) for text in (b"new", b"newer")] == [True, False]
    assert (home / "lock").read_bytes() == b"new"
