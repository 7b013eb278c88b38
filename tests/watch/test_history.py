"""Runs from metadata and journal: what each of them says, and which of them counts."""

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import orjson
import pytest

from components.errors import SettingsError
from components.storage import durable
from pipelines import config as run_config
from pipelines.config.metadata_server import Server
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.orchestration.metadata.store import Store
from pipelines.watch import history, pipelines, status
from pipelines.watch.history import Run
from pipelines.watch.status import LiveVersion


def states(run: Run) -> dict[str, str]:
    """Returns the state of each node."""
    return {node.node: node.state for node in run.nodes}


def test_a_pipeline_that_never_ran_has_no_runs(runs: Any) -> None:
    """There is neither metadata nor a journal."""
    assert history.runs(runs.pipeline) == []


def test_runs_that_only_the_metadata_has_are_listed(runs: Any) -> None:
    """Those of other machines, and of versions without run ids; their state is that of their nodes."""
    runs.executions("2026-11-18T03:00:00+00:00", {"Ingest": "COMPLETE", "Pusher": "CACHED"})
    runs.executions("b", {"Ingest": "CACHED", "Trainer": "FAILED"})
    runs.executions("c", {"Ingest": "RUNNING"})
    found = history.runs(runs.pipeline)

    assert [(run.id, run.state, run.exit_code) for run in found] == [
        ("c", "running", None),
        ("b", "failed", None),
        ("2026-11-18T03:00:00+00:00", "succeeded", None),
    ]
    assert states(found[2]) == {"Ingest": "ran", "Pusher": "cached"}


def test_a_node_that_an_earlier_call_ran_is_not_cached(runs: Any) -> None:
    """A later call of the same run only uses what it made; one that failed and then succeeded, succeeded."""
    runs.executions("R", {"Ingest": "COMPLETE", "Schema": "FAILED"})
    runs.executions("R~2", {"Ingest": "CACHED", "Schema": "COMPLETE", "Gate": "FAILED"})
    for code in (1, 5):
        runs.call("R", code, nodes=({"id": "Ingest", "state": "ran" if code == 1 else "cached", "reason": f"{code}"},))
    (run,) = history.runs(runs.pipeline)

    assert (run.state, run.exit_code, len(run.calls)) == ("gate stopped", 5, 2)
    assert states(run) == {"Ingest": "ran", "Schema": "ran", "Gate": "failed"}
    assert run.nodes[0].reason == "1"


def test_a_run_of_many_calls_is_one_of_the_newest(runs: Any) -> None:
    """Airflow starts a call per node: each of the newest runs has all its nodes, however few runs are asked for."""
    nodes = ("Ingest", "Schema", "Trainer")
    for run in ("a", "b", "c"):
        for call, node in enumerate(nodes):
            runs.executions(f"{run}~{call + 1}" if call else run, {node: "COMPLETE"})
            runs.call(run)
    found = history.runs(runs.pipeline, 2)

    assert [(run.id, tuple(states(run))) for run in found] == [("c", nodes), ("b", nodes)]


def rewrite(runs: Any, *changes: dict[str, str]) -> None:
    """Changes the calls of run R in the journal."""
    file = runs.pipeline.calls / "R.json"
    made = [{**values, **change} for values, change in zip(orjson.loads(file.read_bytes()), changes, strict=True)]
    file.write_bytes(orjson.dumps(made))


def test_a_run_that_was_killed_ends_with_its_last_event(runs: Any) -> None:
    """The next run, which may come hours later, closes its executions in the metadata; they did not last until then."""
    runs.executions("R", {"Ingest": "COMPLETE", "Trainer": "RUNNING"})
    runs.call("R")
    begun = datetime.fromisoformat(history.runs(runs.pipeline)[0].nodes[1].started)
    rewrite(runs, {"started": (begun - timedelta(minutes=1)).isoformat(timespec="milliseconds"), "ended": ""})
    runs.pipeline.logs.mkdir()
    event = {"time": (begun + timedelta(hours=1)).isoformat(timespec="milliseconds"), "event": "progress"}
    (runs.pipeline.logs / "R.jsonl").write_bytes(orjson.dumps(event) + b'\n{"time": "20')
    Store(runs.config.metadata, "image", read_only=False).close_killed_executions()
    (run,) = history.runs(runs.pipeline)

    assert (run.state, run.ended, states(run)) == ("killed", "", {"Ingest": "ran", "Trainer": "killed"})
    assert (run.seconds, run.nodes[1].seconds, run.nodes[1].ended) == (3660, 3600, "")


