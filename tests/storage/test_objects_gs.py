"""gs:// is listed, read and deleted on an emulator of Google Cloud Storage, as s3:// is on a real server."""

import os
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from components.ingest.sources.csv import csv_rows
from components.storage.hashing import HashCache
from components.storage.objects import ObjectPath
from components.storage.paths import DataPath

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


def put(path: ObjectPath, content: bytes) -> None:
    """Writes an object by the JSON API: the emulator does not have the part of the XML API that obstore writes by."""
    name = urllib.parse.quote(path.key, safe="")
    url = f"http://{os.environ['STORAGE_EMULATOR_HOST']}/upload/storage/v1/b/bucket/o?uploadType=media&name={name}"
    urllib.request.urlopen(urllib.request.Request(url, content, method="POST")).close()


def test_objects_are_listed_and_read(home: ObjectPath) -> None:
    """Odd names too; a listing has the stat of each object."""
    names = ["a", "sub/b c", "ü [1]", "empty"]
    for name in names:
        put(home / name, b"" if name == "empty" else name.encode())
    found = home.files_below()

    assert sorted(found) == sorted(names)
    assert {name: (home / name).read_text() for name in names} == {name: name for name in names} | {"empty": ""}
    assert {name: stat.st_size for name, stat in found.items()} == {
        name: (home / name).stat().st_size for name in names
    }
    assert all(stat.identity for stat in found.values())
    assert [str(path) for path in home.glob("**/b*")] == [f"{home}/sub/b c"]
    assert [(home / name).exists() for name in ("a", "sub", "none")] == [True, True, False]


def test_a_large_file_is_read_by_ranges(home: ObjectPath, tmp_path: Path) -> None:
    """20 MB."""
    (tmp_path / "large").write_bytes(os.urandom(20 << 20))
    put(home / "large", (tmp_path / "large").read_bytes())
    (home / "large").download(tmp_path / "again")
    with (tmp_path / "large").open("rb") as here, (home / "large").open("rb") as there:
        for offset, size in ((0, 3), (7 << 20, 2 << 20), ((20 << 20) - 9, 100)):
            assert (there.seek(offset), there.read(size)) == (here.seek(offset), here.read(size))

    assert (tmp_path / "again").read_bytes() == (tmp_path / "large").read_bytes()


def test_objects_are_removed(home: ObjectPath) -> None:
    """One, and all below a folder; one that does not exist is an error unless that is expected."""
    for name in ("a", "b", "sub/c"):
        put(home / name, b"x")
    (home / "a").unlink()
    (home / "a").unlink(missing_ok=True)

    assert sorted(home.files_below()) == ["b", "sub/c"]
    home.remove_tree()
    assert not home.exists()
    for use in (ObjectPath.read_bytes, ObjectPath.unlink, ObjectPath.stat):
        with pytest.raises(FileNotFoundError, match="No such file or directory"):
            use(home / "a")


def test_a_table_is_surveyed_and_read(home: ObjectPath, tmp_path: Path) -> None:
    """The rows are those of the local file."""
    text = "a,b\n" + "".join(f"{number},some text\n" for number in range(40_000))
    (tmp_path / "t.csv").write_text(text)
    put(home / "t.csv", text.encode())

    def everything(path: DataPath) -> tuple[Any, ...]:
        schema, ranges = csv_rows.SOURCE.schema(path), csv_rows.SOURCE.divide(path, path.name, 200_000)
        batches = [batch.columns for part in ranges for batch in csv_rows.SOURCE.read(path, part, schema)]
        return schema, ranges, pa.Table.from_batches(batches).combine_chunks()

    assert everything(home / "t.csv") == everything(tmp_path / "t.csv")
    assert HashCache(None).hash_files(home, ["t.csv"]) == HashCache(None).hash_files(tmp_path, ["t.csv"])
