"""The image pipeline from raw files to a pushed model, and what a second run does after each kind of change."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import tensorflow as tf

from components.records import manifest
from pipelines.orchestration import graph

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

EVERY_NODE = {node.id: "looked up" if node.resolves else "up to date" for node in graph.NODES}
QUICK = ("--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0", "--set", "evaluate.max_drop=1")
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def first_run(digits: Path, tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any) -> tuple[Any, Any]:
    """A run of the installed command on all digits, for five epochs, and its result; tests must not change it."""
    home = tmp_path_factory.mktemp("first") / "home"
    shutil.copytree(digits, home / "images")
    pipeline = make_pipeline(home / "images", home / "root", flags=("--set", "train.epochs=5"))
    return pipeline, pipeline.run_installed()


@pytest.fixture
def finished(first_run: tuple[Any, Any], restored: Any) -> Iterator[Any]:
    """The pipeline of the first run; what a test changes in its data and root is undone after the test."""
    pipeline, _ = first_run
    with restored(pipeline.root.parent):
        yield pipeline


def due(*nodes: str) -> dict[str, str]:
    """Returns the plan in which only these nodes run."""
    return {**EVERY_NODE, **dict.fromkeys(nodes, "runs")}


def serving_folders(root: Path) -> list[str]:
    """Returns the model versions that a model server would find."""
    return sorted(entry.name for entry in (root / "serving").iterdir() if entry.name.isdecimal())


def test_first_run_is_blessed_and_pushed(first_run: tuple[Any, Any]) -> None:
    """A first run completes every node, reaches an accuracy of 0.95 on unseen digits, and pushes version 1."""
    pipeline, result = first_run
    evaluated = pipeline.newest("Evaluator")

    assert result.code == 0, result.output
    assert "blessed and pushed as version 1" in result.output
    assert {node.id: pipeline.newest(node.id).state for node in graph.NODES} == dict.fromkeys(EVERY_NODE, "COMPLETE")
    assert evaluated.facts["metrics"]["accuracy"] >= 0.95
    assert serving_folders(pipeline.root) == ["1"]


def test_the_first_run_needs_no_network_and_no_writable_environment(
    first_run: tuple[Any, Any], offline: Sequence[str]
) -> None:
    """D9: there is no interface in its namespace, and its environment is read-only."""
    _, result = first_run
    script = "import os, sys; print(os.access(sys.prefix, os.W_OK), *open('/proc/net/route').readlines()[1:])"
    shown = subprocess.run([*offline, sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert (result.code, shown.stdout) == (0, "False\n"), result.output


def test_every_node_reads_all_records(first_run: tuple[Any, Any]) -> None:
    """Each node's ledger has as many records as the node before it wrote."""
    pipeline, _ = first_run
    counts = manifest.read(pipeline.store().outputs(pipeline.newest("Ingest").id)[0].uri).records
    ledger = {node: pipeline.newest(node).ledger for node in EVERY_NODE if pipeline.newest(node).ledger}

    assert sum(counts.values()) == 1797
    assert {node: (entry["records_in"], entry["records_out"]) for node, entry in ledger.items()} == {
        "Ingest": (1797, 1797),
        "StatisticsGen": (1797, 1797),
        "Transform": (counts["train"], counts["train"]),
        "Trainer": (counts["train"] + counts["eval"],) * 2,
        "Evaluator": (counts["test"],) * 2,
    }


def test_report_shows_the_run(first_run: tuple[Any, Any]) -> None:
    """The report page has every section and at least 30 images."""
    pipeline, _ = first_run
    page = (pipeline.root / "report.html").read_text()
    sections = ("Pipeline", "Ledger", "Class balance", "Samples", "Learning curves", "Confusion matrix")

    assert [title for title in sections if f">{title}</h2>" not in page] == []
    assert page.count("data:image/") >= 30


