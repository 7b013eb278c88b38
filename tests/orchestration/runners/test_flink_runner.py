"""What a failed job on Flink becomes in the submitting process. The runner itself: tests/engine."""

import pytest

from components.errors import BadInput, PenstockError
from pipelines.orchestration.runners.flink_runner import _JobMonitor, _progress

JAVA = """\
java.util.concurrent.ExecutionException: java.lang.RuntimeException: Error received from SDK harness for instruction 7:
Traceback (most recent call last):
  File "components/ingest/run.py", line 1, in process
{last}
\tat org.apache.beam.sdk.fn.data.CompletableFutureInboundDataClient.fail
"""


def raised_for(last: str) -> BaseException:
    """Returns the error of a job whose worker's traceback ends with a line."""
    with pytest.raises(PenstockError) as caught:
        _JobMonitor("job-1", "Ingest", None, 60)._raise(RuntimeError(JAVA.format(last=last)))
    return caught.value


def test_an_error_of_ours_keeps_its_class_and_message() -> None:
    """A worker's BadInput ends the run with exit code 4, as on the direct runner."""
    error = raised_for("components.errors.BadInput: a.csv: line 3: no label [while running 'WriteShards']")

    assert (type(error), str(error)) == (BadInput, "a.csv: line 3: no label")


@pytest.mark.parametrize("end", ["", " [while running 'WriteShards']"])
def test_an_error_of_ours_keeps_all_lines_of_its_message(end: str) -> None:
    """A list of bad files is not cut after its first line."""
    error = raised_for(f"components.errors.BadInput: 2 files are unreadable:\n  - a.csv\n  - b.csv; remove them{end}")

    assert str(error) == "2 files are unreadable:\n  - a.csv\n  - b.csv; remove them"


def test_a_setting_that_a_worker_lacks_is_one_of_the_engines_shell() -> None:
    """Credentials that the submitter has may be missing on workers: the message says where to set them."""
    error = raised_for("components.errors.SettingsError: s3:// needs credentials [while running 'WriteShards']")

    assert str(error).startswith("s3:// needs credentials (a worker on Flink says so")


def test_any_other_error_is_the_last_line_of_the_workers_traceback() -> None:
    """The message names node, job and the error."""
    error = raised_for("ValueError: bad shape [while running 'Decode']")

    assert str(error) == "Ingest failed on Flink (job job-1): ValueError: bad shape [while running 'Decode']"
    assert not isinstance(error, BadInput)


def test_a_name_that_is_no_error_class_is_not_looked_up() -> None:
    """Text of a worker cannot select anything but our own errors."""
    error = raised_for("components.errors.exit_code_of: x")

    assert "failed on Flink" in str(error)


def test_progress_counts_stages_and_elements() -> None:
    """Finished vertices of all vertices, and the elements that they passed on."""
    vertices = [
        {"status": "FINISHED", "metrics": {"write-records": 1000}},
        {"status": "RUNNING", "metrics": {"write-records": 234}},
    ]

    assert _progress(vertices).place == "Flink stage 1/2  1,234 elements"


def test_credentials_that_a_store_refuses_are_those_of_the_engines_shell() -> None:
    """A wrong secret on workers ends as an input that cannot be read, with where to correct it."""
    error = raised_for("PermissionError: [Errno 13] 403 SignatureDoesNotMatch: 's3://bucket/rows.csv'")

    assert isinstance(error, BadInput)
    assert str(error).startswith("Ingest: an object store refused a worker: PermissionError: [Errno 13] 403 Signature")
    assert "the shell that started the engine" in str(error)
