"""A Dataflow job does not outlive its run. Google's service is a client object here: there is no account."""

import signal
from typing import Any

import pytest
from apache_beam.runners.dataflow.dataflow_runner import DataflowPipelineResult, DataflowRunner
from apache_beam.runners.dataflow.internal import apiclient

from components.errors import Cancelled, PenstockError
from pipelines.engine.jobs import NotCancelled
from pipelines.orchestration.runners import dataflow_runner

STATES = apiclient.dataflow.Job.CurrentStateValueValuesEnum


class Service:
    """What Beam's client of Dataflow asks."""

    def __init__(self, states: list[Any]) -> None:
        self.states, self.requested = states, list[str]()
        self.dataflow_client = self

    def get_job(self, job: str) -> Any:
        """Returns the job in its next state; the last one stays."""
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return apiclient.dataflow.Job(id=job, currentState=state)

    def modify_job_state(self, job: str, state: str) -> bool:
        """Notes the request."""
        self.requested.append(f"{job} {state}")
        return True


@pytest.fixture(autouse=True)
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while somebody waits for the job."""

    def wait(*_: Any) -> Any:
        raise Cancelled(signal.SIGINT)

    monkeypatch.setattr(DataflowPipelineResult, "wait_until_finish", wait)
    monkeypatch.setattr(dataflow_runner, "_POLL", 0.01)


def wait_for(service: Service, state: Any = STATES.JOB_STATE_RUNNING) -> None:
    """Waits for a job that is in a state."""
    job = apiclient.dataflow.Job(id="job-7", currentState=state)
    dataflow_runner.Cancelling(DataflowPipelineResult(job, service)).wait_until_finish()


def test_ctrl_c_cancels_the_job_and_waits_until_it_has_ended() -> None:
    """The signal decides the exit code."""
    service = Service([STATES.JOB_STATE_RUNNING, STATES.JOB_STATE_CANCELLING, STATES.JOB_STATE_CANCELLED])
    with pytest.raises(Cancelled):
        wait_for(service)

    assert service.requested[0] == "job-7 JOB_STATE_CANCELLED"
    assert service.states == [STATES.JOB_STATE_CANCELLED]


def test_a_job_that_has_ended_is_not_cancelled() -> None:
    """An error of the job itself leads here, too."""
    service = Service([STATES.JOB_STATE_FAILED])
    with pytest.raises(Cancelled):
        wait_for(service, STATES.JOB_STATE_FAILED)

    assert service.requested == []


def test_a_job_that_does_not_end_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may still write."""
    monkeypatch.setattr(dataflow_runner, "_LIMIT", 0.1)
    with pytest.raises(NotCancelled, match=r"Dataflow job job-7 was not cancelled within 0\.1 s"):
        wait_for(Service([STATES.JOB_STATE_RUNNING]))


def test_a_job_of_the_same_name_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed may have left it."""

    def refuse(*_: Any) -> Any:
        raise apiclient.DataflowJobAlreadyExistsError("There is already active job named x with id: 7.")

    monkeypatch.setattr(DataflowRunner, "run_pipeline", refuse)
    with pytest.raises(PenstockError, match=r"still runs, perhaps of a run that was killed: .* id: 7"):
        dataflow_runner.CancellingRunner().run_pipeline(None, None)
