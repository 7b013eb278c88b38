"""When a Beam worker process dies, whoever waits for it is told."""

from collections.abc import Iterator
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker import statesampler
from apache_beam.utils.counters import CounterFactory

from components import beam_workers
from components.errors import PenstockError


def raises() -> Iterator[Any]:
    """A stream as gRPC breaks it off."""
    raise grpc.RpcError
    yield


@pytest.fixture
def connection() -> Any:
    """Returns what Beam holds of one worker."""
    beam_workers.watch()
    return worker_handlers.ControlConnection()


@pytest.mark.parametrize("stream", [iter(()), raises()], ids=["ends", "breaks"])
def test_an_answer_that_is_awaited_ends_in_an_error(connection: Any, stream: Iterator[Any]) -> None:
    """The stream of a killed worker breaks or just ends: gRPC does either. Data that is awaited asks is_done."""
    answer = connection.push(beam_fn_api_pb2.InstructionRequest())
    connection.set_input(stream)
    with pytest.raises(PenstockError, match="a Beam worker process died"):
        answer.get(timeout=60)

    assert answer.is_done()


def test_a_question_to_a_dead_worker_ends_in_an_error(connection: Any) -> None:
    """It died while it had nothing to do."""
    connection.set_input(iter(()))
    connection._read_thread.join()
    with pytest.raises(PenstockError, match="a Beam worker process died"):
        connection.push(beam_fn_api_pb2.InstructionRequest()).get(timeout=60)


def test_an_answer_that_came_stays(connection: Any) -> None:
    """A worker that is sent home after its work is not dead."""
    answer = connection.push(beam_fn_api_pb2.InstructionRequest(instruction_id="i"))
    response = beam_fn_api_pb2.InstructionResponse(instruction_id="i")
    connection.set_input(iter([response]))
    connection._read_thread.join()

    assert answer.get(timeout=60) == response


def test_a_stage_ends_with_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam waits for a clock that sleeps longer and longer between its looks: not for more than milliseconds here."""
    made = statesampler.StateSampler.__init__
    monkeypatch.setattr(made, "__defaults__", made.__defaults__)

    beam_workers.end_soon()

    sampler = statesampler.StateSampler("stage", CounterFactory())
    assert sampler.sampling_period_ms == 5
