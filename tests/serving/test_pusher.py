"""Promise B13: a version is complete or absent, version numbers only increase, and only blessed models are pushed."""

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from tfx.proto import pusher_pb2
from tfx.types import standard_artifacts
from tfx.types.artifact import Artifact
from tfx.utils import proto_utils

from components.errors import DiskFull
from components.serving import live, publish
from components.serving import versions as versions_of
from components.serving.disk_push import push
from components.serving.live import LiveModel, Move
from components.serving.publish import Home
from components.serving.pusher import PushExecutor

PROJECT = Path(__file__).resolve().parents[2]
FILES = {
    "saved_model.pb": b"graph" * 100,
    "fingerprint.pb": b"print",
    "variables/variables.index": b"names",
    "variables/variables.data-00000-of-00001": b"weights" * 10_000,
    **{f"assets/{number}.txt": b"asset %d" % number for number in range(12)},
}
# Copies the first file, reports it, and waits to be killed.
HALF_A_PUSH = """
import shutil, sys, time
from pathlib import Path
from components.serving import disk_push

def half(source, target, **_):
    shutil.copyfile(Path(source, "saved_model.pb"), Path(target, "saved_model.pb"))
    print("copying", flush=True)
    time.sleep(600)

disk_push.shutil.copytree = half
disk_push.push(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder with subfolders."""
    folder = tmp_path / "model"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    """The serving folder, which does not exist yet."""
    return tmp_path / "serving"


def versions(serving: Path) -> list[str]:
    """Returns the versions that a model server sees: folders named by a number."""
    return sorted((entry.name for entry in serving.iterdir() if entry.name.isdecimal()), key=int)


def content(folder: Path) -> dict[str, bytes]:
    """Returns every file of a folder."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


class TestAtomicity:
    """A version is complete or does not exist."""

    def test_every_file_is_pushed(self, model: Path, serving: Path) -> None:
        """The first version is 1, and it is the only one."""
        pushed = push(model, serving)

        assert (pushed, content(pushed)) == (serving / "1", FILES)
        assert versions(serving) == ["1"]

    def test_the_source_model_is_kept(self, model: Path, serving: Path) -> None:
        """It is copied, not moved."""
        push(model, serving)

        assert content(model) == FILES

    @pytest.mark.slow
    def test_a_killed_push_leaves_no_version(self, model: Path, serving: Path) -> None:
        """SIGKILL while copying; the next push removes the leftovers and succeeds."""
        push(model, serving)
        process = subprocess.Popen(
            [sys.executable, "-c", HALF_A_PUSH, str(model), str(serving)],
            cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "copying\n"
        process.kill()
        process.communicate()
        leftovers = [entry for entry in serving.iterdir() if entry.is_dir() and entry.name != "1"]

        assert process.returncode == -signal.SIGKILL
        assert (versions(serving), len(leftovers)) == (["1"], 1)

        pushed = push(model, serving)

        assert content(pushed) == FILES
        assert versions(serving) == ["1", pushed.name]
        assert not leftovers[0].exists()

    def test_a_model_that_does_not_fit_is_not_pushed(self, model: Path, tiny_disk: Path) -> None:
        """B5: the message says needed and free, nothing is left, and the live version stays the latest."""
        (model / "variables" / "variables.data-00000-of-00001").write_bytes(b"weights" * 4_000)
        shutil.rmtree(model / "assets")
        serving = tiny_disk / "serving"
        push(model, serving)
        before = content(serving)
        full = rf"^{serving}: the model needs 0.0 MB, its disk has 0.0 MB free; nothing was pushed"
        with pytest.raises(DiskFull, match=full):
            push(model, serving)

        assert content(serving) == before

    def test_a_server_never_sees_an_incomplete_version(self, model: Path, serving: Path) -> None:
        """It polls without a pause during twenty pushes; every version it lists is complete."""
        serving.mkdir()
        broken: list[str] = []
        polls, over = 0, threading.Event()

        def poll() -> None:
            nonlocal polls
            while not over.is_set():
                broken.extend(version for version in versions(serving) if content(serving / version) != FILES)
                polls += 1

        reader = threading.Thread(target=poll)
        reader.start()
        try:
            pushed = [push(model, serving).name for _ in range(20)]
        finally:
            over.set()
            reader.join()

        assert (broken, pushed) == ([], [str(number) for number in range(1, 21)])
        assert polls > 1


class TestVersions:
    """Version numbers only increase."""

    def test_two_pushes_within_a_second_are_two_versions(self, model: Path, serving: Path) -> None:
        """Versions are counted, not taken from the clock."""
        assert [push(model, serving).name for _ in range(3)] == ["1", "2", "3"]

    def test_the_number_of_a_deleted_version_is_not_reused(self, model: Path, serving: Path) -> None:
        """A server that has loaded it would not load another model under the same number."""
        push(model, serving)
        shutil.rmtree(push(model, serving))

        assert push(model, serving).name == "3"

    def test_versions_of_other_tools_count(self, model: Path, serving: Path) -> None:
        """TFX's own Pusher uses the time as version."""
        (serving / "1731600000").mkdir(parents=True)

        assert push(model, serving).name == "1731600001"

    @pytest.mark.parametrize("name", ["latest", "1.5", "-7", "v3", "²", ".7"])
    def test_other_folders_do_not_count(self, model: Path, serving: Path, name: str) -> None:
        """They are not changed either."""
        (serving / name).mkdir(parents=True)

        assert push(model, serving).name == "1"
        assert (serving / name).is_dir()