def test_a_killed_call_does_not_last_until_the_run_is_resumed(runs: Any) -> None:
    """The hours between two calls are of none, and what the second one made is not of the first."""
    runs.executions("R~2", {"Ingest": "CACHED", "Trainer": "COMPLETE"})
    for _ in range(2):
        runs.call("R")
    second = {"started": "2020-01-01T09:00:00.000+00:00", "ended": "2020-01-01T09:00:09.000+00:00"}
    rewrite(runs, {"started": "2020-01-01T00:00:00.000+00:00", "ended": ""}, second)

    assert [(run.state, run.seconds) for run in history.runs(runs.pipeline)] == [("succeeded", 9)]


def test_a_file_that_is_being_written_is_no_run(runs: Any) -> None:
    """Of a run that starts now, or was killed in that moment."""
    runs.call("R")
    durable.temporary_of(runs.pipeline.calls / "S.json").write_text("[")

    assert [run.id for run in history.runs(runs.pipeline)] == ["R"]
    assert [found[0].run for found in calls.newest_first(runs.pipeline.calls)] == ["R"]


def test_a_call_with_nothing_due_leaves_a_run_succeeded(runs: Any) -> None:
    """A retry of a task that had succeeded finds nothing to do."""
    runs.call("R")
    runs.call("R", state="nothing due")
    runs.call("S", state="nothing due")

    assert {run.id: run.state for run in history.runs(runs.pipeline)} == {"R": "succeeded", "S": "nothing due"}


def test_metrics_and_version_of_the_metadata_come_first(runs: Any) -> None:
    """The journal has them for runs that used earlier outputs."""
    runs.executions("R", {"Evaluator": "COMPLETE"}, facts='{"metrics": {"accuracy": 0.5, "examples": 9}}')
    runs.executions("R", {"Pusher": "COMPLETE"}, facts='{"pushed": true, "version": "4"}')
    runs.call("R", metrics={"accuracy": 0.9}, version="3")
    runs.call("S", metrics={"accuracy": 0.9}, version="3")
    found = {run.id: (dict(run.metrics), run.version, run.has_pushed) for run in history.runs(runs.pipeline)}

    assert found == {"R": ({"accuracy": 0.5}, "4", True), "S": ({"accuracy": 0.9}, "3", False)}


def test_the_newest_runs_are_read_alone(runs: Any) -> None:
    """Of the metadata and of the journal."""
    for name in "abc":
        runs.executions(name, {"Ingest": "COMPLETE"})
        runs.call(name)
    runs.call("d", state="nothing due")

    assert [run.id for run in history.runs(runs.pipeline, 2)] == ["d", "c"]


