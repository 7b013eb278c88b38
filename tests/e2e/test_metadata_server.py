"""B8, D5: metadata that many processes write, in a file and in a real MySQL (MariaDB) server on loopback."""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ml_metadata import errors
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from components.errors import BadInput, SettingsError
from pipelines.config import metadata_server
from pipelines.config.metadata_server import Server
from pipelines.orchestration.metadata.store import Store

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PASSWORD = "pass-word/of the team"  # noqa: S105
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
MORE = 6  # attempts than MLMD makes by itself
HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
"""
PROCESSES = 8
# What the launcher does for a node, with all contexts in common but the run's; then a write through our Store.
WRITER = """
import sys
from pathlib import Path
from tfx.orchestration import metadata
from tfx.orchestration.portable import execution_publish_utils as publish
from tfx.orchestration.portable.mlmd import context_lib
from tfx.proto.orchestration import pipeline_pb2
from tfx.types import standard_artifacts
from ml_metadata.proto import metadata_store_pb2 as pb
from pipelines.config import metadata_server
from pipelines.config.metadata_server import Server
from pipelines.orchestration.metadata.store import Store

place, writer, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
database = metadata_server.parse(place) if "://" in place else Path(place)
contexts = pipeline_pb2.NodeContexts()
for kind, name in (("pipeline", "image"), ("pipeline_run", writer), ("node", "image.Trainer")):
    spec = contexts.contexts.add()
    spec.type.name, spec.name.field_value.string_value = kind, name
for number in range(count):
    with metadata.Metadata(metadata_server.connection(database)) as handle:
        made = context_lib.prepare_contexts(metadata_handle=handle, node_contexts=contexts)
        execution = publish.register_execution(handle, pb.ExecutionType(name="Trainer"), made)
        model = standard_artifacts.Model()
        model.uri = f"/models/{writer}/{number}"
        publish.publish_succeeded_execution(
            handle, execution_id=execution.id, contexts=made, output_artifacts={"model": [model]}
        )
    if number % 10 == 0:
        store = Store(database, "image", read_only=False)
        store.claim("/runs")
        store.mark_deleted([output.id for output in store.outputs(execution.id)])
"""


@dataclass(frozen=True)
class Team:
    """A database on a running server."""

    uri: str  # without a password

    def new_database(self, name: str) -> str:
        """Makes another database and returns its URI."""
        server = metadata_server.parse(self.uri)
        run = ["mariadb", "--no-defaults", "-h", server.host, "-P", str(server.port), "-u", server.user]
        password = {**os.environ, "MYSQL_PWD": PASSWORD}
        subprocess.run([*run, "-e", f"CREATE DATABASE {name}"], env=password, check=True)
        return self.uri.replace("/team", f"/{name}")


def free_port() -> int:
    """Returns a port on loopback that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def account() -> str | None:
    """Returns the user that the server runs as: both refuse to run as root."""
    return "nobody" if os.geteuid() == 0 else None


def start(command: list[str], port: int, folder: Path) -> subprocess.Popen[bytes]:
    """Starts a server and waits until it answers."""
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, user=account(), stdout=log, stderr=log)
    while True:
        assert server.poll() is None, (folder / "server.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return server


def mysql(folder: Path, port: int) -> tuple[subprocess.Popen[bytes], str]:
    """Starts MariaDB with an empty database; returns its URI."""
    data, run = folder / "data", folder / "s"
    subprocess.run(
        ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal",
         "--skip-test-db"], user=account(), check=True, capture_output=True,
    )  # fmt: skip
    server = start(
        ["mariadbd", "--no-defaults", f"--datadir={data}", "--bind-address=127.0.0.1", f"--port={port}",
         f"--socket={run}", "--innodb-flush-log-at-trx-commit=0"], port, folder,
    )  # fmt: skip
    grant = f"CREATE DATABASE team; CREATE USER 't'@'%' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON `team%`.* TO 't'@'%'"
    subprocess.run(["mariadb", "--no-defaults", "-u", "root", "-S", str(run), "-e", grant], check=True)
    return server, f"mysql://t@127.0.0.1:{port}/team"


def postgresql(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Starts PostgreSQL, without a password; its port is open before it takes connections."""
    home = POSTGRES[-1].parent
    command = [str(home / "initdb"), "-D", str(folder / "data"), "-U", "t", "-A", "trust", "--no-sync"]
    subprocess.run(command, user=account(), check=True, capture_output=True)
    options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder), "fsync": "off"}
    settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    server = start([str(home / "postgres"), "-D", str(folder / "data"), "-p", str(port), *settings], port, folder)
    while subprocess.run([home / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode:
        time.sleep(0.05)
    return server


@pytest.fixture(scope="module")
def server_folder() -> Iterator[Path]:
    """A folder that a server without rights may write to."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-db-"))
    if account():
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def team(server_folder: Path) -> Iterator[Team]:
    """A MySQL server with an empty database, as a process without rights on loopback."""
    if not shutil.which("mariadbd"):
        pytest.skip("no MySQL server: install Debian's mariadb-server")
    server, uri = mysql(server_folder, free_port())
    yield Team(uri)
    server.terminate()
    server.wait(timeout=60)


