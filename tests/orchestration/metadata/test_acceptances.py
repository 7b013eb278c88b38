"""Findings that a person accepted: for one state of the data, and no other."""

from pathlib import Path

import pytest

from components.errors import BadInput, FlagError
from components.serving import live
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import acceptances


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    """A run of somebody."""
    monkeypatch.setenv(live.ACTOR, "ada")
    return run_config.make("image", data=str(tmp_path), root=str(tmp_path / "root"))


def accepted(config: RunConfig, data: str, *findings: str, live_digest: str = "7") -> list[tuple[str, str, str]]:
    """Accepts findings as a run does; returns what is accepted for the data."""
    made = acceptances.make(config, data, live_digest, "s00003", findings, "new tariff")
    config.notes.mkdir(parents=True, exist_ok=True)
    acceptances.write(config, made)
    return [(each["finding"], each["who"], each["because"]) for each in made.all]


def test_what_was_accepted_stays_accepted_for_the_same_data(config: RunConfig) -> None:
    """Without the flag, and beside what is accepted later; with who and why."""
    first = ("drift:größe", "ada", "new tariff")

    assert accepted(config, "a", "drift:größe") == [first]
    assert accepted(config, "a") == [first]
    assert accepted(config, "a", "classes:label", "drift:größe") == [("classes:label", "ada", "new tariff"), first]


def test_nothing_is_accepted_for_the_next_span(config: RunConfig) -> None:
    """Its data is other data; what was accepted for the one before is kept."""
    accepted(config, "a", "drift:age")

    assert accepted(config, "b") == []
    assert accepted(config, "b", "missing:age") == [("missing:age", "ada", "new tariff")]
    assert [each[0] for each in accepted(config, "a")] == ["drift:age"]


def test_nothing_is_accepted_against_another_live_model(config: RunConfig) -> None:
    """The same data may differ from it by more, and in another way."""
    accepted(config, "a", "drift:age")

    assert accepted(config, "a", live_digest="8") == []
    assert accepted(config, "a", "missing:age", live_digest="8") == [("missing:age", "ada", "new tariff")]
    assert [each[0] for each in accepted(config, "a")] == ["drift:age"]


@pytest.mark.parametrize(
    ("finding", "because", "message"),
    [
        ("age", "why", r"^--accept age: expected a finding as the Gate names it, such as drift:age"),
        ("drift:", "why", r"^--accept drift:: expected a finding"),
        ("drift:age", " ", r"^--accept drift:age: expected a reason, which is recorded: --because"),
    ],
)
def test_a_finding_needs_a_name_and_a_reason(config: RunConfig, finding: str, because: str, message: str) -> None:
    """Anything else is an error of the flags."""
    with pytest.raises(FlagError, match=message):
        acceptances.make(config, "a", "7", "s00003", [finding], because)


def test_a_damaged_file_is_named(config: RunConfig) -> None:
    """It is not taken for an empty one."""
    config.notes.mkdir(parents=True)
    (config.notes / acceptances.FILE).write_text("[")

    with pytest.raises(BadInput, match=r"accepted\.json: damaged"):
        acceptances.make(config, "a", "7", "s00003", [], "")
