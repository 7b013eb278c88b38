"""B13 on an object store: versions rise, a killed push is never taken for a model, its number is not used again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest

from components.errors import PenstockError
from components.serving import store_push
from components.storage.objects import ObjectPath

PROJECT = Path(__file__).resolve().parents[2]
# Pushes a model, and kills itself before the upload of a file, or before the commit.
KILLED = """
import os, signal, sys
from pathlib import Path
from components.serving import store_push
from components.storage.objects import ObjectPath
upload, replace = ObjectPath.upload, ObjectPath.replace_if
def end(): os.kill(os.getpid(), signal.SIGKILL)
def uploading(self, local):
    if self.name == sys.argv[3]: end()
    upload(self, local)
def replacing(self, content, identity):
    if sys.argv[3] == "commit" and b"complete" in content: end()
    return replace(self, content, identity)
ObjectPath.upload, ObjectPath.replace_if = uploading, replacing
store_push.push(Path(sys.argv[1]), ObjectPath(sys.argv[2]))
"""


@pytest.fixture
def serving(s3_bucket: str) -> ObjectPath:
    """An empty serving folder on a real S3 server."""
    return ObjectPath(s3_bucket) / "serving"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with the files of a SavedModel."""
    folder = tmp_path / "model"
    for name in ("saved_model.pb", "fingerprint.pb", "variables/variables.index", "assets/labels"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"content of {name}")
    return folder


def killed(model: Path, serving: ObjectPath, moment: str) -> None:
    """Pushes in a process that is killed at a moment."""
    command = [sys.executable, "-c", KILLED, str(model), str(serving), moment]
    assert subprocess.run(command, cwd=PROJECT, check=False).returncode == -signal.SIGKILL


def complete(serving: ObjectPath) -> set[str]:
    """Returns the versions that a server which polls the folder would load."""
    return {name.partition("/")[0] for name in serving.files_below() if name.endswith("/saved_model.pb")}


def test_a_push_writes_all_files_and_its_provenance(model: Path, serving: ObjectPath) -> None:
    """The manifest of the version lists them, with size and identity."""
    target = store_push.push(model, serving, {"pipeline": "image"})

    listed = target.files_below()
    assert str(target) == f"{serving}/1"
    assert (target / "assets/labels").read_text() == "content of assets/labels"
    assert orjson.loads((target / "assets.extra/provenance.json").read_bytes()) == {"pipeline": "image"}
    written = orjson.loads((serving / ".versions/1.json").read_bytes())
    assert written["files"] == {name: [stat.st_size, stat.identity] for name, stat in listed.items()}
    assert store_push.versions(serving) == [1]


def test_racing_pushes_get_numbers_of_their_own(model: Path, serving: ObjectPath) -> None:
    """None of them removes what another one uploads."""
    with ThreadPoolExecutor(6) as pool:
        targets = list(pool.map(lambda _: store_push.push(model, serving), range(6)))

    assert sorted(int(target.name) for target in targets) == [1, 2, 3, 4, 5, 6]
    assert all(len(target.files_below()) == 4 for target in targets)
    assert store_push.versions(serving) == [1, 2, 3, 4, 5, 6]
    assert store_push.push(model, serving).name == "7"
    assert store_push.push(model, serving, above=8).name == "9"


@pytest.mark.parametrize("moment", ["fingerprint.pb", "saved_model.pb"])
def test_a_killed_push_is_no_model(model: Path, serving: ObjectPath, moment: str) -> None:
    """A reader finds no saved_model.pb; the next push removes the files and takes another number."""
    killed(model, serving, moment)
    assert complete(serving) == set()

    assert store_push.push(model, serving).name == "2"
    assert (serving / "1").files_below() == {}
    assert complete(serving) == {"2"}
    assert store_push.versions(serving) == [2]


def test_a_push_killed_before_its_commit_is_finished_by_the_next(model: Path, serving: ObjectPath) -> None:
    """All its files are there, and a server may have loaded them: they stay."""
    killed(model, serving, "commit")
    assert complete(serving) == {"1"}
    assert store_push.versions(serving) == []

    assert store_push.push(model, serving).name == "2"
    assert store_push.versions(serving) == [1, 2]
    assert len((serving / "1").files_below()) == 4


def test_a_reader_that_polls_never_sees_a_part(model: Path, serving: ObjectPath) -> None:
    """Whenever saved_model.pb is listed, all other files are."""
    with ThreadPoolExecutor(1) as pool:
        pushes = pool.submit(lambda: [store_push.push(model, serving) for _ in range(5)])
        seen = []
        while not pushes.done():
            names = serving.files_below()
            versions = {name.partition("/")[0] for name in names if name.endswith("/saved_model.pb")}
            seen += [sum(name.startswith(f"{version}/") for name in serving.files_below()) for version in versions]
        pushes.result()

    assert set(seen) <= {4}


def test_a_push_from_another_machine_is_left_alone(model: Path, serving: ObjectPath) -> None:
    """Its process cannot be seen from here; until it is an hour old, it may be at work."""
    claim = {"state": "uploading", "id": "x", "host": "another", "pid": os.getpid(), "born": 0.0}
    (serving / ".versions/4.json").write_bytes(orjson.dumps(claim))
    (serving / "4/fingerprint.pb").write_bytes(b"part")

    assert store_push.push(model, serving).name == "5"
    assert (serving / "4/fingerprint.pb").read_bytes() == b"part"


@pytest.fixture
def taken_for_dead(serving: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Another push reads the first version, and takes its process for dead, after the upload of a file."""
    upload = ObjectPath.upload

    def at(name: str) -> None:
        def uploading(self: ObjectPath, local: Path) -> None:
            upload(self, local)
            if self == serving / "1" / name:
                store_push._sweep(serving)

        monkeypatch.setattr(store_push, "_is_alive", lambda _: False)
        monkeypatch.setattr(ObjectPath, "upload", uploading)

    return at


def test_a_push_that_another_one_finished_is_pushed(
    model: Path, serving: ObjectPath, taken_for_dead: Callable[[str], None]
) -> None:
    """The version stays: it is complete, and a server may have loaded it."""
    taken_for_dead("saved_model.pb")

    assert store_push.push(model, serving) == serving / "1"
    assert store_push.versions(serving) == [1]
    assert len((serving / "1").files_below()) == 4


def test_a_push_that_another_one_gave_up_leaves_nothing(
    model: Path, serving: ObjectPath, taken_for_dead: Callable[[str], None]
) -> None:
    """What it uploaded after that is deleted, too."""
    taken_for_dead("assets/labels")

    with pytest.raises(PenstockError, match="another push gave this version up"):
        store_push.push(model, serving)
    assert (serving / "1").files_below() == {}
    assert store_push.push(model, serving).name == "2"


@pytest.mark.parametrize("state", ["uploading", "finishing", "complete"])
def test_a_push_whose_answer_was_lost_goes_on(
    model: Path, serving: ObjectPath, lost_answers: Callable[[str], None], state: str
) -> None:
    """Its claim was written, although the store refused the repeated request."""
    lost_answers(f'"state":"{state}"')

    assert store_push.push(model, serving).name == "1"
    assert store_push.versions(serving) == [1]
    assert len((serving / "1").files_below()) == 4
