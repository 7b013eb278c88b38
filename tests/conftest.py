"""What the whole suite shares: one thread per worker, deterministic property tests, and fixtures that inject faults."""

import contextlib
import ctypes
import gc
import http.client
import http.server
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import hypothesis
import orjson
import psutil
import pytest

# Hundreds of processes import our modules: their bytecode is kept, whatever PYTHONDONTWRITEBYTECODE says.
_ASKED, sys.dont_write_bytecode = sys.dont_write_bytecode, False

# oneDNN's AMX kernels for bfloat16 crash in virtual machines that announce AMX and do not allow it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
# While it is imported, TensorFlow prints a dozen lines about CUDA, some of them as errors.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

_NOBODY = 65534
_TOOLS = Path(__file__).resolve().parents[1] / "scripts" / "tools.sh"
_MUCH = 50 << 20  # bytes that one module's tests may leave behind

if "PYTEST_XDIST_WORKER" in os.environ:
    # The workers keep all cores busy: a thread pool in each of them would only make them wait for each other.
    for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(_variable, "1")

# No deadline and no random seed: a test gives the same result on a busy machine and on every run.
hypothesis.settings.register_profile("suite", derandomize=True, database=None, deadline=None, max_examples=50)
hypothesis.settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Imports modules and collects tests without looking for garbage: a test process keeps both."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the longest files to the front: short ones then keep both workers busy to the end."""

    def place(item: pytest.Item) -> tuple[bool, ...]:
        e2e, slow = (item.get_closest_marker(name) is not None for name in ("e2e", "slow"))
        return not e2e, "test_every_task" not in item.nodeid, not slow

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Does what a run does after its imports: collections skip modules, and Beam inspects a class once."""
    sys.dont_write_bytecode = _ASKED  # modules that a test writes have none: two versions may have one size and second
    gc.freeze()
    if "apache_beam" in sys.modules:
        from pipelines.orchestration.runners import beam_translation

        beam_translation.speed_up()


@pytest.fixture(scope="module", autouse=True)
def _bounded_memory() -> Iterator[None]:
    """Frees what Keras and TensorFlow keep of models; not after every module, because collecting takes a second."""
    before = psutil.Process().memory_info().rss
    yield
    if "keras" in sys.modules and psutil.Process().memory_info().rss > before + _MUCH:
        import keras

        keras.utils.clear_session()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # only glibc has it
        trim(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that any user may write to; pytest's own folders belong to one user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    for parent, names, _ in os.walk(folder):
        for name in names:
            Path(parent, name).chmod(0o700)  # before os.walk enters it: a test may have closed it
    shutil.rmtree(folder)


@pytest.fixture
def without_rights() -> Callable[[], AbstractContextManager[None]]:
    """A context manager that gives up root, as root may read and write every file."""

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
    """A file system of 64 KB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a full disk needs permission to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


class S3Server:
    """A real S3 server, versitygw, over a local folder: `folder/bucket/key`. It can be stopped and started again."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self.folder = program, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._buckets = itertools.count()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "penstock-tests",
            "AWS_SECRET_ACCESS_KEY": "only-for-loopback",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "S3_ENDPOINT": f"http://{self.address}",  # of TensorFlow
        }

    def start(self) -> None:
        """Starts the server, if it is not running, and waits until it answers."""
        if self._process is not None:
            return
        keys = {"ROOT_ACCESS_KEY": "AWS_ACCESS_KEY_ID", "ROOT_SECRET_KEY": "AWS_SECRET_ACCESS_KEY"}
        self._process = subprocess.Popen(
            [self._program, "--port", self.address, "posix", str(self.folder)],
            env={**os.environ, **{ours: self.environment[name] for ours, name in keys.items()}},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        host, _, port = self.address.rpartition(":")
        while True:
            assert self._process.poll() is None, "versitygw did not start"
            with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
                return
            time.sleep(0.01)

    def stop(self) -> None:
        """Ends the server; its files stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def new_bucket(self) -> str:
        """Makes an empty bucket and returns its URI."""
        name = f"bucket-{next(self._buckets)}"
        (self.folder / name).mkdir()
        return f"s3://{name}"


