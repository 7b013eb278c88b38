"""A pipeline root with one finished run on the sample digits, shared by the tests that look at it or go on from it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from data.digits import write_image_folder
from pipelines.orchestration.store import Execution, Store

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    """How a command ended and what it said."""

    code: int
    said: str

    def actions(self) -> dict[str, str]:
        """Returns what a plan says about each node: "runs" or "up to date"."""
        return dict(re.findall(r"^  (\w+) +(runs|up to date|kept|looked up|skipped) ", self.said, re.MULTILINE))

    def reason(self, node: str) -> str:
        """Returns why a plan treats a node as it does."""
        found = re.search(rf"^  {node} +(?:runs|up to date|kept|looked up|skipped) +(.*)$", self.said, re.MULTILINE)
        return found[1].strip() if found else ""


@dataclass(frozen=True)
class Pipeline:
    """A pipeline root and its data, driven by the real command in its own process."""

    data: Path
    root: Path
    code: Path = PROJECT  # where components/ and pipelines/ are taken from
    environment: dict[str, str] = field(default_factory=dict)
    task: str = "image"

    def run(self, *arguments: str, before: str = "") -> Result:
        """Runs `penstock run TASK`; `before` is Python to execute first, such as the injection of a fault."""
        process = self.start(*arguments, before=before)
        said, _ = process.communicate(timeout=600)
        return Result(process.returncode, said)

    def start(self, *arguments: str, before: str = "", stdout: int = subprocess.PIPE) -> "subprocess.Popen[str]":
        """Starts the command and returns at once."""
        script = f"{before}\nfrom pipelines.cli import main\nmain()"
        command = [sys.executable, "-c", script, "run", self.task, "--data", str(self.data), "--root", str(self.root)]
        return subprocess.Popen(
            [*command, *arguments],
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.code,
            env={**os.environ, **self.environment},
        )

    def store(self) -> Store:
        """Opens the metadata for reading."""
        return Store(self.root / "metadata.db", self.task)

    def newest(self, node: str) -> Execution:
        """Returns what a node did last."""
        return next(self.store().executions(node))

    def wait_for(self, node: str, process: "subprocess.Popen[str]", state: str = "RUNNING") -> None:
        """Waits until a node is in a state, as the metadata tells it."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if (self.root / "metadata.db").exists():
                newest = next(self.store().executions(node), None)
                if newest is not None and newest.state == state:
                    return
            time.sleep(0.1)
        raise AssertionError(f"{node} was never {state}; the command ended with {process.poll()}")


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All sample digits, not to be changed."""
    folder = tmp_path_factory.mktemp("digits") / "images"
    write_image_folder(folder)
    return folder


@pytest.fixture
def some_digits(digits: Path, tmp_path: Path) -> Path:
    """Three hundred digits, to be changed at will."""
    folder = tmp_path / "images"
    for index, image in enumerate(sorted(digits.glob("*/*"))):
        if index % 6 == 0:
            (folder / image.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(image, folder / image.parent.name / image.name)
    return folder


@pytest.fixture(scope="module")
def finished(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Result]:
    """A first run on all digits with the default settings, and what it said."""
    home = tmp_path_factory.mktemp("finished")
    shutil.copytree(digits, home / "images")
    pipeline = Pipeline(home / "images", home / "root")
    return pipeline, pipeline.run()


def stop(process: "subprocess.Popen[str]", signum: signal.Signals) -> Result:
    """Sends a signal and waits for the end."""
    process.send_signal(signum)
    said, _ = process.communicate(timeout=60)
    return Result(process.returncode, said)


@pytest.fixture(params=["500k", "800k"])
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A filesystem of its own without room for a run."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a full disk needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="session")
def make_pipeline() -> Callable[..., Pipeline]:
    """The class of pipelines: fixtures are how tests share code here."""
    return Pipeline


@pytest.fixture(scope="session")
def run_all() -> Callable[..., dict[str, Result]]:
    """Runs pipelines two at a time: much of a run is one thread that loads libraries."""

    def run(
        pipelines: Mapping[str, Pipeline], arguments: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, Result]:
        with ThreadPoolExecutor(2) as pool:
            begun = {name: pool.submit(each.run, *(arguments or {}).get(name, ())) for name, each in pipelines.items()}
            return {name: each.result() for name, each in begun.items()}

    return run


@pytest.fixture
def stopping() -> Callable[["subprocess.Popen[str]", signal.Signals], Result]:
    """The function that stops a process."""
    return stop
