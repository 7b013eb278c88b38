"""Promise B13: rollback is one command; a reader never loads a broken version, and versions only increase."""

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from components.errors import BadInput, Locked, NotBlessed, SettingsError
from components.inference import find_model
from components.serving import live, versions
from components.storage import durable
from pipelines import cli
from pipelines import config as run_config
from pipelines.journal import calls
from pipelines.operate import models
from pipelines.operate.models import Wish
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.root import leftovers, lock
from pipelines.watch.metrics import FILE

PROJECT = Path(__file__).resolve().parents[2]
WHY = Wish("bad labels")
# Rolls back, and kills itself at a moment.
KILLED = """
import os, signal, sys
from components.serving import disk_push, live, publish
from components.storage import durable
from pipelines import config
from pipelines.operate import models
def end(*_): os.kill(os.getpid(), signal.SIGKILL)
copy, write = disk_push.copy, durable.write_bytes
if sys.argv[2] == "copying":
    disk_push.copy = lambda *files: (copy(*files), end())
if sys.argv[2] == "published":
    publish.catch_up, real = (lambda home, *rest: end() if rest == () else real(home, *rest)), publish.catch_up
if sys.argv[2] == "writing":
    def temporary(target, content, **_):
        if target.name == "live.json":
            durable.temporary_of(target).write_bytes(content[:90])
            end()
        write(target, content, **_)
    durable.write_bytes = temporary
models.rollback(config.make("image", data=".", root=sys.argv[1]), None, models.Wish("killed"))
"""


def history(root: Any) -> list[tuple[int, str, int]]:
    """Returns version, kind and model of each move."""
    pointer = live.read(root.config.root)
    assert pointer is not None
    return [(move.version, move.kind, int(move.model.uri.rpartition("/")[2])) for move in pointer.moves]


class TestRollback:
    """An earlier version again, as the next one."""

    def test_the_version_before_is_published_as_the_next_one(self, root: Any) -> None:
        """Byte for byte, with its lineage, who and why; a second rollback leads further back."""
        root.pushed(1, 2, 3)
        move = models.rollback(root.config, None, WHY)

        assert (root.served(4), history(root)[-1]) == (root.model(2), (4, "rollback", 2))
        assert (move.actor, move.reason, move.source) == ("ann@host", "bad labels", str(root.config.serving / "2"))
        assert (move.model.data_digest, move.model.spans, move.model.run) == ("data 2", ("s00002",), "run 2")
        assert models.rollback(root.config, None, WHY).version == 5
        assert root.served(5) == root.model(1)
        with pytest.raises(SettingsError, match="from version 5 leads to; there is no earlier version left"):
            models.rollback(root.config, None, WHY)

    def test_to_a_version(self, root: Any) -> None:
        """What is above it is rolled back, and is no target any more."""
        root.pushed(1, 2, 3)
        models.rollback(root.config, 1, WHY)

        assert history(root)[-1] == (4, "rollback", 1)
        with pytest.raises(SettingsError, match=r"^--to 2: no version that a rollback from version 4 leads to"):
            models.rollback(root.config, 2, WHY)

    def test_from_the_served_version_if_the_artifact_is_gone(self, root: Any) -> None:
        """Its files are restored: the next run compares with it."""
        root.pushed(1, 2)
        before = root.model(1)
        shutil.rmtree(root.config.root / "Trainer" / "model" / "1")
        models.rollback(root.config, None, WHY)

        assert root.served(3) == before == root.model(1)

    def test_what_is_damaged_is_refused(self, root: Any) -> None:
        """Nothing is published, and the live version stays; from an intact artifact it works."""
        root.pushed(1, 2)
        for folder in (root.config.root / "Trainer/model/1/Format-Serving", root.config.serving / "1"):
            (folder / "assets" / "labels").write_text("damaged")
        with pytest.raises(BadInput, match=r"^version 1: damaged or gone.*labels altered; .*: other files than were"):
            models.rollback(root.config, None, WHY)

        assert (sorted(root.served(2)), history(root)[-1][0]) == (sorted(root.model(2)), 2)
        assert not (root.config.serving / "3").exists()

    def test_the_model_card_follows(self, root: Any) -> None:
        """With the new number."""
        root.pushed(1, 2)
        card = {"model": {"version": "1", "live_version": 1}, "metrics": {"accuracy": 0.9}}
        (root.config.serving / "model_card-1.json").write_bytes(orjson.dumps(card))
        models.rollback(root.config, None, WHY)

        written = orjson.loads((root.config.serving / "model_card-3.json").read_bytes())
        assert written == {**card, "model": {"version": "3", "live_version": 3}}

    def test_a_root_in_use_is_left_alone(self, root: Any) -> None:
        """As by a second run."""
        root.pushed(1, 2)
        with lock.hold(root.config.notes), pytest.raises(Locked):
            models.rollback(root.config, None, WHY)
        assert len(history(root)) == 2

    def test_a_root_without_models(self, root: Any) -> None:
        """It says what to do."""
        with pytest.raises(SettingsError, match="pipeline image has pushed no model; expected at least one"):
            models.rollback(root.config, None, WHY)


