"""Run ids and the names of MLMD contexts."""

import re

import pytest

from components.errors import SettingsError
from pipelines.journal import run_id


def test_a_new_id_is_valid_and_has_the_time() -> None:
    """It is short, and ids sort by time."""
    made = run_id.new()

    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", made)
    assert run_id.check(made) == made


def test_ids_of_airflow_are_valid() -> None:
    """They have colons, a plus and dots."""
    assert run_id.check("manual__2026-11-19T01:44:33.123456+00:00") == "manual__2026-11-19T01:44:33.123456+00:00"


@pytest.mark.parametrize("text", ["", ".", "../up", "a/b", "-f", "a~2", "a b", "a\n", "a\0", "ü", "a" * 101])
def test_what_is_no_file_name_everywhere_is_rejected(text: str) -> None:
    """D4: neither a path, nor an option, nor what separates the number of a call."""
    with pytest.raises(SettingsError, match="not a run id"):
        run_id.check(text)


def test_each_call_has_a_context_of_its_own() -> None:
    """The first one is named as the run."""
    contexts = [run_id.context_of("R", call) for call in (1, 2, 11)]

    assert contexts == ["R", "R~2", "R~11"]
    assert {run_id.of_context(name) for name in contexts} == {"R"}