def contents(folder: Path) -> dict[str, bytes]:
    """Returns all files below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(fork_server: Any, database: Path | Server, count: int) -> None:
    """Lets all processes write `count` artifacts each, and compares what is there then."""
    writers = [
        fork_server.start(WRITER, [str(database), f"run-{number}", str(count)], os.environ, Path.cwd())
        for number in range(PROCESSES)
    ]
    results = [each.wait() for each in writers]
    assert [result.output for result in results if result.code] == []

    store = Store(database, "image")
    client = store.client
    uris = {f"/models/run-{writer}/{number}" for writer in range(PROCESSES) for number in range(count)}
    artifacts = client.get_artifacts()
    assert sorted(each.uri for each in artifacts) == sorted(uris)
    assert {each.uri for each in artifacts if each.state == each.DELETED} == {
        uri for uri in uris if int(uri.rpartition("/")[2]) % 10 == 0
    }
    runs = store.by_run()
    assert {run: [each.state for each in executions] for run, executions in runs.items()} == {
        f"run-{writer}": ["COMPLETE"] * count for writer in range(PROCESSES)
    }
    assert sorted(len(store.outputs(each.id)) for executions in runs.values() for each in executions) == [1] * len(uris)


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.all)])
def test_many_writers_of_a_file(fork_server: Any, tmp_path: Path, count: int) -> None:
    """B8: every artifact, execution and context of every process is there, and no process had an error."""
    write(fork_server, tmp_path / "metadata.db", count)


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.all)])
def test_many_writers_of_a_server(fork_server: Any, team: Team, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """B8: the same, in a database on a server."""
    monkeypatch.setenv(metadata_server.PASSWORD, PASSWORD)
    write(fork_server, metadata_server.parse(team.new_database(f"team{count}")), count)


def test_a_database_that_is_locked_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B8: a write waits for another process longer than MLMD's own five attempts, and is made then."""
    database = tmp_path / "metadata.db"
    store = Store(database, "image", read_only=False)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == MORE:
                holder.communicate()

        monkeypatch.setattr(metadata_store.time, "sleep", wait)
        store.claim("/runs")

    assert len(waits) == MORE
    with pytest.raises(SettingsError, match="its root in this metadata is /runs"):
        store.claim("/other")


def test_a_run_with_its_metadata_on_a_server(team: Team, tmp_path: Path, make_pipeline: Callable[..., Any]) -> None:
    """The second run has nothing to do; there is no SQLite file, and the password is in no file and no output."""
    (tmp_path / "rows.csv").write_text("\n".join(["width,kind", *(f"{row / 7},{'xy'[row % 2]}" for row in range(80))]))
    environment = {metadata_server.PASSWORD: PASSWORD}
    pipeline = make_pipeline(tmp_path / "rows.csv", tmp_path / "root", task="tabular", environment=environment)
    flags = ("--metadata", team.uri, "--label", "kind", "--to", "Gate")

    first, second = pipeline.run(*flags), pipeline.run(*flags)

    assert first.code == 0, first.output
    assert second.code == 0, second.output
    assert set(second.actions().values()) == {"up to date", "skipped"}
    assert not (pipeline.root / "metadata.db").exists()
    assert [name for name, content in contents(pipeline.root).items() if PASSWORD.encode() in content] == []
    assert PASSWORD not in first.output + second.output


def test_a_name_belongs_to_one_root(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another root of the same name would plan with these executions, and close those that run."""
    monkeypatch.setenv(metadata_server.PASSWORD, PASSWORD)
    store = Store(metadata_server.parse(team.uri), "image", read_only=False)
    store.claim("s3://bucket/a")
    store.claim("s3://bucket/a")

    with pytest.raises(SettingsError, match="its root in this metadata is s3://bucket/a, expected s3://bucket/b"):
        store.claim("s3://bucket/b")


def test_a_wrong_password(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the server and the variable, not the password."""
    monkeypatch.setenv(metadata_server.PASSWORD, "another-secret")
    with pytest.raises(SettingsError, match=metadata_server.PASSWORD) as error:
        Store(metadata_server.parse(team.uri), "image")
    assert "another-secret" not in str(error.value)


def test_a_server_that_cannot_be_reached(team: Team) -> None:
    """Its exit code is that of other inputs that cannot be read."""
    closed = re.sub(r":\d+/", f":{free_port()}/", team.uri)
    with pytest.raises(BadInput, match="expected a server that is reachable from here"):
        Store(metadata_server.parse(closed), "image")


def test_ml_metadata_cannot_use_postgresql(server_folder: Path) -> None:
    """A text with a backslash fails; if this test does, PostgreSQL may be supported (ADR 35)."""
    if not POSTGRES:
        pytest.skip("no PostgreSQL server: install Debian's postgresql")
    folder = server_folder / "postgresql"
    folder.mkdir()
    if account():
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    port = free_port()
    server = postgresql(folder, port)
    try:
        settings = pb.PostgreSQLDatabaseConfig(
            host="127.0.0.1", port=str(port), user="t", dbname="postgres", skip_db_creation=True
        )
        store = metadata_store.MetadataStore(pb.ConnectionConfig(postgresql=settings))
        execution = pb.Execution(type_id=store.put_execution_type(pb.ExecutionType(name="Ingest")))
        execution.custom_properties["plain"].string_value = "text"
        store.put_executions([execution])
        execution.custom_properties["custom_config"].string_value = r'{"a": "{\"b\": 1}"}'
        with pytest.raises(errors.InternalError, match="syntax error"):
            store.put_executions([execution])
    finally:
        server.send_signal(signal.SIGINT)  # at SIGTERM it would wait for the connection
        server.wait(timeout=60)
