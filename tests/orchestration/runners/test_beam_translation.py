"""Beam finds the same state and timers of a DoFn as before, and inspects a class once; options keep their values."""

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions, TypeOptions
from apache_beam.transforms import userstate
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from pipelines.orchestration.runners import beam_translation

COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())


class Plain(beam.DoFn):
    """Has no state."""

    def process(self, element: Any) -> list[Any]:
        """Returns the element."""
        return [element]


class Stateful(beam.DoFn):
    """Declares state as a parameter's default, as Beam expects it."""

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> list[Any]:  # noqa: B008
        """Returns the element."""
        del count
        return [element]


class Borrowing(beam.DoFn):
    """Gets its method from another object."""

    def __init__(self, other: beam.DoFn) -> None:
        self.process = other.process


@pytest.fixture(autouse=True, scope="module")
def _faster() -> None:
    """Beam with our change."""
    beam_translation.speed_up()


@pytest.mark.parametrize(
    ("dofn", "expected"),
    [
        (Plain(), set()),
        (Stateful(), {COUNT}),
        (Borrowing(Plain()), set()),
        (Borrowing(Stateful()), {COUNT}),
    ],
)
def test_state_of_a_dofn_is_found(dofn: beam.DoFn, expected: set[Any]) -> None:
    """Whether its class declares it or the instance has a method that does; a second look finds the same."""
    assert [userstate.get_dofn_specs(dofn), userstate.get_dofn_specs(dofn)] == [(expected, set())] * 2


def test_class_is_inspected_once() -> None:
    """Two instances of a class have one result."""
    assert userstate.get_dofn_specs(Stateful()) is userstate.get_dofn_specs(Stateful())


def test_views_of_options_share_their_values() -> None:
    """A value set in one view is seen by the others."""
    options = PipelineOptions(["--runner=DirectRunner"])
    options.view_as(TypeOptions).pipeline_type_check = False

    assert options.view_as(StandardOptions).view_as(TypeOptions).pipeline_type_check is False
    assert options.view_as(TypeOptions) is options.view_as(TypeOptions)
    assert options.get_all_options(drop_default=True) == {"runner": "DirectRunner", "pipeline_type_check": False}
