"""What the chief's run and `penstock train-worker` say to each other, without training."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from components.errors import BadInput, Cancelled, PenstockError, SettingsError, exit_code_of
from components.training.hardware import cluster
from pipelines import config
from pipelines.orchestration import workers

NOBODY = '{{"cluster": {{"worker": ["127.0.0.1:9", "127.0.0.1:9"]}}, "task": {{"type": "worker", "index": {}}}}}'


@pytest.fixture
def chosen(tmp_path: Path) -> config.RunConfig:
    """The configuration of a pipeline."""
    return config.make("image", data=str(tmp_path), root=str(tmp_path / "root"))


def test_only_the_chief_runs_the_pipeline(chosen: config.RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command for the others."""
    monkeypatch.setenv(cluster.VARIABLE, NOBODY.format(1))

    with pytest.raises(SettingsError, match="run `penstock train-worker image` here"):
        workers.require_chief(chosen)


def test_missing_workers_stop_the_run_before_its_first_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TF_CONFIG, the chief would train alone."""
    monkeypatch.delenv(cluster.VARIABLE, raising=False)
    wanted = config.make("image", data=str(tmp_path), root=str(tmp_path / "root"), flags=["train.workers=2"])

    with pytest.raises(SettingsError, match=r"train\.workers is 2, but TF_CONFIG lists no workers"):
        workers.require_chief(wanted)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("train.devices=cpu:2", r"train\.devices is cpu:2, and TF_CONFIG lists 2 workers"),
        ("input.batch_size=9", r"input\.batch_size is 9, for 2 workers"),
    ],
)
def test_settings_that_do_not_suit_workers_stop_the_chief(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str, message: str
) -> None:
    """Before the run, and not hours later in the Trainer."""
    monkeypatch.setenv(cluster.VARIABLE, NOBODY.format(0))
    with pytest.raises(SettingsError, match=message):
        workers.require_chief(config.make("image", data=str(tmp_path), root=str(tmp_path), flags=[flag]))


@pytest.mark.parametrize("text", ["", NOBODY.format(0)])
def test_a_worker_needs_its_place(chosen: config.RunConfig, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Without TF_CONFIG, and as the chief."""
    monkeypatch.setenv(cluster.VARIABLE, text)

    with pytest.raises(SettingsError, match="needs TF_CONFIG with several workers"):
        workers.join(chosen, print)


@pytest.mark.parametrize("codes", [[0], [5], [BadInput("no data")], [Cancelled(signal.SIGTERM)]])
def test_a_waiting_worker_ends_with_the_run(
    chosen: config.RunConfig, monkeypatch: pytest.MonkeyPatch, codes: list[Any]
) -> None:
    """With its exit code; an earlier run's end is not meant."""
    monkeypatch.setenv(cluster.VARIABLE, NOBODY.format(1))
    chosen.notes.mkdir(parents=True)
    end_run(chosen, [3])

    def silent(*_: Any) -> bool:
        end_run(chosen, codes)
        return False

    monkeypatch.setattr(cluster.Cluster, "answers", silent)
    with pytest.raises(SystemExit) as ended:
        workers.join(chosen, print)

    assert ended.value.code == (exit_code_of(codes[0]) if isinstance(codes[0], BaseException) else codes[0])


def test_sigterm_ends_a_worker_that_waits(chosen: config.RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As process 1 of a container, too, where a signal without a handler does nothing."""
    monkeypatch.setenv(cluster.VARIABLE, NOBODY.format(1))
    monkeypatch.setattr(time, "sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM))

    with pytest.raises(Cancelled, match="SIGTERM"):
        workers.join(chosen, print)


def test_a_worker_does_not_wait_for_ever(chosen: config.RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chief that ended before it had the lock of the root says nothing."""
    monkeypatch.setenv(cluster.VARIABLE, NOBODY.format(1))
    monkeypatch.setattr(workers, "_WAIT_SECONDS", -1)

    with pytest.raises(PenstockError, match=r"the chief at 127\.0\.0\.1:9 did not begin to train"):
        workers.join(chosen, print)


def end_run(chosen: config.RunConfig, codes: list[Any]) -> None:
    """Does what a run does at its end."""
    with contextlib.suppress(BaseException), workers.released(chosen) as given:
        if isinstance(codes[0], BaseException):
            raise codes[0]
        given.extend(codes)
