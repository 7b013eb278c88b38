"""One process of a training: what it says if others are missing, hang or differ."""

import re
import socket
from pathlib import Path

import orjson
import pytest
import tensorflow as tf

from components.errors import PenstockError
from components.training import worker
from components.training.hardware.cluster import Cluster
from components.training.hardware.devices import Devices


def test_a_worker_that_hangs_is_named() -> None:
    """It still accepts connections; TensorFlow's error names its task."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(PenstockError, match=r"^/job:worker/replica:0/task:1 ended or cannot be reached"),
            worker._deaths_explained(Cluster(("127.0.0.1:1", listening))),
        ):
            raise tf.errors.UnavailableError(None, None, "Heartbeat timeout: /job:worker/replica:0/task:1 is down")


@pytest.mark.parametrize("content", [None, {"ended": [1.0, 0]}], ids=["missing", "ended"])
def test_a_job_that_is_not_there_is_explained(tmp_path: Path, content: object) -> None:
    """Something else listens on the chief's port, or the roots differ."""
    job = tmp_path / "job.json"
    if content:
        job.write_bytes(orjson.dumps(content))
    with pytest.raises(PenstockError, match=rf"{re.escape(str(job))} holds no training.*same --root on all workers"):
        worker.run(job)


def test_workers_of_different_kinds_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What differs decides what is said."""
    monkeypatch.setattr(Devices, "agree", lambda _, *values: [*values[:3], values[3] + 1])
    with pytest.raises(PenstockError, match=r"^other$"):
        worker._require_same(Devices(("CPU:0",)), {"same": ["a"], "other": [1, {"file": "digest"}]})
