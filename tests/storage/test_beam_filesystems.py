"""hdfs:// is read by Beam's own filesystem and its library, from a small local server.

RemotePath ─► Beam's HadoopFileSystem ─► hdfs ─► HTTP ─► WebHDFS over a folder
"""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystems import FileSystems

from components.errors import BadInput
from components.ingest.sources import text_folder
from components.ingest.sources.csv import csv_rows
from components.ingest.sources.parquet import parquet_rows
from components.ingest.survey import listing
from components.storage import paths
from components.storage.entries import Entries
from components.storage.hashing import HashCache
from components.storage.remote_path import RemotePath


class _Server(BaseHTTPRequestHandler):
    folder: ClassVar[Path]
    served: ClassVar[list[int]]  # bytes of each answer with content

    def log_message(self, *_: Any) -> None:
        """Logs nothing."""

    def _answer(self, status: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer_json(self, content: dict[str, Any], status: int = 200) -> None:
        self._answer(status, json.dumps(content).encode())

    def _serve(self, path: Path, start: int, stop: int, status: int) -> None:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(stop - start)
        self.served.append(len(content))
        self._answer(status, content, "application/octet-stream")


class WebHdfs(_Server):
    """The part of WebHDFS that reading needs."""

    def do_GET(self) -> None:
        """Answers one request for a path."""
        url = urlsplit(self.path)
        asked = {key: values[0] for key, values in parse_qs(url.query).items()}
        path = self.folder / unquote(url.path.removeprefix("/webhdfs/v1/")).lstrip("/")
        is_file = path.is_file()
        if not path.exists() or (asked["op"] == "GETFILECHECKSUM" and not is_file):
            error = {"exception": "FileNotFoundException", "message": f"not a file or not there: {path.name}"}
            self._answer_json({"RemoteException": error}, 404)
        elif asked["op"] == "GETFILESTATUS":
            self._answer_json({"FileStatus": self._status(path, "")})
        elif asked["op"] == "LISTSTATUS":
            below = [path] if is_file else sorted(path.iterdir())
            self._answer_json(
                {"FileStatuses": {"FileStatus": [self._status(each, "" if is_file else each.name) for each in below]}}
            )
        elif asked["op"] == "GETFILECHECKSUM":
            self._answer_json({"FileChecksum": {"algorithm": "none", "bytes": "00", "length": 1}})
        else:
            start = int(asked.get("offset", 0))
            self._serve(path, start, start + int(asked.get("length", path.stat().st_size)), 200)

    def _status(self, path: Path, name: str) -> dict[str, Any]:
        kind, stat = ("DIRECTORY" if path.is_dir() else "FILE"), path.stat()
        length = 0 if path.is_dir() else stat.st_size
        return {"pathSuffix": name, "type": kind, "length": length, "modificationTime": int(stat.st_mtime * 1000)}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Any]:
    """Starts a server for a folder; yields the folder, its remote path and the sizes of the answers."""
    handler: Any = type("Handler", (WebHdfs,), {"folder": tmp_path, "served": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    port = server.server_address[1]
    paths.prepare("hdfs://bucket", ["--hdfs_host=127.0.0.1", f"--hdfs_port={port}", "--hdfs_user=tester"])
    (tmp_path / "bucket").mkdir()
    yield tmp_path / "bucket", RemotePath("hdfs://bucket"), handler.served
    FileSystems.set_options(None)
    server.shutdown()
    server.server_close()


Served = tuple[Path, RemotePath, list[int]]


def everything(source: Any, path: Any, target: int) -> tuple[Any, ...]:
    """Returns schema, ranges and rows of a file."""
    schema, ranges = source.schema(path), source.divide(path, path.name, target)
    batches = [batch.columns for part in ranges for batch in source.read(path, part, schema)]
    return schema, ranges, pa.Table.from_batches(batches).combine_chunks()


def test_files_are_listed(served: Served) -> None:
    """At any depth, as on this machine; empty files are listed, empty folders are not."""
    folder, home, _ = served
    for name in ("a.csv", "y1/b.csv", "y1/deep/c.csv", "empty.csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("" if name == "empty.csv" else name)
    (folder / "nothing").mkdir()

    assert [str(path) for path in home.glob("**/*")] == [
        f"{home}/{name}" for name in ("a.csv", "empty.csv", "y1/b.csv", "y1/deep/c.csv")
    ]
    assert [str(path) for path in home.glob("*/*.csv")] == [f"{home}/y1/b.csv"]
    assert ((home / "y1").is_dir(), (home / "y1").is_file()) == (True, False)
    assert ((home / "a.csv").is_dir(), (home / "a.csv").is_file()) == (False, True)
    assert not (home / "none").exists()


def test_a_listing_is_current_until_a_file_changes(served: Served) -> None:
    """Files are listed before folders, and are sorted in the columns."""
    folder, home, _ = served
    (folder / "a").mkdir()
    for name in ("a/b.csv", "z.csv"):
        (folder / name).write_text(name)
    entries = Entries.below(home)
    before = entries.is_current(home)
    (folder / "z.csv").write_text("longer than before")

    assert (before, entries.is_current(home)) == (True, False)


def test_hdfs_uris_may_have_three_slashes(served: Served) -> None:
    """As those of its own tools."""
    folder, _, _ = served
    (folder / "y1").mkdir()
    (folder / "y1" / "a.csv").write_text("a")

    assert [str(path) for path in RemotePath("hdfs:///bucket").glob("**/*")] == ["hdfs:///bucket/y1/a.csv"]


def test_a_table_is_read_by_ranges(served: Served) -> None:
    """The rows are those of the local file, and reading a range fetches about its own bytes."""
    folder, home, requests = served
    (folder / "t.csv").write_text("a,b\n" + "".join(f"{number},some text\n" for number in range(400_000)))
    size = (folder / "t.csv").stat().st_size
    here = everything(csv_rows.SOURCE, folder / "t.csv", size // 3)

    assert everything(csv_rows.SOURCE, home / "t.csv", size // 3) == here
    requests.clear()
    list(csv_rows.SOURCE.read(home / "t.csv", here[1][1], here[0]))
    assert sum(requests) < size // 3 + (3 << 20)


def test_gzip_and_parquet_are_read(served: Served) -> None:
    """Decompressed by the source, decoded by the Parquet process."""
    folder, home, _ = served
    pd.DataFrame({"a": range(1_000), "b": "é\nx"}).to_csv(folder / "t.csv.gz", index=False)
    pq.write_table(pa.table({"n": range(30_000), "s": ["text"] * 30_000}), folder / "t.parquet", row_group_size=7_000)

    for source, name in ((csv_rows.SOURCE, "t.csv.gz"), (parquet_rows.SOURCE, "t.parquet")):
        assert everything(source, home / name, 20_000) == everything(source, folder / name, 20_000)


def test_class_folders_have_the_same_listing(served: Served) -> None:
    """Names, labels, sizes and digests."""
    folder, home, _ = served
    for name in ("set/ham/1.txt", "set/spam/2.txt"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(name)
    source = text_folder.SOURCE

    assert listing.take(source, home / "set", HashCache(None)) == listing.take(source, folder / "set", HashCache(None))


def test_a_missing_file_is_named_by_its_uri(served: Served) -> None:
    """B9: with the message of a local file."""
    _, home, _ = served
    uses: tuple[Callable[[RemotePath], Any], ...] = (csv_rows.SOURCE.schema, parquet_rows.SOURCE.schema)
    for use in uses:
        with pytest.raises(BadInput, match=rf"^{home}/none\.csv: cannot be read.*No such file or directory"):
            use(home / "none.csv")
