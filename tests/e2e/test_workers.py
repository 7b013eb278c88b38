"""`penstock run` as the chief and `penstock train-worker` as the other worker, by TF_CONFIG."""

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import orjson
import pytest

from components.training.hardware import cluster

# Only in `make test-all`: tests/training/test_devices.py shows the training itself.
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.all]

SETTINGS = (
    *("--to", "Trainer", "--set", "ingest.splits.stratify=true", "--set", "train.epochs=3"),
    *("--set", "train.workers=2", "--set", "train.checkpoint_seconds=0"),
)


def environments() -> list[dict[str, str]]:
    """Returns TF_CONFIG of two workers on this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    tasks = [{"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}} for index in range(2)]
    return [{**os.environ, cluster.VARIABLE: json.dumps(task)} for task in tasks]


# Ends the process when it is to take part in the fifth decision of all workers: after checkpoints, within training.
KILLED = """
import os
from components.training.hardware.devices import Devices

agree, calls = Devices.agree, []

def agree_or_die(self, *values):
    calls.append(values)
    if len(calls) == 5:
        os.kill(os.getpid(), 9)
    return agree(self, *values)

Devices.agree = agree_or_die
"""


def test_a_worker_joins_dies_and_joins_again(
    make_pipeline: Any, some_digits: Path, tmp_path: Path, wait_for: Any
) -> None:
    """B3: the death of a worker ends both with its name, a restart continues, and without training both end at once."""
    root = tmp_path / "root"

    def both(before: str = "") -> tuple[Any, Any]:
        """Runs both, the worker first; returns their results."""
        first, second = environments()
        chief = make_pipeline(some_digits, root, environment=first)
        code, arguments = (
            f"{before}\nfrom pipelines.cli import main; main()",
            ["train-worker", "image", "--root", str(root)],
        )
        worker = chief.server.start(code, arguments, second, chief.code)
        wait_for(lambda: b"waiting for the chief" in os.pread(worker._output.fileno(), 1 << 16, 0), worker)
        return chief.run(*SETTINGS), worker.wait()

    stopped, killed = both(KILLED)

    assert (stopped.code, killed.code) == (1, -signal.SIGKILL), stopped.output
    assert "worker 1 (127.0.0.1:" in stopped.output
    assert "start all workers again" in " ".join(stopped.output.split())

    ran, joined = both()

    assert (ran.code, joined.code) == (0, 0), (ran.output, joined.output)
    assert "resumed at epoch" in ran.output
    assert "on each of 2 devices of 2 workers" in " ".join(ran.output.split())
    assert "worker 1: done" in joined.output
    (file,) = (root / "Trainer" / "model_run").glob("*/history.json")
    history = orjson.loads(file.read_bytes())
    assert len(set(history["epochs"]["records"])) == 1
    assert history["devices"] == {"names": ["CPU:0"], "workers": 2, "replicas": 2}

    nothing, waited = both()

    assert (nothing.code, waited.code) == (0, 0), (nothing.output, waited.output)
    assert "ended without training, with exit code 0" in waited.output
