"""Beam's runner for Dataflow, whose job does not outlive the run.

submit ─► a job of this root and node runs already ─► an error that names it
     └─► wait ─► Ctrl-C, SIGTERM, a lost connection ─► cancel, wait until it has ended, raise
"""

import contextlib
import time
from typing import Any

from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from apache_beam.runners.dataflow.internal.apiclient import DataflowJobAlreadyExistsError

from components import progress
from components.errors import PenstockError
from components.training import interrupt
from pipelines.engine.jobs import NotCancelled

_LIMIT = 600.0  # seconds; Dataflow takes some minutes to stop its workers
_POLL = 5.0


class CancellingRunner(DataflowRunner):
    """Runs one pipeline as one Dataflow job."""

    def run_pipeline(self, pipeline: Any, options: Any, pipeline_proto: Any = None) -> Any:
        """Submits the pipeline, and returns a result that cancels the job if waiting for it fails."""
        try:
            return Cancelling(super().run_pipeline(pipeline, options, pipeline_proto))
        except DataflowJobAlreadyExistsError as error:
            raise PenstockError(
                f"a Dataflow job of this root and node still runs, perhaps of a run that was killed: {error} Cancel it "
                "in Google's console, or by `gcloud dataflow jobs cancel`, wait until it has ended, and run again"
            ) from None


class Cancelling:
    """A pipeline's result. An error while somebody waits for it cancels the job."""

    def __init__(self, result: Any) -> None:
        """Takes Beam's result."""
        self._result = result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._result, name)

    def wait_until_finish(self, duration: int | None = None) -> Any:
        """Returns the final state."""
        try:
            return self._result.wait_until_finish(duration)
        except BaseException:
            with interrupt.ignored():
                self._cancel()
            raise

    def _cancel(self) -> None:
        """Cancels the job unless it has ended; raises NotCancelled if it does not end."""
        if self._result.is_in_terminal_state():
            return
        job, end, reason = self._result.job_id(), time.monotonic() + _LIMIT, "it did not end"
        progress.say(f"cancelling the Dataflow job {job} and waiting until it has ended")
        while time.monotonic() < end:
            try:
                self._result.cancel()
            except Exception as error:  # noqa: BLE001 - asked again; the last one is shown
                reason = str(error)
            with contextlib.suppress(Exception):
                if self._result.state and self._result.is_in_terminal_state():
                    return
            time.sleep(_POLL)
        raise NotCancelled(
            f"the Dataflow job {job} was not cancelled within {_LIMIT:g} s ({reason}), so it may still write; cancel "
            "it in Google's console before you run again"
        )