def test_trainer_keeps_logs_and_the_best_epoch(first_run: tuple[Any, Any]) -> None:
    """model_run holds TensorBoard logs and the history; the best epoch is the one with the lowest validation loss."""
    pipeline, _ = first_run
    outputs = {a.name: a.uri for a in pipeline.store().outputs(pipeline.newest("Trainer").id)}
    history = orjson.loads((outputs["model_run"] / "history.json").read_bytes())
    losses = history["epochs"]["val_loss"]

    assert list((outputs["model_run"] / "tensorboard").rglob("events.out.tfevents.*"))
    assert losses[history["best_epoch"]] == min(losses)


def test_model_loads_with_plain_tensorflow(first_run: tuple[Any, Any], tmp_path: Path) -> None:
    """A new process without our code loads the pushed model and classifies an image file."""
    pipeline, _ = first_run
    image = min((pipeline.data / "three").iterdir())
    script = (
        "import sys, tensorflow as tf\n"
        f"model = tf.saved_model.load({str(pipeline.root / 'serving' / '1')!r})\n"
        f"content = open({str(image)!r}, 'rb').read()\n"
        "example = tf.train.Example()\n"
        "example.features.feature['image'].bytes_list.value.append(content)\n"
        "raw = model.signatures['raw'](image=tf.constant([content, content]))\n"
        "served = model.signatures['serving_default'](examples=tf.constant([example.SerializeToString()]))\n"
        "ours = {'components', 'pipelines', 'tfx', 'tensorflow_transform'} & set(sys.modules)\n"
        "print(sorted(ours), raw['label'].numpy()[0].decode(), served['label'].numpy()[0].decode(),\n"
        "      raw['probabilities'].shape, sorted(name.decode() for name in raw['all_classes'].numpy()[0]))\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )

    words = sorted(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    assert done.stdout.strip() == f"[] three three (2, 10) {words}"


def test_export_agrees_with_training(first_run: tuple[Any, Any]) -> None:
    """D1: the run has proven it on held-out records; the model cards and the report have the figures."""
    pipeline, _ = first_run
    uris = {a.name: a.uri for node in ("Ingest", "Trainer") for a in pipeline.store().outputs(pipeline.newest(node).id)}
    proof = orjson.loads((uris["model_run"] / "proof.json").read_bytes())
    cards = [pipeline.root / "model_card.json", pipeline.root / "serving" / "model_card-1.json"]

    assert (proof["records"], proof["unproven"]) == (min(200, manifest.read(uris["examples"]).records["eval"]), {})
    assert [way for way, largest in proof["largest_difference"].items() if largest <= 1e-5] == [
        "evaluation", "serving_default", "raw",
    ]  # fmt: skip
    assert [orjson.loads(card.read_bytes())["proof"] for card in cards] == [proof, proof]
    assert "export agrees with training" in (pipeline.root / "report.html").read_text()


def test_second_run_has_nothing_to_do(finished: Any) -> None:
    """A second run gives the reason why each node is up to date, and does not load TFX."""
    again = finished.run()

    assert (again.code, again.actions()) == (0, EVERY_NODE)
    assert again.reason("Trainer") == "same inputs, settings, code, libraries; outputs intact"
    assert "nothing to do" in again.output
    assert "loading TFX" not in again.output
    assert "blessed and pushed as version 1" in again.output


def test_touched_files_are_up_to_date(finished: Any) -> None:
    """A new modification time on the same content runs nothing."""
    for image in sorted((finished.data / "one").iterdir()):
        image.touch()

    assert finished.run("--dry-run").actions() == EVERY_NODE


def test_edit_of_the_model_runs_the_trainer_and_what_follows(first_run: tuple[Any, Any], tmp_path: Path) -> None:
    """A15: an edit of a model file runs Trainer, Evaluator and Pusher; an edit of the report runs nothing."""
    pipeline, _ = first_run
    for package in ("components", "pipelines", "schemas", "data"):
        shutil.copytree(PROJECT / package, tmp_path / package)
    copy = replace(pipeline, code=tmp_path, environment={"PYTHONPATH": str(tmp_path)})
    untouched = copy.run("--dry-run")
    with (tmp_path / "pipelines/report/page.py").open("a") as file:
        file.write("# unrelated\n")
    unrelated = copy.run("--dry-run")
    with (tmp_path / "components/models/image.py").open("a") as file:
        file.write("# edited\n")
    edited = copy.run("--dry-run")

    assert untouched.actions() == EVERY_NODE
    assert unrelated.actions() == EVERY_NODE
    assert edited.actions() == due("Trainer", "Evaluator", "Pusher")
    assert edited.reason("Trainer") == "code changed: components/models/image.py"


def test_changed_setting_runs_the_nodes_that_read_it(first_run: tuple[Any, Any]) -> None:
    """A setting runs the nodes that read it and what follows them; --force runs a node and what follows it."""
    pipeline, _ = first_run

    assert pipeline.run("--dry-run", "--set", "train.epochs=3").actions() == due("Trainer", "Evaluator", "Pusher")
    assert pipeline.run("--dry-run", "--set", "gate.min_per_class=2").actions() == due("Gate")
    assert pipeline.run("--dry-run", "--force", "evaluator").actions() == due("Evaluator", "Pusher")


def test_from_and_to_select_a_part_of_the_pipeline(first_run: tuple[Any, Any]) -> None:
    """--from keeps the outputs of earlier nodes, --to skips later nodes, and an unknown node is a usage error."""
    pipeline, _ = first_run
    kept = dict.fromkeys(["Ingest", "Schema", "StatisticsGen", "ExampleValidator", "Gate", "Transform"], "kept")
    skipped = dict.fromkeys(["Baseline", "Evaluator", "Pusher"], "skipped")
    part = pipeline.run("--dry-run", "--from", "Trainer", "--to", "Trainer", "--set", "ingest.min_shards=3")
    wrong = pipeline.run("--dry-run", "--from", "Trainr")

    assert part.actions() == {**kept, "Trainer": "up to date", **skipped}
    assert (wrong.code, wrong.output) == (2, "penstock: unknown node 'Trainr': did you mean 'Trainer'?\n")


def test_dry_run_changes_nothing(first_run: tuple[Any, Any]) -> None:
    """--dry-run leaves every file as it is."""
    pipeline, _ = first_run

    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in pipeline.root.rglob("*")}

    before = state()
    pipeline.run("--dry-run", "--force", "Ingest")

    assert state() == before


@pytest.mark.parametrize("fault", ["altered", "deleted"])
def test_tampered_artifact_is_not_trusted(finished: Any, fault: str) -> None:
    """A14: a flipped bit or a missing file in an artifact runs its node; the same content again is up to date."""
    (examples,) = finished.store().outputs(next(finished.store().finished("Ingest")).id)
    shard = examples.uri / manifest.read(examples.uri).shards[0].name
    content, times = shard.read_bytes(), shard.stat()
    if fault == "altered":
        shard.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    else:
        shard.unlink()
    tampered = finished.run("--dry-run")
    shard.write_bytes(content)
    intact = finished.run("--dry-run")

    assert tampered.actions()["Ingest"] == "runs"
    assert tampered.reason("Ingest") == f"its output was tampered with: examples: Split-train/{shard.name} {fault}"
    assert intact.actions() == EVERY_NODE


def test_served_version_that_is_gone_is_pushed_again(finished: Any) -> None:
    """A missing version in the serving folder runs the Pusher."""
    shutil.rmtree(finished.root / "serving" / "1")
    gone = finished.run("--dry-run")

    assert gone.actions() == due("Pusher")
    assert gone.reason("Pusher") == "its output was tampered with: served version 1: 1: folder missing"


def test_model_below_its_metric_threshold_is_not_pushed(finished: Any) -> None:
    """A run with an unblessed model exits with 3, gives the reason and pushes nothing; so does the next run."""
    first = finished.run("--set", "evaluate.min_accuracy=1")
    again = finished.run("--set", "evaluate.min_accuracy=1")

    assert first.code == 3, first.output
    assert "not blessed: accuracy is" in first.output
    assert serving_folders(finished.root) == ["1"]
    assert (again.code, again.actions()) == (3, EVERY_NODE)


def test_moved_image_changes_its_label(finished: Any) -> None:
    """A13: an image moved to another class folder runs Ingest and what follows, and changes its label."""
    image = min((finished.data / "three").iterdir())
    image.rename(finished.data / "eight" / image.name)
    planned = finished.run("--dry-run", *QUICK)
    ran = finished.run(*QUICK, "--to", "Ingest")
    (examples,) = finished.store().outputs(finished.newest("Ingest").id)
    counts = manifest.read(examples.uri).classes

    assert planned.actions() == {**due(*EVERY_NODE), "Schema": "up to date", "Baseline": "looked up"}
    assert planned.reason("Ingest") == f"data changed: 1 moved (three/{image.name} to eight/{image.name})"
    assert ran.code == 0, ran.output
    assert {name: sum(split[name] for split in counts.values()) for name in ("three", "eight")} == {
        "three": 182,
        "eight": 175,
    }


def test_content_changed_in_place_is_found(finished: Any) -> None:
    """A13: other bytes with the same length and modification time run Ingest."""
    image = min((finished.data / "five").glob("*.png"))
    content, times = image.read_bytes(), image.stat()
    image.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(image, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = finished.run("--dry-run")

    assert changed.reason("Ingest") == f"data changed: 1 altered (five/{image.name})"


# The process that runs the node loses one record where Beam reads it.
LOSING_READ = """
import apache_beam as beam
class LosingRead(beam.io.ReadFromTFRecord):
    def expand(self, start):
        return super().expand(start) | "Lose" >> beam.Filter(lambda record, lost={lost!r}: record != lost)
beam.io.ReadFromTFRecord = LosingRead
"""
# Transform reads shards with tf.data.
LOSING_DATASET = """
import tensorflow as tf
whole = tf.data.TFRecordDataset
def losing(*arguments, **options):
    return whole(*arguments, **options).filter(lambda record: record != {lost!r})
tf.data.TFRecordDataset = losing
"""
# A bit of a shard flips after the plan has compared it with its seal.
FLIPPING_PLAN = """
import pathlib
from pipelines.orchestration import plan
make, shard = plan.make, pathlib.Path({shard!r})
def flip(*arguments):
    made = make(*arguments)
    content = bytearray(shard.read_bytes())
    content[-6] ^= 1
    shard.write_bytes(content)
    return made
plan.make = flip
"""


def last_shard(pipeline: Any, split: str) -> Path:
    """Returns the last shard of a split."""
    (examples,) = pipeline.store().outputs(pipeline.newest("Ingest").id)
    return Path(examples.uri / manifest.read(examples.uri).shards_of(split)[-1].name)


@pytest.mark.parametrize(
    ("node", "split"),
    [
        pytest.param("StatisticsGen", "eval", marks=pytest.mark.all),
        ("Transform", "train"),
        pytest.param("Evaluator", "test", marks=pytest.mark.all),
    ],
)
def test_record_lost_in_a_node_stops_the_run(finished: Any, node: str, split: str) -> None:
    """A16: a node that drops one record where it reads them shows the ledger, and its output is not published."""
    shard = str(last_shard(finished, split))
    lost = next(tf.data.TFRecordDataset(shard, "GZIP" if shard.endswith(".gz") else "").as_numpy_iterator())
    losing = (LOSING_DATASET if node == "Transform" else LOSING_READ).format(lost=lost)
    result = finished.run("--force", node, "--to", node, before=losing)

    assert result.code == 6, result.output
    assert re.search(rf"^{node}(, split {split})?: 1 records lost$", result.output, re.MULTILINE)
    assert "expected in = out + quarantined" in result.output
    assert finished.newest(node).state == "FAILED"


def test_damaged_test_split_stops_the_evaluator(finished: Any) -> None:
    """A1: a shard that no node of this run has read before is compared with the manifest, also with --from."""
    shard = last_shard(finished, "test")
    arguments = ("--from", "Evaluator", "--force", "Evaluator")
    result = finished.run(*arguments, before=FLIPPING_PLAN.format(shard=str(shard)))

    assert result.code == 4, result.output
    assert re.search(rf"{shard}: the checksum of a record does not match its data at byte offset \d", result.output)
    assert finished.newest("Evaluator").state == "FAILED"
