"""B1: SIGKILL at 20 seeded moments over the whole chain, at least one in every node, each followed by another run."""

import json
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.records import manifest
from pipelines.orchestration import graph

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NODES = [node.id for node in graph.NODES]
KILLS = 20
QUICK = ("--label", "kind", "--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0")

# Counts what each node does with files. At the given moment, or at the end of the node, the process group is killed.
WATCHED = """
import atexit, json, os, pathlib, signal, sys
from tfx.orchestration.portable import launcher
launch, counts, now, moment = launcher.Launcher.launch, {}, [""], MOMENT
def tick(event, arguments):
    if event == "open" or event.startswith(("os.", "shutil.", "tempfile.")):
        counts[now[0]] = counts.get(now[0], 0) + 1
        if [now[0], counts[now[0]]] == moment:
            os.killpg(0, signal.SIGKILL)
def watched(self):
    now[0] = self._pipeline_node.node_info.id
    launched = launch(self)
    if moment and moment[0] == now[0]:
        os.killpg(0, signal.SIGKILL)
    now[0] = ""
    return launched
launcher.Launcher.launch = watched
sys.addaudithook(tick)
atexit.register(lambda: pathlib.Path(COUNTS).write_text(json.dumps(counts)))
"""


def watched(counts: Path, moment: list[Any] | None = None) -> str:
    """Returns the code that counts events, or kills at one of them."""
    return WATCHED.replace("MOMENT", repr(moment)).replace("COUNTS", repr(str(counts)))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small table and a place for temporary files."""
    folder = tmp_path_factory.mktemp("kills")
    draw = random.Random(5)
    rows = [f"{draw.gauss(3 * (row % 2), 1):.3f},{draw.choice('abc')},{'xy'[row % 2]}" for row in range(400)]
    (folder / "rows.csv").write_text("\n".join(["width,code,kind", *rows, ""]))
    (folder / "temporary").mkdir()
    return folder


@pytest.fixture(scope="module")
def pipelines(home: Path, make_pipeline: Callable[..., Any]) -> tuple[Any, Any]:
    """A pipeline that was never killed, and one that was killed 20 times, each after its last run."""

    def make(name: str) -> Any:
        environment = {"TMPDIR": str(home / "temporary")}
        return make_pipeline(home / "rows.csv", home / name, task="tabular", environment=environment)

    whole, killed = make("whole"), make("killed")
    result = whole.run(*QUICK, before=watched(home / "counts.json"))
    assert result.code == 0, result.output
    for moment in moments(json.loads((home / "counts.json").read_text())):
        ended = killed.start(*QUICK, before=watched(home / "none", moment)).wait()
        assert ended.code == -signal.SIGKILL, (moment, ended.output)
    result = killed.run(*QUICK)
    assert result.code == 0, result.output
    return whole, killed


def moments(counts: dict[str, int]) -> list[list[Any]]:
    """Returns nodes with the number of the event to be killed at, in the order of the chain.

    Only of the first 80 %: a later run may have fewer events.
    """
    draw = random.Random(7)
    return [
        [node, draw.randint(1, max(1, counts.get(node, 1) * 4 // 5))]
        for node in NODES
        for _ in range(KILLS // len(NODES))
    ]


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
        re.sub(r"(?<=/)\d+(?=/)|(?<=seals/)\w+|(?<=logs/)[\d-]+|(?<=tfevents).+|(?<=model_card-)\d+", "N", name)
        for name in names
    }


def test_runs_after_kills_lead_to_the_same_result(pipelines: tuple[Any, Any]) -> None:
    """B1: shards, vocabularies, metrics and the served weights are those of a run that was never killed."""
    whole, killed = pipelines

    assert results(killed) == results(whole)


def test_killed_executions_are_marked_failed(pipelines: tuple[Any, Any]) -> None:
    """B1: no execution stays open, and each node has finished once."""
    _, killed = pipelines
    found = {node: [each.state for each in killed.store().executions(node)] for node in NODES if node != "Baseline"}
    states = {node: sorted(state for state in each if state != "CACHED") for node, each in found.items()}

    assert states == {node: ["COMPLETE", "FAILED", "FAILED"] for node in states}


def test_leftovers_of_killed_runs_are_collected(pipelines: tuple[Any, Any], home: Path) -> None:
    """B1: the root has the files of a run that was never killed, one folder per output, and no temporary file."""
    whole, killed = pipelines
    outputs = [each.parent for node in NODES for each in (killed.root / node).glob("[!.]*/*")]

    assert files(killed.root) == files(whole.root)
    assert len(outputs) == len(set(outputs))
    assert list((home / "temporary").iterdir()) == []


def test_schema_of_a_run_killed_in_ingest_is_not_in_force(pipelines: tuple[Any, Any], home: Path) -> None:
    """B1: --from Trainer uses the schema that the Schema node published last."""
    whole, _ = pipelines
    schema = output(whole, "Schema", "schema") / "schema.pbtxt"
    narrow = re.sub(r'feature \{\n  name: "code".*?\n\}\n', "", schema.read_text(), flags=re.DOTALL)
    (home / "narrow.pbtxt").write_text(narrow)
    other = ("--schema", str(home / "narrow.pbtxt"), "--force", "Ingest")
    ended = whole.start(*QUICK, *other, before=watched(home / "none", ["Ingest", 1])).wait()
    result = whole.run(*QUICK, "--from", "Trainer", "--to", "Trainer", "--set", "train.seed=2")
    model = output(whole, "Trainer", "model") / "Format-Serving" / "saved_model.pb"

    assert ended.code == -signal.SIGKILL, ended.output
    assert result.code == 0, result.output
    assert b"raw_code" in model.read_bytes()