@pytest.fixture
def lost_answers(
    s3_server: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """A proxy of the S3 server that loses an answer: to the first PUT of each object whose content has a word."""
    del s3_bucket  # it sets the address that is changed here
    words: list[str] = []
    lost: set[tuple[str, str]] = set()

    class Proxy(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(s3_server.address)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            found = [(word, self.path) for word in words if self.command == "PUT" and word.encode() in body]
            if set(found) - lost:
                lost.update(found)
                self.send_response(500)
                content = b""
            else:
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                        self.send_header(name, value)
            size = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", size)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = forward  # noqa: N815 - Python's names

        def log_message(self, *_: Any) -> None:
            """Prints nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=[0.01])
        thread.start()
        for name in ("AWS_ENDPOINT_URL", "S3_ENDPOINT"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        yield words.append
        proxy.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server on loopback; skips the test where it cannot be built."""
    built = subprocess.run([_TOOLS, "versitygw"], check=False, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"no S3 server: {built.stderr.strip().splitlines()[-1]}")
    server = S3Server(built.stdout.strip(), tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def s3_bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of an empty bucket on a real S3 server, with the environment variables that its clients need."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    s3_server.start()  # an earlier test may have stopped it
    return s3_server.new_bucket()


@pytest.fixture(scope="session")
def open_metadata() -> Callable[[Path], Callable[..., tuple[int, dict[str, int]]]]:
    """Opens a metadata store and returns a function that records executions in it as TFX does, without TFX."""
    from ml_metadata.metadata_store import metadata_store
    from ml_metadata.proto import metadata_store_pb2 as pb

    def open_store(database: Path) -> Callable[..., tuple[int, dict[str, int]]]:
        sqlite = pb.SqliteMetadataSourceConfig(filename_uri=str(database))
        store = metadata_store.MetadataStore(pb.ConnectionConfig(sqlite=sqlite))

        def context(kind: str, name: str) -> Any:
            return pb.Context(type_id=store.put_context_type(pb.ContextType(name=kind)), name=name)

        def event(kind: Any, key: str, artifact_id: int | None = None) -> Any:
            made = pb.Event(type=kind, artifact_id=artifact_id)
            made.path.steps.add().key = key
            made.path.steps.add().index = 0
            return made

        def output(key: str, uri: Path, live: bool, properties: dict[str, Any]) -> tuple[Any, Any]:
            kind = store.put_artifact_type(pb.ArtifactType(name=key), can_add_fields=True)
            state = pb.Artifact.LIVE if live else pb.Artifact.DELETED
            artifact = pb.Artifact(type_id=kind, uri=str(uri), state=state)
            for name, value in properties.items():
                field = "int_value" if isinstance(value, int) else "string_value"
                setattr(artifact.custom_properties[name], field, value)
            return artifact, event(pb.Event.OUTPUT, key)

        def record(
            node: str,
            pipeline: str = "image",
            state: str = "COMPLETE",
            inputs: tuple[int, ...] | dict[int, str] = (),
            outputs: dict[str, Path] | None = None,
            live: bool = True,
            properties: dict[str, Any] | None = None,
            run: str = "",
            **facts: Any,
        ) -> tuple[int, dict[str, int]]:
            """Stores an execution, with `facts` as JSON; returns its id and the ids of its outputs."""
            kind = store.put_execution_type(pb.ExecutionType(name=node))
            execution = pb.Execution(type_id=kind, last_known_state=pb.Execution.State.Value(state))
            for name, value in facts.items():
                execution.custom_properties[name].string_value = orjson.dumps(value).decode()
            names = inputs if isinstance(inputs, dict) else dict.fromkeys(inputs, "in")
            artifacts = store.get_artifacts_by_id(list(names)) if names else []
            read = [(each, event(pb.Event.INPUT, names[each.id], each.id)) for each in artifacts]
            written = [output(key, uri, live, properties or {}) for key, uri in (outputs or {}).items()]
            execution_id, ids, _ = store.put_execution(
                execution,
                [*read, *written],
                [
                    context("pipeline", pipeline),
                    context("node", f"{pipeline}.{node}"),
                    *([context("pipeline_run", run)] if run else []),
                ],
                reuse_context_if_already_exist=True,
            )
            return execution_id, dict(zip(outputs or {}, ids[len(read) :], strict=True))

        return record

    return open_store