class TestPromote:
    """Another model, as the next version."""

    def test_a_version_that_was_rolled_back(self, root: Any) -> None:
        """A person brings it back."""
        root.pushed(1, 2)
        models.rollback(root.config, None, WHY)
        models.promote(root.config, "2", WHY)

        assert (history(root)[-1], root.served(4)) == ((4, "promote", 2), root.model(2))

    def test_a_model_that_was_not_blessed(self, root: Any) -> None:
        """C6: only with --force and a reason."""
        root.pushed(1)
        folder = root.train(2, blessed=0).uri
        for wish in (WHY, Wish(force=True)):
            with pytest.raises(NotBlessed, match=f"^model {folder}: not blessed by the Evaluator"):
                models.promote(root.config, folder, wish)
        models.promote(root.config, folder, Wish("trial", force=True))

        assert (history(root)[-1], root.served(2)) == ((2, "promote", 2), root.model(2))

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("7", "version 7: no such version; expected 1 or 2"),
            ("2", "version 2: its model is live already, as version 2"),
            ("elsewhere", "the Trainer of image has written no such model; expected the number of a version"),
        ],
    )
    def test_what_cannot_be_promoted(self, root: Any, name: str, message: str) -> None:
        """The message names what is expected."""
        root.pushed(1, 2)
        with pytest.raises(SettingsError, match=message):
            models.promote(root.config, name, WHY)


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "published"), [("copying", 2), ("published", 3), ("writing", 3)])
def test_a_rollback_that_is_killed(root: Any, moment: str, published: int) -> None:
    """Readers of the pointer see a version as soon as it is published, never before; the next command records it."""
    root.pushed(1, 2)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(root.config.root), moment], cwd=PROJECT, check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    recorded, seen = len(history(root)), models.pointer_of(root.config)
    models.promote(root.config, "2" if published == 3 else "1", WHY)

    assert (recorded, seen.live.version) == (2, published)
    assert [version for version, _, _ in history(root)] == [1, 2, *([3] if published == 3 else []), 4]
    assert root.served(4) == root.model(2 if published == 3 else 1)