def artifact(kind: type[Artifact], uri: Path) -> Any:
    """Returns a TFX artifact."""
    made = kind()
    made.uri = str(uri)
    return made


@pytest.fixture
def execute(tmp_path: Path, model: Path, serving: Path) -> Callable[..., Any]:
    """Runs the executor as TFX does, on a blessed or an unblessed model; returns the PushedModel."""
    shutil.copytree(model, tmp_path / "trained" / "Format-Serving")
    custom = {"pipeline": "image", "metadata": "some.db", "root": str(tmp_path)}

    def do(blessed: bool, **more: Any) -> Any:
        blessing = artifact(standard_artifacts.ModelBlessing, tmp_path / "blessing")
        blessing.set_int_custom_property("blessed", int(blessed))
        trained = artifact(standard_artifacts.Model, tmp_path / "trained")
        for name, value in {"trained_on": "data", "spans": "s00003,s00004", "run": "monday"}.items():
            trained.set_string_custom_property(name, value)
        pushed = artifact(standard_artifacts.PushedModel, tmp_path / "pushed")
        destination = pusher_pb2.PushDestination(filesystem={"base_directory": str(serving)})
        PushExecutor().Do(
            {"model": [trained], "model_blessing": [blessing]},
            {"pushed_model": [pushed]},
            {
                "push_destination": proto_utils.proto_to_json(destination),
                "custom_config": orjson.dumps({**custom, **more}).decode(),
            },
        )
        return pushed

    return do


class TestExecutor:
    """The executor of the node."""

    def test_a_blessed_model_is_pushed(self, execute: Callable[[bool], Any], serving: Path) -> None:
        """The artifact has its folder and version, in TFX's properties and in pushed.json."""
        pushed = execute(True)
        outcome = orjson.loads(Path(pushed.uri, "pushed.json").read_bytes())

        assert FILES.items() <= content(serving / "1").items()
        assert outcome == {"pushed": True, "destination": str(serving / "1"), "version": "1"}
        assert pushed.get_int_custom_property("pushed") == 1
        assert pushed.get_string_custom_property("pushed_destination") == str(serving / "1")
        assert pushed.get_string_custom_property("pushed_version") == "1"

    def test_a_pushed_model_has_its_provenance(
        self, execute: Callable[[bool], Any], serving: Path, tmp_path: Path
    ) -> None:
        """For another pipeline that uses it as a pretrained model, and for the live pointer."""
        execute(True)
        provenance = orjson.loads((serving / "1" / "assets.extra" / "provenance.json").read_bytes())
        pointer = live.read(tmp_path)
        del provenance["move"]

        assert provenance == {
            "pipeline": "image",
            "metadata": "some.db",
            "root": str(tmp_path),
            "id": 0,
            "uri": str(tmp_path / "trained"),
        }
        assert pointer is not None
        assert pointer.live.model == LiveModel(
            0, str(tmp_path / "trained"), versions_of.digest_of(tmp_path / "trained" / "Format-Serving"),
            "data", ("s00003", "s00004"), "monday",
        )  # fmt: skip

    def test_a_further_try_pushes_no_second_version(
        self, execute: Callable[..., Any], serving: Path, tmp_path: Path
    ) -> None:
        """B10: what the try before has pushed is taken if it is whole, recorded or not; another run pushes again."""
        execute(True)
        (tmp_path / "live.json").unlink()
        again = execute(True, highest_version_before=0)
        (serving / "1" / "saved_model.pb").write_bytes(b"damaged")
        third = execute(True, highest_version_before=0)
        execute(True, highest_version_before=2)

        assert [each.get_string_custom_property("pushed_version") for each in (again, third)] == ["1", "2"]
        assert versions(serving) == ["1", "2", "3"]

    def test_a_model_that_was_withdrawn_is_not_pushed(
        self, execute: Callable[[bool], Any], model: Path, serving: Path, tmp_path: Path
    ) -> None:
        """A run with other settings of the Evaluator would otherwise undo a rollback."""
        home = Home("image", tmp_path, serving, "some.db")
        other = Move("push", "", live.now(), "ann", "", LiveModel(9, "other"))
        first = publish.publish(model, home, other)
        execute(True)
        publish.publish(model, home, replace(other, kind="rollback", source=first.folder))
        pushed = execute(True)

        assert orjson.loads(Path(pushed.uri, "pushed.json").read_bytes()) == {"pushed": False, "withdrawn": True}
        assert versions(serving) == ["1", "2", "3"]

    def test_an_unblessed_model_is_not_pushed(self, execute: Callable[[bool], Any], serving: Path) -> None:
        """C6: the serving folder is not created, and pushed.json says so."""
        pushed = execute(False)

        assert not serving.exists()
        assert orjson.loads(Path(pushed.uri, "pushed.json").read_bytes()) == {"pushed": False}
        assert pushed.get_int_custom_property("pushed") == 0
