"""What the history says of real runs: finished, with nothing due, in several calls, killed, failed."""

import signal
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import orjson
import pytest

from pipelines import config as run_config
from pipelines.journal import calls
from pipelines.notify import after_call
from pipelines.orchestration import graph
from pipelines.watch import history, pipelines
from pipelines.watch.history import Run

pytestmark = pytest.mark.e2e
NODES = [node.id for node in graph.NODES]


def runs_in(root: Path) -> list[Run]:
    """Returns the runs of the only pipeline in a root, newest first."""
    return history.runs(pipelines.choose(root, None))


def states(run: Run) -> dict[str, str]:
    """Returns the state of each node."""
    return {node.node: node.state for node in run.nodes}


def test_a_finished_run_is_known_by_one_id_everywhere(table_run: Any) -> None:
    """In its output, its log, the metadata, the lineage of its model and the report."""
    (run,) = [each for each in runs_in(table_run.root) if each.nodes]
    with closing(sqlite3.connect(table_run.root / "metadata.db")) as database:
        contexts = database.execute(
            "SELECT Context.name FROM Context JOIN Type ON type_id = Type.id WHERE Type.name = 'pipeline_run'"
        ).fetchall()
    trained = table_run.newest("Trainer")
    (model,) = [each for each in table_run.store().outputs(trained.id) if each.name == "model"]

    assert (run.state, run.exit_code, run.version, run.live) == ("succeeded", 0, "1", 1)
    assert states(run) == dict.fromkeys(NODES, "ran")
    assert run.records == {"train": 317, "eval": 43, "test": 40}
    assert {node.node: node.records for node in run.nodes}["Ingest"] == 400
    assert run.has_pushed
    assert contexts == [(run.id,)]
    assert model.properties["run"] == run.id
    assert run.log == table_run.root / "logs" / f"{run.id}.log"
    assert f"<dd>{run.id}</dd>" in (table_run.root / "report.html").read_text()


def test_a_finished_run_is_told_as_pushed(table_run: Any) -> None:
    """And one that stopped after the Trainer as nothing: notifications read what real runs write."""
    config = run_config.make("tabular", data=str(table_run.data), root=str(table_run.root))
    (call,) = [made[-1] for made in calls.newest_first(calls.folder_of(config.notes, config.name)) if made[-1].nodes]
    nodes = tuple({**node, "state": "skipped" if node["id"] == "Pusher" else node["state"]} for node in call.nodes)
    now = datetime.now(timezone.utc)
    occurrences = [after_call._of_call(config, each, now) for each in (call, replace(call, nodes=nodes))]

    assert [(each.kind, each.has_pushed) for each in occurrences if each] == [("well", True), ("unfinished", False)]
    assert occurrences[0]
    assert (occurrences[0].about.version, occurrences[0].about.live_version) == ("1", 1)
    assert occurrences[0].about.report == str(config.report_of(call.run))


def test_a_run_with_nothing_due_is_known_too(table_run: Any, quick_table: tuple[str, ...], restored: Any) -> None:
    """The metadata does not have it; it has the result of the model that is live, and no log."""
    with restored(table_run.root):
        result = table_run.run(*quick_table, "--run-id", "again")
        newest, before = runs_in(table_run.root)[:2]

    assert result.output.splitlines()[0] == "run again"
    assert (newest.id, newest.state, newest.exit_code, newest.nodes, newest.log) == (
        "again",
        "nothing due",
        0,
        (),
        None,
    )
    assert (newest.metrics, newest.version, newest.has_pushed) == (before.metrics, "1", False)


@pytest.fixture(scope="module")
def in_parts(
    rows: Path, tmp_path_factory: Any, make_pipeline: Any, quick_table: tuple[str, ...], fork_server: Any
) -> tuple[Path, list[Run]]:
    """A run in five calls, the third killed, the fourth failed, the fifth resumed: its root, and its history."""
    home = tmp_path_factory.mktemp("parts")
    data = home / "rows.csv"
    data.write_text(rows.read_text())
    pipeline = make_pipeline(data, home / "root", task="tabular")
    flags, seen = (*quick_table, "--run-id", "parts"), []
    assert pipeline.run(*flags, "--to", "Ingest").code == 0
    seen += runs_in(pipeline.root)
    data.write_text(rows.read_text() + "1.5,a,x\n" * 40)
    assert pipeline.run(*flags, "--to", "StatisticsGen").code == 0
    seen += runs_in(pipeline.root)
    process = pipeline.start(*flags, "--to", "Transform")
    pipeline.wait_until_running("Transform", process)
    seen += runs_in(pipeline.root)
    process.stop(signal.SIGKILL)
    seen += runs_in(pipeline.root)
    broken = "import components.fitting.component as c\nc.SpanTransformExecutor.Do = lambda *_: 1 / 0"
    assert pipeline.run(*flags, "--to", "Transform", before=broken).code == 1
    seen += runs_in(pipeline.root)
    assert fork_server.run("runs", "resume", "parts", "--root", str(pipeline.root)).code == 0
    seen += runs_in(pipeline.root)
    return pipeline.root, seen


def test_calls_with_one_id_are_one_run(in_parts: tuple[Path, list[Run]]) -> None:
    """A node reads what the same call published, not what an earlier call published from other data too."""
    _, seen = in_parts

    assert [(run.id, len(run.calls)) for run in seen] == [("parts", calls) for calls in (1, 2, 3, 3, 4, 5)]
    assert [run.state for run in seen] == ["succeeded", "succeeded", "running", "killed", "failed", "succeeded"]
    assert {node.node: (node.state, node.records) for node in seen[1].nodes} == {
        "Ingest": ("ran", 440),
        "Schema": ("ran", None),
        "StatisticsGen": ("ran", 440),
    }


def test_a_running_node_and_a_killed_one_are_named(in_parts: tuple[Path, list[Run]]) -> None:
    """After the kill nothing says so but that the process is gone."""
    _, (*_, running, killed, _, _) = in_parts

    assert (running.node.node, running.exit_code, running.ended) == ("Transform", None, "")  # type: ignore[union-attr]
    assert (states(killed)["Transform"], killed.node, killed.ended) == ("killed", None, "")
    assert killed.reason == "the process of the run ended without a result: it was killed, or its disk was full"


def test_a_failed_run_has_its_reason(in_parts: tuple[Path, list[Run]]) -> None:
    """And the node that failed, in the history and in its events."""
    root, (*_, failed, _) = in_parts
    lines = [orjson.loads(line) for line in (root / "logs" / "parts.jsonl").read_bytes().splitlines()]
    kept = [(line["event"], line["state"]) for line in lines if line["event"] in ("node failed", "run ended")]

    assert (states(failed)["Transform"], failed.exit_code) == ("failed", 1)
    assert failed.reason == "division by zero"
    assert kept[-3:] == [("node failed", "failed"), ("run ended", "failed"), ("run ended", "succeeded")]


def test_a_resumed_run_goes_on_where_it_stopped(in_parts: tuple[Path, list[Run]]) -> None:
    """With the flags of its last call: the nodes that had finished are not run again."""
    _, (*_, failed, resumed) = in_parts
    before = {node.node: node.execution for node in failed.nodes}

    assert resumed.calls[-1].command == failed.calls[-1].command
    assert [node.node for node in resumed.nodes if node.execution != before[node.node]] == ["Transform"]
    assert resumed.nodes[-1].state == "ran"
