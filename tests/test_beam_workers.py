"""Beam's worker processes: their death is an error, they listen on loopback, and import no file of the user."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers

from components import beam_workers
from components.errors import PenstockError


def raises() -> Iterator[Any]:
    """A stream that gRPC breaks."""
    raise grpc.RpcError
    yield


@pytest.fixture
def connection() -> Any:
    """Beam's connection to one worker."""
    beam_workers.prepare()
    return worker_handlers.ControlConnection()


@pytest.mark.parametrize("stream", [iter(()), raises()], ids=["ends", "breaks"])
def test_a_pending_request_ends_with_an_error(connection: Any, stream: Iterator[Any]) -> None:
    """The stream of a killed worker breaks or just ends. Code that waits for data polls `is_done`."""
    answer = connection.push(beam_fn_api_pb2.InstructionRequest())
    connection.set_input(stream)
    with pytest.raises(PenstockError, match="a Beam worker process died"):
        answer.get(timeout=60)

    assert answer.is_done()


def test_a_request_to_a_dead_worker_ends_with_an_error(connection: Any) -> None:
    """It died while nothing was pending."""
    connection.set_input(iter(()))
    connection._read_thread.join()
    with pytest.raises(PenstockError, match="a Beam worker process died"):
        connection.push(beam_fn_api_pb2.InstructionRequest()).get(timeout=60)


def test_an_answer_that_has_arrived_stays(connection: Any) -> None:
    """A worker that is shut down after its work has not died."""
    answer = connection.push(beam_fn_api_pb2.InstructionRequest(instruction_id="i"))
    response = beam_fn_api_pb2.InstructionResponse(instruction_id="i")
    connection.set_input(iter([response]))
    connection._read_thread.join()

    assert answer.get(timeout=60) == response


PIPELINE = """
import os
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from components import beam_workers

def look(number):
    import json, os, pathlib, psutil
    ours = psutil.Process(int(os.environ["STARTED_BY"]))
    listening = {
        each.laddr.ip for process in (ours, *ours.children(recursive=True))
        for each in process.net_connections("inet") if each.status == "LISTEN"
    }
    pathlib.Path(f"seen-{os.getpid()}.json").write_text(json.dumps([sorted(listening), json.__file__]))
    return number

if __name__ == "__main__":
    os.environ["STARTED_BY"] = str(os.getpid())
    beam_workers.prepare()
    flags = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        pipeline | beam.Create([1, 2, 3]) | beam.Map(look)
"""


@pytest.mark.slow
def test_worker_processes_listen_on_loopback_and_import_nothing_from_the_working_folder(tmp_path: Path) -> None:
    """D7, D11: two real worker processes, in a folder with files that are named like modules of Python."""
    for name in ("json.py", "io.py", "grpc.py", "components/__init__.py", "snappy.py"):
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__ + ' ')")
    (tmp_path / "run.py").write_text(PIPELINE)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py")],
        cwd=tmp_path / "work", capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    seen = [json.loads(path.read_text()) for path in (tmp_path / "work").glob("seen-*.json")]

    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
    assert {file for _, file in seen} == {json.__file__}
    assert {address.removeprefix("::ffff:") for listening, _ in seen for address in listening} <= {"127.0.0.1", "::1"}
    assert all(listening for listening, _ in seen)
