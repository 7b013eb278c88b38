"""Finds the model that a user names."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from components.errors import SettingsError
from components.inference import find_model
from components.serving import live
from components.serving.live import LiveModel, Move
from components.serving.reading import Argument, Reading

command = importlib.import_module("pipelines.cli.predict")  # the package has a command of this name
READING = Reading((Argument("x", "x", "number", "float"),), "label", "quantity")


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    """Versions 2 and 10, a version that is not complete, and a temporary folder."""
    for name in ("2", "10", "11", ".aside-0-12"):
        READING.write(tmp_path / name)
    for name in ("2", "10", ".aside-0-12"):
        (tmp_path / name / "saved_model.pb").write_bytes(b"")
    return tmp_path


def test_the_highest_complete_version(serving: Path) -> None:
    """By number, not by name."""
    found = find_model.find(serving)

    assert (found.path, found.version, found.reading) == (serving / "10", "10", READING)


def test_the_digest_is_that_of_the_content(serving: Path) -> None:
    """Two copies of a model have the same one; another file changes it."""
    ten, two = find_model.find(serving / "10").digest, find_model.find(serving / "2").digest
    (serving / "2" / "variables").write_bytes(b"other")

    assert ten == two
    assert find_model.find(serving / "2").digest != ten


def test_live_needs_a_pipeline() -> None:
    """It names the flags."""
    with pytest.raises(SettingsError, match=r"of which pipeline\? name it with --root runs/NAME"):
        command._model("live", None)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [({"root": "somewhere"}, "somewhere/serving"), ({"name": "mine"}, "runs/mine/serving")],
)
def test_live_is_below_the_root(flags: dict[str, Any], expected: str, monkeypatch: Any, tmp_path: Path) -> None:
    """As `penstock run` pushes it."""
    monkeypatch.chdir(tmp_path)
    chosen = {"task": None, "root": None, "name": None, "settings_file": None, "flags": [], **flags}
    _, serving = command._settings(**chosen)

    assert command._model("live", serving) == tmp_path / expected


def test_live_is_what_the_pointer_says(serving: Path, tmp_path: Path) -> None:
    """Not the highest version of the serving folder, which another pipeline may share."""
    move = Move("push", str(serving / "2"), live.now(), "ann", "", LiveModel(1, "model"))
    live.write(tmp_path, lambda pointer: live.follow(pointer, [move], "image"))

    assert find_model.live(tmp_path, serving) == serving / "2"
    assert find_model.live(None, serving) == serving


def test_a_version_of_another_pipeline_is_not_live(serving: Path, tmp_path: Path) -> None:
    """Before the first push to a shared folder; a version that names the pipeline is, if nothing was recorded."""
    root = tmp_path / "root"
    (serving / "2" / "assets.extra" / "provenance.json").write_text('{"pipeline": "mine"}')

    assert find_model.live(root, serving, "mine") == serving / "2"
    for name in ("other", ""):
        with pytest.raises(SettingsError, match=r"none of the versions in .* is known to be one of the pipeline in"):
            find_model.live(root, serving, name)