@pytest.mark.slow
def test_a_reader_never_loads_a_broken_version(make_served: Callable[..., Any]) -> None:
    """It loads and asks the highest version without a pause, during 51 pushes, rollbacks and promotions."""
    import tensorflow as tf

    class Constant(tf.Module):
        """Answers with a number."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = tf.Variable(float(number))

        @tf.function(input_signature=[], autograph=False)
        def answer(self) -> tf.Tensor:
            return self.number

    root = make_served()
    root.save = lambda number, folder: tf.saved_model.save(Constant(number), str(folder))
    first, second = root.train(1), root.train(2)
    answers = {root.push(first).version: 1.0}
    loaded: list[tuple[int, float]] = []
    broken: list[BaseException] = []
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            version = max(int(each.name) for each in root.config.serving.iterdir() if each.name.isdecimal())
            try:
                model = tf.saved_model.load(str(root.config.serving / str(version)))
                loaded.append((version, float(model.answer())))
            except Exception as error:  # noqa: BLE001 - whatever it is, the version is broken
                broken.append(error)

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for turn in range(13):
            answers[root.push(second).version] = 2.0
            answers[models.rollback(root.config, None, WHY).version] = 1.0
            answers[models.promote(root.config, "2", WHY).version] = 2.0
            if turn < 12:
                answers[models.rollback(root.config, None, WHY).version] = 1.0
    finally:
        over.set()
        reader.join()

    seen = [version for version, _ in loaded]
    assert (broken, list(answers)) == ([], list(range(1, 53)))
    assert seen == sorted(seen)
    assert len(set(seen)) > 5
    assert [(version, answers[version]) for version in seen] == loaded
    assert [version for version, _, _ in history(root)] == list(answers)


def test_a_push_into_a_serving_folder_that_was_deleted(root: Any) -> None:
    """Its version is above those of the record, so the pointer moves to it; no version is used twice."""
    root.pushed(1, 2, 3)
    shutil.rmtree(root.config.serving)
    move = root.push(root.train(4))

    assert history(root)[-1] == (4, "push", 4)
    assert (move.version, versions.complete(root.config.serving)) == (4, [4])
    assert find_model.live(root.config.root, root.config.serving, "image") == root.config.serving / "4"


def test_the_pointer_of_another_pipeline(root: Any) -> None:
    """Two names in one root would move each other's live model."""
    root.pushed(1, 2)
    other = run_config.make("tabular", data=".", root=str(root.config.root))
    for act in (models.pointer_of, lambda config: models.rollback(config, None, WHY)):
        with pytest.raises(SettingsError, match=r"live\.json: the live model is one of pipeline 'image', expected"):
            act(other)


@pytest.mark.parametrize("text", ["a\n9  live", "\x1b[31m", "bad \udcff", "a\u2028b"])
def test_a_reason_or_an_actor_that_is_not_one_line(text: str) -> None:
    """It would look like another version in the list, or could not be written."""
    with pytest.raises(SettingsError, match="--reason: expected one line of UTF-8 without control characters"):
        Wish(text)
    with pytest.raises(SettingsError, match="--actor: expected one line"):
        live.actor(text)


def test_a_rollback_to_the_live_model(root: Any) -> None:
    """An earlier version may have it: the pipeline returned to earlier settings."""
    first = root.train(1)
    for model in (first, root.train(2), first):
        root.push(model)
    with pytest.raises(SettingsError, match="version 1: its model is live already, as version 3"):
        models.rollback(root.config, 1, WHY)


def test_what_killed_writers_left_is_deleted(root: Any) -> None:
    """Temporary files of the live pointer, by the next run; those of the ledger, by its next writer."""
    left = durable.temporary_of(root.config.root / "live.json")
    left.touch()
    leftovers.collect(root.config, Store(root.config.metadata, "image"))

    assert not left.exists()


def test_pushes_at_once(root: Any) -> None:
    """Each gets a number of its own, and all are recorded in the order of their numbers."""
    trained = [root.train(number) for number in range(1, 7)]
    with ThreadPoolExecutor(6) as pool:
        moves = list(pool.map(root.push, trained))

    assert sorted(move.version for move in moves) == [1, 2, 3, 4, 5, 6]
    assert [version for version, _, _ in history(root)] == [1, 2, 3, 4, 5, 6]
    assert {move.version: root.served(move.version) for move in moves} == {
        move.version: root.model(int(move.model.uri.rpartition("/")[2])) for move in moves
    }


def test_on_an_object_store(make_served: Callable[..., Any], s3_bucket: str) -> None:
    """From the artifact, and from the served version if that is gone; a kill before the pointer is repaired."""
    root = make_served(f"{s3_bucket}/pipelines/image")
    first, _ = root.pushed(1, 2)
    models.rollback(root.config, None, WHY)
    models.promote(root.config, "2", WHY)
    before = root.model(1)
    (root.config.root / "Trainer" / "model" / "1").remove_tree()
    (root.config.root / "live.json").unlink()  # as if no process had come to write it
    seen = models.pointer_of(root.config)
    models.rollback(root.config, 3, WHY)

    assert history(root) == [(1, "push", 1), (2, "push", 2), (3, "rollback", 1), (4, "promote", 2), (5, "rollback", 1)]
    assert seen.moves[0] == first
    assert root.served(3) == root.served(5) == root.model(1) == before