def test_the_newest_runs_of_many(runs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history that is read does not grow with the runs before them; MLMD hands executions over by the hundred."""
    for number in range(120):
        runs.executions(f"{number:03}", {"Ingest": "COMPLETE", "Trainer": "FAILED"})
    counted: list[int] = []
    read = Store.executions_in

    def counting(store: Store, *which: int) -> list[Any]:
        found = read(store, *which)
        counted.append(len(found))
        return found

    monkeypatch.setattr(Store, "executions_in", counting)
    store = Store(runs.config.metadata, "image")
    newest = store.by_run(3)
    few = sum(counted)

    assert [(run, [each.node for each in found]) for run, found in newest.items()] == [
        (run, ["Ingest", "Trainer"]) for run in ("119", "118", "117")
    ]
    assert few <= 3 * 3 * 2
    assert newest == dict(list(store.by_run().items())[:3])


def test_the_newest_runs_of_one_of_several_pipelines(make_runs: Callable[..., Any]) -> None:
    """Of a database that has newer runs of others."""
    mine, other = make_runs("root", "mine"), make_runs("root", "other")
    for number in range(5):
        mine.executions(f"mine {number}", {"Ingest": "COMPLETE"})
    for number in range(5):
        other.executions(f"other {number}", {"Ingest": "COMPLETE"})

    assert list(Store(mine.config.metadata, "mine").by_run(2)) == ["mine 4", "mine 3"]


def test_a_run_is_found_by_the_beginning_of_its_id(runs: Any) -> None:
    """If it is the only one; `last` is the newest."""
    for name in ("20261119-1", "20261119-2", "20261120-1"):
        runs.call(name)

    assert [history.run(runs.pipeline, name).id for name in ("20261119-1", "20261120", "last")] == [
        "20261119-1",
        "20261120-1",
        "20261120-1",
    ]
    for number in range(5):
        runs.call(f"old-{number}")
    for wrong, message in (("20261119", "2 runs begin with it"), ("2025", "has no such run"), ("", "has no such run")):
        with pytest.raises(SettingsError, match=message):
            history.run(runs.pipeline, wrong)
    with pytest.raises(SettingsError, match=r"expected one of penstock runs list, such as old-4, old-3, old-2$"):
        history.run(runs.pipeline, "2025")


def test_pipelines_below_a_folder_are_found(make_runs: Callable[..., Any], tmp_path: Path) -> None:
    """In it and one level deeper, by journal or metadata; through no link, and no other folders."""
    for folder, name in (("many/b", "image"), ("many/a", "x"), ("many/a", "y"), ("elsewhere", "image")):
        make_runs(folder, name).call("R")
    make_runs("many/c", "old").executions("R", {"Ingest": "COMPLETE"})
    (tmp_path / "many" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "many" / "other").mkdir()
    found = pipelines.find(tmp_path / "many")

    assert [(each.name, each.task, each.state.name) for each in found] == [
        ("x", "image", "a"),
        ("y", "image", "a"),
        ("image", "image", "b"),
        ("old", "", "c"),
    ]
    assert found[2].serving == tmp_path / "many" / "b" / "serving"
    assert pipelines.find(tmp_path / "elsewhere")[0].name == "image"
    with pytest.raises(SettingsError, match="no such folder"):
        pipelines.find(tmp_path / "missing")


def test_a_root_that_was_copied_is_another_one(runs: Any, tmp_path: Path) -> None:
    """Its journal names the old place; through a link, a root is the one that its runs named."""
    runs.call("R")
    shutil.copytree(tmp_path / "root", tmp_path / "copies" / "copy")
    (tmp_path / "link").symlink_to(tmp_path / "root")
    found = [pipelines.find(tmp_path / name)[0] for name in ("copies", "link")]

    assert [(each.root, each.serving) for each in found] == [
        (tmp_path / "copies" / "copy", tmp_path / "copies" / "copy" / "serving"),
        (tmp_path / "root", tmp_path / "root" / "serving"),
    ]


def test_a_run_has_the_name_of_its_record(runs: Any) -> None:
    """D7: the id is the name of its log and of its report; one with a path would lead out of the root."""
    runs.call("R")
    file = runs.pipeline.calls / "R.json"
    file.write_text(file.read_text().replace('"R"', '"../../outside"'))

    assert [run.id for run in history.runs(runs.pipeline)] == ["R"]


def test_a_root_on_an_object_store_is_known_by_its_state_folder(tmp_path: Path) -> None:
    """Its runs are read without a request to the store."""
    config = run_config.make("image", data=".", root="s3://bucket/root", state=str(tmp_path / "state"))
    with calls.opened(config, Origin("R")) as call:
        call.end(0, "", live=4)
    (found,) = pipelines.find(tmp_path)
    state = status.of(found, datetime.now(timezone.utc))

    assert (str(found.root), str(found.serving)) == ("s3://bucket/root", "s3://bucket/root/serving")
    assert (found.state, found.metadata) == (tmp_path / "state", tmp_path / "state" / "metadata.db")
    assert state.live == LiveVersion(4)
    assert [run.id for run in state.runs] == ["R"]


def test_a_root_that_names_a_place_that_cannot_be_read(tmp_path: Path) -> None:
    """A copied root whose record names a path that no file system takes is known by its own folder."""
    config = run_config.make("image", data=".", root=str(tmp_path / "copy"))
    with calls.opened(config, Origin("R")) as call:
        call.end(0, "")
    file = calls.folder_of(config.notes, config.name) / "R.json"
    file.write_text(file.read_text().replace(str(tmp_path / "copy"), f"/{'x' * 300}"))
    (found,) = pipelines.find(tmp_path)

    assert found.root == tmp_path / "copy"


def test_metadata_on_a_server_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: by its URI without the password, which the environment has."""
    uri = "mysql://me@db.example/penstock"
    config = run_config.make("image", data=".", root=str(tmp_path), metadata=uri.replace("me@", "me:passw0rd@"))
    with calls.opened(config, Origin("R")) as call:
        call.end(0, "")
    monkeypatch.setenv("PENSTOCK_METADATA_PASSWORD", "from-env")
    (found,) = pipelines.find(tmp_path)

    assert isinstance(found.metadata, Server)
    assert (str(found.metadata), found.metadata.password) == ("mysql://me@db.example:3306/penstock", "from-env")
    assert "passw0rd" not in (found.calls / "R.json").read_text()
