"""Which records are measured."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.errors import SettingsError
from pipelines import config
from pipelines.bench import records
from pipelines.config import RunConfig


@pytest.fixture
def pipeline(tmp_path: Path) -> RunConfig:
    """A root where nothing ran yet."""
    return config.make("image", data=str(tmp_path), root=str(tmp_path / "root"))


def artifact(folder: Path) -> Path:
    """Makes a folder that looks like an output of Ingest."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return folder


def test_an_artifact_that_is_named(tmp_path: Path, pipeline: RunConfig) -> None:
    """Is taken, whatever the root holds."""
    named = artifact(tmp_path / "shards")

    assert records.find(pipeline, str(named)) == named


def test_a_folder_that_is_no_artifact(tmp_path: Path, pipeline: RunConfig) -> None:
    """It says what was expected."""
    with pytest.raises(SettingsError, match="expected a folder that `penstock ingest` or the Ingest node wrote"):
        records.find(pipeline, str(tmp_path))


def test_the_newest_that_is_still_there(
    tmp_path: Path, pipeline: RunConfig, keep_books: Callable[[Path], Callable[..., Any]]
) -> None:
    """What failed, was deleted or belongs to another pipeline does not count."""
    pipeline.root.mkdir()
    record = keep_books(pipeline.metadata)
    wanted = artifact(tmp_path / "2")
    record("Ingest", outputs={"examples": artifact(tmp_path / "1")})
    record("Ingest", outputs={"examples": wanted})
    record("Ingest", outputs={"examples": tmp_path / "3"})
    record("Ingest", outputs={"examples": artifact(tmp_path / "4")}, live=False)
    record("Ingest", outputs={"examples": artifact(tmp_path / "5")}, state="FAILED")
    record("Ingest", outputs={"examples": artifact(tmp_path / "6")}, pipeline="other")

    assert records.find(pipeline) == wanted


def test_no_root_yet(pipeline: RunConfig) -> None:
    """Nothing is found, and nothing is made by looking."""
    assert records.newest(pipeline) is None
    assert not pipeline.root.exists()