class TestRows:
    """What `penstock models list` and `show` print."""

    def test_every_version_has_a_state(self, root: Any) -> None:
        """Newest first; a version whose folder is gone is named."""
        root.pushed(1, 2, 3)
        models.rollback(root.config, 2, WHY)
        shutil.rmtree(root.config.serving / "1")
        rows = models.rows(models.pointer_of(root.config))

        assert [(row["version"], row["state"], row["files"]) for row in rows] == [
            (4, "live", "complete"),
            (3, "rolled back", "complete"),
            (2, "replaced", "complete"),
            (1, "previous", "missing"),
        ]
        assert rows[0]["model"]["data_digest"] == "data 2"

    def test_a_version_that_was_promoted_is_replaced(self, root: Any) -> None:
        """Its model is live under a higher number; another version that the rollback undid is still rolled back."""
        root.pushed(1, 2, 3)
        models.rollback(root.config, 1, WHY)
        models.promote(root.config, "3", WHY)
        rows = models.rows(models.pointer_of(root.config))

        assert [(row["version"], row["state"]) for row in rows] == [
            (5, "live"), (4, "previous"), (3, "replaced"), (2, "rolled back"), (1, "replaced"),
        ]  # fmt: skip

    def test_models_are_named_by_their_folders(self, root: Any) -> None:
        """As `promote` takes them, and not by their ids in the metadata; a promotion names the version, too."""
        root.train(7, blessed=0)
        root.pushed(8, 9)
        models.rollback(root.config, None, WHY)
        place = ["--root", str(root.config.root)]
        promoted = CliRunner().invoke(cli.app, ["models", "promote", "image", "2", *place]).output
        listed = CliRunner().invoke(cli.app, ["models", "list", "image", *place]).output

        assert promoted.startswith("version 4 is live: version 2, model 9, published as")
        column = listed.splitlines()[0].index("model")
        assert [line[column:].split()[0] for line in listed.splitlines()[1:]] == ["9", "8", "9", "8"]

    def test_the_command_loads_nothing_heavy_and_writes_nothing(self, root: Any) -> None:
        """Neither does `show`; the list is the same as JSON and for people."""
        root.pushed(1, 2)
        before = root.files(root.config.root)
        script = (
            "import sys; from typer.testing import CliRunner; from pipelines.cli import app\n"
            "for more in (['list', 'image'], ['list', 'image', '--json'], ['show', 'image', '1']):\n"
            "    done = CliRunner().invoke(app, ['models', *more, '--root', sys.argv[1]]); print(done.output)\n"
            "print(*{'tensorflow', 'tfx', 'keras', 'apache_beam'} & set(sys.modules), 'END')"
        )
        command = [sys.executable, "-c", script, str(root.config.root)]
        out = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout
        text, _, rest = out.partition("{")
        listed, _, shown = rest.partition("\n}\n")

        assert [line.split()[:3] for line in text.splitlines()[1:3]] == [
            ["2", "live", "push"],
            ["1", "previous", "push"],
        ]
        assert [row["version"] for row in orjson.loads(f"{{{listed}}}")["versions"]] == [2, 1]
        assert "data digest  data 1" in shown
        assert out.endswith("\nEND\n")  # no heavy module before it
        assert root.files(root.config.root) == before


def test_the_metrics_name_the_live_version(root: Any) -> None:
    """At once, and not only after the next run."""
    root.pushed(1, 2)
    with calls.opened(root.config, calls.Origin("R")) as call:
        call.end(0, "pushed")
    place = ["--root", str(root.config.root)]
    for arguments, version in ((["rollback", "image"], 3), (["promote", "image", "2"], 4)):
        done = CliRunner().invoke(cli.app, ["models", *arguments, *place])

        assert done.exit_code == 0, done.output
        assert f'penstock_live_version{{pipeline="image"}} {version}.0' in (root.config.state / FILE).read_text()
