"""B1, B2: SIGKILL at seeded moments over the whole chain, in every node, each followed by another run; SIGTERM.

`make test` kills each node once, `make test-all` twice.
"""

import json
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.records import manifest
from pipelines.orchestration import graph

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NODES = [node.id for node in graph.NODES]
# Training receives a signal while its third call runs.
SIGNAL_IN_TRAINING = """
import os, signal
from components.training.calls import Calls
call, calls = Calls.__call__, []
def third(self, iterator, left):
    calls.append(self)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGTERM)
    return call(self, iterator, left)
Calls.__call__ = third
"""


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.all)])
def kills(request: pytest.FixtureRequest) -> int:
    """How often each node is killed."""
    return int(request.param)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, kills: int) -> Path:
    """A folder with a place for temporary files."""
    folder = tmp_path_factory.mktemp(f"kills-{kills}-")
    (folder / "temporary").mkdir()
    return folder


@pytest.fixture(scope="module")
def pipelines(
    home: Path, kills: int, table_run: Any, quick_table: tuple[str, ...], watched: Any, make_pipeline: Any
) -> tuple[Any, Any]:
    """A pipeline that was never killed, and one that was killed, each after its last run."""
    environment = {"TMPDIR": str(home / "temporary")}
    killed = make_pipeline(table_run.data, home / "killed", task="tabular", environment=environment)
    for moment in moments(json.loads((table_run.root.parent / "counts.json").read_text()), kills):
        ended = killed.run(*quick_table, before=watched(home / "none", moment))
        assert ended.code == -signal.SIGKILL, (moment, ended.output)
    result = killed.run(*quick_table)
    assert result.code == 0, result.output
    return table_run, killed


def moments(counts: dict[str, int], kills: int) -> list[list[Any]]:
    """Returns nodes with the number of the event to be killed at, in the order of the chain.

    Only of the first 80 %: a later run may have fewer events.
    """
    draw = random.Random(7)
    return [[node, draw.randint(1, max(1, counts.get(node, 1) * 4 // 5))] for node in NODES for _ in range(kills)]


def finished(pipeline: Any, node: str) -> Any:
    """Returns the last execution of a node that ran and succeeded."""
    return next(pipeline.store().finished(node))


def output(pipeline: Any, node: str, key: str) -> Path:
    """Returns the folder of an output of a node's last finished execution."""
    (found,) = [each.uri for each in pipeline.store().outputs(finished(pipeline, node).id) if each.name == key]
    return Path(found)


def results(pipeline: Any) -> dict[str, Any]:
    """Returns what a run leads to: bytes of shards and vocabularies, metrics, and the weights of the served model."""
    examples, fitted = output(pipeline, "Ingest", "examples"), output(pipeline, "Transform", "transform_graph")
    versions = [int(each.name) for each in (pipeline.root / "serving").iterdir() if each.name.isdigit()]
    served = tf.train.load_checkpoint(str(pipeline.root / "serving" / str(max(versions)) / "variables" / "variables"))
    return {
        "shards": {each.name: (examples / each.name).read_bytes() for each in manifest.read(examples).shards},
        "assets": {each.name: each.read_bytes() for each in (fitted / "transform_fn" / "assets").iterdir()},
        "metrics": finished(pipeline, "Evaluator").facts["metrics"],
        "weights": {
            name: served.get_tensor(name).tolist()
            for name, dtype in served.get_variable_to_dtype_map().items()
            if dtype.is_floating
        },
    }


def files(root: Path) -> set[str]:
    """Returns all files in a root, with N for numbers of executions and versions, digests and times."""
    names = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    return {
        re.sub(
            r"(?<=/)\d+(?=/)|(?<=seals/)\w+|(?<=logs/)[\w-]+|(?<=runs/tabular/)[\w-]+|(?<=tfevents).+|(?<=model_card-)\d+",
            "N",
            name,
        )
        for name in names
    }


def test_runs_after_kills_lead_to_the_same_result(pipelines: tuple[Any, Any]) -> None:
    """B1: shards, vocabularies, metrics and the served weights are those of a run that was never killed."""
    whole, killed = pipelines

    assert results(killed) == results(whole)


def test_killed_executions_are_marked_failed(pipelines: tuple[Any, Any], kills: int) -> None:
    """B1: no execution stays open, and each node has finished once."""
    _, killed = pipelines
    found = {node: [each.state for each in killed.store().executions(node)] for node in NODES if node != "Baseline"}
    states = {node: sorted(state for state in each if state != "CACHED") for node, each in found.items()}

    assert states == {node: ["COMPLETE", *["FAILED"] * kills] for node in states}


def test_leftovers_of_killed_runs_are_collected(pipelines: tuple[Any, Any], home: Path) -> None:
    """B1: the root has the files of a run that was never killed, one folder per output, and no temporary file."""
    whole, killed = pipelines
    outputs = [each.parent for node in NODES for each in (killed.root / node).glob("[!.]*/*")]

    assert files(killed.root) == files(whole.root)
    assert len(outputs) == len(set(outputs))
    assert list((home / "temporary").iterdir()) == []


def test_stopped_training_continues_in_the_next_run(pipelines: tuple[Any, Any], quick_table: tuple[str, ...]) -> None:
    """B2: SIGTERM within an epoch: checkpoint, state cancelled, exit code 143; the next run finishes and removes it."""
    _, pipeline = pipelines
    longer = (*quick_table, "--set", "train.epochs=2", "--set", "train.steps_per_call=1", "--to", "Trainer")
    stopped = pipeline.run(*longer, before=SIGNAL_IN_TRAINING)
    left = [path.name for path in (pipeline.root / "checkpoints").glob("*/*")]
    state = pipeline.newest("Trainer").state
    again = pipeline.run(*longer)

    assert stopped.code == 143, stopped.output
    assert (state, left) == ("CANCELED", ["checkpoint"])
    assert again.code == 0, again.output
    assert re.search(r"resumed at epoch 1, step 3 \(stopped by SIGTERM at \d\d:\d\d:\d\d\)", again.output)
    assert list((pipeline.root / "checkpoints").iterdir()) == []


def test_schema_of_a_run_killed_in_ingest_is_not_in_force(
    pipelines: tuple[Any, Any], home: Path, quick_table: tuple[str, ...], watched: Any
) -> None:
    """B1: --from Trainer uses the schema that the Schema node published last."""
    _, killed = pipelines
    schema = output(killed, "Schema", "schema") / "schema.pbtxt"
    narrow = re.sub(r'feature \{\n  name: "code".*?\n\}\n', "", schema.read_text(), flags=re.DOTALL)
    (home / "narrow.pbtxt").write_text(narrow)
    other = ("--schema", str(home / "narrow.pbtxt"), "--force", "Ingest")
    ended = killed.run(*quick_table, *other, before=watched(home / "none", ["Ingest", 1]))
    result = killed.run(*quick_table, "--from", "Trainer", "--to", "Trainer", "--set", "train.seed=2")
    model = output(killed, "Trainer", "model") / "Format-Serving" / "saved_model.pb"

    assert ended.code == -signal.SIGKILL, ended.output
    assert result.code == 0, result.output
    assert b"raw_code" in model.read_bytes()
