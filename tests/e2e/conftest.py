"""Fixtures that share finished runs, data and faults among the tests of the command line."""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from data.digits import write_image_folder
from pipelines.orchestration import graph
from tests.e2e.commands import OFFLINE, PENSTOCK, PROJECT, ForkServer, Pipeline, Process, can_be_offline, wait_until

QUICK_TABLE = ("--label", "kind", "--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0")
QUICK_IMAGE = "[image]\ntrain.epochs = 1\nevaluate.min_accuracy = 0\ngate.min_per_class = 0\n"
TFX = "from tfx.tools.cli.cli_main import cli_group; cli_group()"  # as the installed script
# What the command sets before it imports libraries; OpenBLAS must not start threads before a fork.
IMPORT_ENVIRONMENT = {
    "GRPC_VERBOSITY": "ERROR",
    "KERAS_BACKEND": "tensorflow",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
# Counts what each node does with files. At the given moment, or at the end of the node, the process group is killed.
WATCHED = """
import atexit, json, os, pathlib, signal, sys
from tfx.orchestration.portable import launcher
launch, counts, now, moment = launcher.Launcher.launch, {}, [""], MOMENT
def tick(event, arguments):
    if event == "open" or event.startswith(("os.", "shutil.", "tempfile.")):
        counts[now[0]] = counts.get(now[0], 0) + 1
        if [now[0], counts[now[0]]] == moment:
            os.killpg(0, signal.SIGKILL)
def watched(self):
    now[0] = self._pipeline_node.node_info.id
    launched = launch(self)
    if moment and moment[0] == now[0]:
        os.killpg(0, signal.SIGKILL)
    now[0] = ""
    return launched
launcher.Launcher.launch = watched
sys.addaudithook(tick)
atexit.register(lambda: pathlib.Path(COUNTS).write_text(json.dumps(counts)))
"""


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """One server per test process; it ends when its connection is closed."""
    control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = Path(__file__).with_name("fork_server.py")
    server = subprocess.Popen(
        [sys.executable, str(script), str(other.fileno())],
        pass_fds=[other.fileno()],
        env={**os.environ, **IMPORT_ENVIRONMENT},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    other.close()
    yield ForkServer(control)
    control.close()
    server.wait(timeout=60)


@pytest.fixture(scope="session")
def offline() -> Sequence[str]:
    """The command that runs another one without network and with a read-only environment; skips where it cannot."""
    if not can_be_offline():
        pytest.skip("unshare or mount is not allowed here")
    return OFFLINE


@pytest.fixture(scope="session")
def make_pipeline(fork_server: ForkServer) -> Callable[..., Pipeline]:
    """The class Pipeline, with its server."""
    return partial(Pipeline, fork_server)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Builds a folder in the first test process that asks for it and returns it in all; tests must not change it."""
    folder = tmp_path_factory.getbasetemp()
    common = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def build_once(name: str, build: Callable[[Path], None]) -> Path:
        home, built = common / name, common / f"{name}.built"
        with FileLock(f"{home}.lock"):
            if not built.exists():
                home.mkdir()
                build(home)
                built.touch()
        return home

    return build_once


def write_rows(home: Path) -> None:
    """Writes 400 rows with a number and a code, of two classes."""
    draw = random.Random(5)
    rows = [f"{draw.gauss(3 * (row % 2), 1):.3f},{draw.choice('abc')},{'xy'[row % 2]}" for row in range(400)]
    (home / "rows.csv").write_text("\n".join(["width,code,kind", *rows, ""]))


def watched_code(counts: Path, moment: list[Any] | None = None) -> str:
    """Returns the code that counts events, or kills at one of them."""
    return WATCHED.replace("MOMENT", repr(moment)).replace("COUNTS", repr(str(counts)))


@pytest.fixture(scope="session")
def watched() -> Callable[..., str]:
    """The function that returns the code to watch a run with."""
    return watched_code


@pytest.fixture(scope="session")
def quick_table() -> tuple[str, ...]:
    """The flags of a quick run on the small table."""
    return QUICK_TABLE


@pytest.fixture(scope="session")
def rows(once: Any) -> Path:
    """A small table with the label `kind`."""
    return Path(once("table", write_rows)) / "rows.csv"


@pytest.fixture(scope="session")
def table_run(once: Any, rows: Path, make_pipeline: Callable[..., Pipeline]) -> Pipeline:
    """A finished run on the small table, beside `counts.json`: what each node did with files."""

    def run(home: Path) -> None:
        before = watched_code(home / "counts.json")
        result = make_pipeline(rows, home / "root", task="tabular").run(*QUICK_TABLE, before=before)
        assert result.code == 0, result.output

    return make_pipeline(rows, once("table run", run) / "root", task="tabular")


@pytest.fixture(scope="session")
def tfx_runs(once: Any, make_pipeline: Any, fork_server: ForkServer) -> Path:
    """A root on 300 digits that the `tfx` command created once and ran twice, beside the nodes' states after each."""
    create = ["pipeline", "create", "--pipeline_path", "pipelines/image.py", "--engine", "local"]
    start = ["run", "create", "--pipeline_name", "image", "--engine", "local"]

    def run(home: Path) -> None:
        write_image_folder(home / "images", 300)
        (home / "quick.toml").write_text(QUICK_IMAGE)
        pipeline = make_pipeline(home / "images", home / "root")
        paths = {"DATA": "images", "ROOT": "root", "SETTINGS": "quick.toml"}
        environment = {**os.environ, "LOCAL_HOME": str(home / "tfx")}
        environment |= {f"PENSTOCK_{name}": str(home / path) for name, path in paths.items()}

        def forked(arguments: list[str]) -> None:
            done = fork_server.start(TFX, arguments, environment, PROJECT).wait()
            assert done.code == 0, done.output

        def states() -> dict[str, str]:
            return {node.id: pipeline.newest(node.id).state for node in graph.NODES}

        forked(create)
        installed = [str(PENSTOCK.with_name("tfx")), *start]
        done = subprocess.run(installed, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        first = states()
        forked(start)
        (home / "states.json").write_text(json.dumps([first, states()]))

    return Path(once("tfx", run))


@pytest.fixture(scope="session")
def wait_for() -> Callable[[Callable[[], bool], Process], None]:
    """The function that waits for a condition while a command runs."""
    return wait_until


@pytest.fixture(scope="session")
def restored() -> Callable[[Path], AbstractContextManager[None]]:
    """A context manager that gives a folder its content back, so that tests may share a finished run."""

    @contextmanager
    def block(folder: Path) -> Iterator[None]:
        copy = folder.with_name(f"{folder.name} copy")
        subprocess.run(["cp", "-a", str(folder), str(copy)], check=True)
        try:
            yield
        finally:
            shutil.rmtree(folder)
            copy.rename(folder)

    return block


@pytest.fixture(scope="session")
def mounted() -> Callable[[Path, str], AbstractContextManager[Path]]:
    """A context manager that mounts a small file system on a folder."""

    @contextmanager
    def block(folder: Path, size: str) -> Iterator[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("a full disk needs permission to mount a tmpfs")
        try:
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)

    return block


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All 1,797 sample digits; tests must not change them."""
    folder = tmp_path_factory.mktemp("digits") / "images"
    write_image_folder(folder)
    return folder


@pytest.fixture
def some_digits(digits: Path, tmp_path: Path) -> Path:
    """A copy of 300 digits that a test may change."""
    folder = tmp_path / "images"
    for image in sorted(digits.glob("*/*"))[::6]:
        (folder / image.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, folder / image.parent.name / image.name)
    return folder
