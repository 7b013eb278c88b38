"""Which artifact is measured."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.errors import SettingsError
from pipelines import config
from pipelines.bench import locate
from pipelines.config import RunConfig


@pytest.fixture
def pipeline(tmp_path: Path) -> RunConfig:
    """A pipeline that has not run yet."""
    return config.make("image", data=str(tmp_path), root=str(tmp_path / "root"))


def artifact(folder: Path) -> Path:
    """Makes a folder that looks like an output of Ingest."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return folder


def test_a_named_artifact(tmp_path: Path, pipeline: RunConfig) -> None:
    """The user's choice wins."""
    named = artifact(tmp_path / "shards")

    assert locate.examples(pipeline, str(named)) == named


def test_a_folder_that_is_no_artifact(tmp_path: Path, pipeline: RunConfig) -> None:
    """The error says what is expected."""
    with pytest.raises(SettingsError, match="expected a folder that `penstock ingest` or the Ingest node has written"):
        locate.examples(pipeline, str(tmp_path))


def test_the_newest_artifact(
    tmp_path: Path, pipeline: RunConfig, open_metadata: Callable[[Path], Callable[..., Any]]
) -> None:
    """Failed, deleted, missing and other pipelines' artifacts do not count."""
    pipeline.state.mkdir()
    record = open_metadata(pipeline.state / "metadata.db")
    wanted = artifact(tmp_path / "2")
    record("Ingest", outputs={"examples": artifact(tmp_path / "1")})
    record("Ingest", outputs={"examples": wanted})
    record("Ingest", outputs={"examples": tmp_path / "3"})
    record("Ingest", outputs={"examples": artifact(tmp_path / "4")}, live=False)
    record("Ingest", outputs={"examples": artifact(tmp_path / "5")}, state="FAILED")
    record("Ingest", outputs={"examples": artifact(tmp_path / "6")}, pipeline="other")

    assert locate.examples(pipeline) == wanted


def test_a_pipeline_that_has_not_run(pipeline: RunConfig) -> None:
    """Nothing is found, and looking for it creates nothing."""
    assert locate.newest(pipeline, "Ingest", "manifest.json") is None
    assert not pipeline.root.exists()
