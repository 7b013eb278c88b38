"""Training on two devices and with two workers, each in real processes (several.py), against one device."""

import os
import runpy
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import orjson
import pytest
import tensorflow as tf

from components import helper_process
from components.errors import BadInput, SettingsError
from components.input_pipeline import Reader, Worker
from components.input_pipeline.stores import from_arrays
from components.settings.input import Input
from components.settings.train import Train
from components.training import checkpoint, process
from components.training.checkpoint import Checkpoint
from components.training.hardware import cluster, devices, replica
from components.training.hardware.cluster import Cluster
from components.training.hardware.devices import Devices
from components.training.hardware.shares import Shares

SCRIPT = Path(__file__).with_name("several.py")
UNEVEN = 73  # records: 9 batches of 8, and a single record, for which one of two workers has no batch


def start(config: dict[str, Any], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Starts a process that trains."""
    program = f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    command = helper_process.command(program, orjson.dumps(config).decode())
    with Path(config["out"]).with_suffix(".log").open("wb") as log:
        return subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)


def finish(processes: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """Waits for the processes and returns their exit codes."""
    try:
        return [each.wait(timeout=300) for each in processes]
    finally:
        for each in processes:
            each.kill()


def one_device(**config: Any) -> Checkpoint:
    """Trains in this process on one device; returns history and variables."""
    trained: Checkpoint = runpy.run_path(str(SCRIPT))["train"](config, devices.single())
    return trained


def free_addresses(count: int) -> list[str]:
    """Returns addresses of this machine that nobody uses."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def together(home: Path, *configs: dict[str, Any]) -> list[int]:
    """Trains with one worker per config, which write to `0`, `1` …; returns their exit codes."""
    addresses = free_addresses(len(configs))
    processes = []
    for index, config in enumerate(configs):
        cluster_of = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {cluster.VARIABLE: orjson.dumps(cluster_of).decode()}
        processes.append(start({"out": str(home / str(index)), **config}, environment))
    return finish(processes)


def logs(home: Path) -> str:
    """Returns what the processes wrote, for the message of a failed test."""
    return "\n".join(file.read_text() for file in sorted(home.glob("*.log")))


def losses(trained: Checkpoint) -> list[float]:
    """Returns the losses of all epochs, of both splits."""
    return [*trained.header["history"]["loss"], *trained.header["history"]["val_loss"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "own_step"),
    [(UNEVEN, False), pytest.param(UNEVEN + 2, True, marks=pytest.mark.all)],
    ids=["keras", "own step"],
)
def test_two_devices_learn_as_one(tmp_path: Path, records: int, own_step: bool) -> None:
    """At the same global batch, with batch normalization, an embedding, and a last batch of 1 or 3 records."""
    out, config = tmp_path / "two", {"records": records, "epochs": 2, "own_step": own_step}
    assert finish([start({"out": str(out), "devices": "cpu:2", **config}, {})]) == [0], logs(tmp_path)
    two, one = checkpoint.read(out), one_device(**config)

    assert losses(two) == pytest.approx(losses(one), abs=1e-4)
    assert two.header["history"]["records"] == one.header["history"]["records"] == [records] * 2
    for ours, theirs in zip(two.arrays, one.arrays, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert two.header["draws"][0] != two.header["draws"][1]  # of dropout


def test_the_variance_is_exact_if_the_mean_is_large() -> None:
    """Batch normalization over all replicas: a mean of 1,000 and a deviation of 0.1, in float32."""
    values = np.random.default_rng(1).normal(1000, 0.1, (4096, 2)).astype(np.float32)
    with replica.part(tf.constant(4096.0), tf.constant(1.0)):
        mean, variance = replica.moments(tf.constant(values), [0])

    np.testing.assert_allclose(mean, values.mean(0, np.float64), rtol=1e-6)
    np.testing.assert_allclose(variance, values.var(0, dtype=np.float64), rtol=1e-2)


SHARED = {"records": UNEVEN, "eval": 17, "epochs": 3}


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two workers with unequal shares, never interrupted; each writes down which records it saw."""
    home = tmp_path_factory.mktemp("straight")
    codes = together(home, *({**SHARED, "notes": str(home / f"{index}.notes")} for index in range(2)))
    assert codes == [0, 0], logs(home)
    return home


@pytest.mark.all
class TestTwoWorkers:
    """Two processes on this machine."""

    def test_both_have_the_same_weights(self, straight: Path) -> None:
        """Bit for bit, those of the optimizer too; their dropout differs."""
        first, second = (checkpoint.read(straight / str(index)) for index in range(2))

        assert [array.tobytes() for array in first.arrays] == [array.tobytes() for array in second.arrays]
        assert first.header["history"] == second.header["history"]
        assert first.header["draws"][0] != first.header["draws"][1]

    def test_every_record_is_read_once_per_epoch(self, straight: Path) -> None:
        """The worker with fewer batches computes one record again at the end of each epoch, and it does not count."""
        seen = [
            [
                [int(number) for number in line.split()]
                for line in (straight / f"{index}.notes").read_text().splitlines()
            ]
            for index in range(2)
        ]
        for epoch in range(3):
            mine, theirs = (steps[10 * epoch : 10 * (epoch + 1)] for steps in seen)
            assert sorted(number for step in (*mine, *theirs[:9]) for number in step) == list(range(UNEVEN))
            assert theirs[9] == theirs[8][:1]
        history = checkpoint.read(straight / "0").header["history"]
        assert (history["records"], history["val_records"]) == ([UNEVEN] * 3, [17] * 3)

    def test_they_learn_as_one_that_gets_both_batches(self, straight: Path) -> None:
        """The last batch of an epoch comes from one worker alone."""
        one, two = one_device(joined=True, **SHARED), checkpoint.read(straight / "0")

        assert losses(two) == pytest.approx(losses(one), abs=1e-5)

    def test_a_killed_worker_and_a_restart_change_nothing(self, straight: Path, tmp_path: Path) -> None:
        """B3: the other worker ends too, and both continue from the chief's checkpoint, bit for bit."""
        saved = {**SHARED, "checkpoints": str(tmp_path / "checkpoints")}
        killed = together(tmp_path, saved, {**saved, "killed_at": 1})
        again = together(tmp_path, saved, saved)

        assert killed[1] == -signal.SIGKILL
        assert killed[0] > 0
        assert again == [0, 0], logs(tmp_path)
        expected, found = checkpoint.read(straight / "0"), checkpoint.read(tmp_path / "0")
        assert found.header["resumed"] == 1
        assert [array.tobytes() for array in found.arrays] == [array.tobytes() for array in expected.arrays]
        assert found.header["history"] == expected.header["history"]


class TestSettings:
    """What is checked before a training."""

    def test_a_batch_must_be_divisible_among_workers(self) -> None:
        """Each worker reads the same number of records per batch."""
        with pytest.raises(SettingsError, match=r"input\.batch_size is 9, for 2 workers with 2 devices"):
            Shares(Worker(0, 2), 2).batch(9, scaled=False)

    def test_a_chosen_batch_suits_the_workers(self) -> None:
        """It is rounded up; only one that was set can be wrong."""
        three = Shares(Worker(0, 3), 3)

        assert three.batch(32, scaled=False, chosen=True).to_dict() == {"size": 33, "replica": 11, "scale": 1}

    def test_a_larger_batch_has_a_larger_learning_rate(self) -> None:
        """train.scale_learning_rate multiplies both."""
        two = Devices(("GPU:0", "GPU:1")).shares

        assert two.batch(65, scaled=False).to_dict() == {"size": 65, "replica": 33, "scale": 1}
        assert two.batch(64, scaled=True).to_dict() == {"size": 128, "replica": 64, "scale": 2}

    def test_every_worker_needs_a_batch(self) -> None:
        """Three workers cannot share two records."""
        reader = Reader({}, "label", lambda label: label, Input(batch_size=1), 1)
        with pytest.raises(BadInput, match="1 of 3 workers get no batch"):
            Shares(Worker(0, 3), 3).steps(reader, from_arrays({"label": [0, 1]}))

    def test_one_device_is_the_default_without_gpus(self) -> None:
        """Nothing of strategies is used."""
        assert devices.choose("auto") == devices.choose("all") == devices.choose("one") == Devices(("CPU:0",))

    def test_missing_workers_are_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """If TF_CONFIG was forgotten, the chief would train alone."""
        monkeypatch.delenv(cluster.VARIABLE, raising=False)
        with pytest.raises(SettingsError, match=r"train\.workers is 2, but TF_CONFIG lists no workers"):
            process.is_needed(Train(workers=2))


@pytest.mark.parametrize("stored", [np.float32(5), np.array([2, 3], np.float32)], ids=["one device", "two devices"])
def test_metrics_continue_on_another_number_of_devices(stored: Any) -> None:
    """A checkpoint has the sums of every device."""
    metric = devices.single().metric(keras.Variable(0.0))
    metric.assign(stored)

    assert metric.numpy() == 5


class TestCluster:
    """TF_CONFIG."""

    def test_a_chief_comes_first(self) -> None:
        """As Vertex AI sets it."""
        text = '{"cluster": {"worker": ["b:1", "c:1"], "chief": ["a:1"]}, "task": {"type": "worker", "index": "0"}}'

        assert cluster.read({cluster.VARIABLE: text}) == Cluster(("a:1", "b:1", "c:1"), 1)

    @pytest.mark.parametrize("text", ["", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}'])
    def test_one_worker_is_no_cluster(self, text: str) -> None:
        """It needs nobody."""
        assert cluster.read({cluster.VARIABLE: text}) is None

    @pytest.mark.parametrize(
        "text",
        [
            "{",
            "[]",
            '{"cluster": {"worker": ["a:1", "b"]}, "task": {"type": "worker", "index": 0}}',
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
        ],
    )
    def test_what_cannot_be_read_is_an_error(self, text: str) -> None:
        """With the value and what was expected."""
        with pytest.raises(SettingsError, match=r"TF_CONFIG is .*expected"):
            cluster.read({cluster.VARIABLE: text})

    def test_a_worker_that_does_not_answer_is_named(self) -> None:
        """With its address."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            listening, (closed,) = f"127.0.0.1:{server.getsockname()[1]}", free_addresses(1)

            assert Cluster(("10.0.0.1:1", listening, closed)).silent() == [f"worker 2 ({closed})"]
