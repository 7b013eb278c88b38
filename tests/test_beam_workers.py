"""When a Beam worker process dies, pending requests end with an error."""

from collections.abc import Iterator
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
    beam_workers.watch()
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
