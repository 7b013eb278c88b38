"""The image pipeline from end to end, as a user runs it: one root, one change after another.

The tests of this file build on one another's root and run in order.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from components.records import manifest
from components.settings.input import Input
from components.settings.transform import Transform
from pipelines.orchestration import graph

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

EVERY_NODE = {node.id: "looked up" if node.resolves else "up to date" for node in graph.NODES}
QUICK = ("--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0", "--set", "evaluate.max_drop=1")
PROJECT = Path(__file__).resolve().parents[2]


def due(*nodes: str) -> dict[str, str]:
    """Returns the plan in which just these nodes run."""
    return {**EVERY_NODE, **dict.fromkeys(nodes, "runs")}


def serving_folders(root: Path) -> list[str]:
    """Returns the versions that a model server would see."""
    return sorted(entry.name for entry in (root / "serving").iterdir() if not entry.name.startswith("."))


def run_tfx_cli(pipeline: Any, home: Path, **environment: str) -> None:
    """Creates and runs the pipeline with the real `tfx` command."""
    places = {"PENSTOCK_DATA": str(pipeline.data), "PENSTOCK_ROOT": str(pipeline.root), "LOCAL_HOME": str(home / "tfx")}
    for command in ("pipeline create --pipeline_path pipelines/image.py", "run create --pipeline_name image"):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("tfx")), *command.split(), "--engine", "local"],
            cwd=PROJECT,
            env={**os.environ, **places, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_first_run_is_blessed_and_pushed(finished: Any) -> None:
    """A first run passes every node, reaches 0.95 on digits it never saw, and serves version 1."""
    pipeline, result = finished
    evaluated = pipeline.newest("Evaluator")

    assert result.code == 0, result.said
    assert "blessed and pushed as version 1" in result.said
    assert {node.id: pipeline.newest(node.id).state for node in graph.NODES} == dict.fromkeys(graph.IDS, "COMPLETE")
    assert evaluated.facts["metrics"]["accuracy"] >= 0.95
    assert serving_folders(pipeline.root) == ["1"]


def test_every_record_is_accounted_for(finished: Any) -> None:
    """Each node saw as many records as the one before it passed on."""
    pipeline, _ = finished
    counts = manifest.read(pipeline.store().outputs(pipeline.newest("Ingest").id)[0].uri).records
    ledger = {node: pipeline.newest(node).ledger for node in graph.IDS if pipeline.newest(node).ledger}

    assert sum(counts.values()) == 1797
    assert {node: (entry["records_in"], entry["records_out"]) for node, entry in ledger.items()} == {
        "Ingest": (1797, 1797),
        "StatisticsGen": (1797, 1797),
        "Transform": (counts["train"], counts["train"]),
        "Trainer": (counts["train"] + counts["eval"],) * 2,
        "Evaluator": (counts["test"],) * 2,
    }


def test_report_tells_the_run(finished: Any) -> None:
    """The page of the run has its chain, its images, its curves and its confusion matrix."""
    pipeline, _ = finished
    page = (pipeline.root / "report.html").read_text()

    assert [title for title in ("Chain", "Ledger", "Class balance", "Samples", "Learning curves", "Confusion")
            if title not in page] == []  # fmt: skip
    assert page.count("data:image/") >= 30


def test_trainer_keeps_logs_and_the_best_epoch(finished: Any) -> None:
    """TensorBoard logs and the history are in the model_run artifact; the best epoch has the lowest held-out loss."""
    pipeline, _ = finished
    outputs = {a.name: a.uri for a in pipeline.store().outputs(pipeline.newest("Trainer").id)}
    history = orjson.loads((outputs["model_run"] / "history.json").read_bytes())
    losses = history["epochs"]["val_loss"]

    assert list((outputs["model_run"] / "tensorboard").rglob("events.out.tfevents.*"))
    assert losses[history["best_epoch"]] == min(losses)


def test_model_loads_with_plain_tensorflow(finished: Any, tmp_path: Path) -> None:
    """A fresh process without our code loads the served model and names the class of an image file."""
    pipeline, _ = finished
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


def test_export_agrees_with_training(finished: Any) -> None:
    """D1: 200 records give equal pixels, and predictions within 1e-5, by training's path and by the export."""
    import tensorflow as tf

    from components.features.image import ImageFeature
    from components.fitting.fitted import Fitted
    from components.input_pipeline import Reader, RecordFile
    from components.models import image, joined
    from components.models.heads import Classification

    pipeline, _ = finished
    store = pipeline.store()
    uris = {
        artifact.name: artifact.uri
        for node in ("Ingest", "Transform", "Trainer")
        for artifact in store.outputs(pipeline.newest(node).id)
    }
    feature = ImageFeature(32)
    fitted = Fitted(str(uris["transform_graph"]), Transform())
    names = fitted.classes()
    picture = feature.keras_input("image")
    model = joined.build({"image": picture}, [image.encode(picture)], Classification(len(names)))
    model.load_weights(str(uris["model_run"] / "best.weights.h5"))
    shards = [RecordFile(uris["examples"] / s.name, s.records, s.bytes) for s in manifest.read(uris["examples"]).shards]
    reader = Reader(
        {"image": feature}, "label", lambda label: fitted.apply({"label": label})["label"], Input(batch_size=200), 1
    )
    values, labels = next(iter(reader.evaluation(shards)))
    served = tf.saved_model.load(str(uris["model"] / "Format-Serving"))
    records = next(iter(tf.data.TFRecordDataset([str(shard.path) for shard in shards]).batch(200)))
    content = tf.io.parse_example(records, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
    decoded = feature.decode(content)
    by_examples = served.signatures["serving_default"](examples=records)
    by_raw = served.signatures["raw"](image=content)

    np.testing.assert_array_equal(values["image"].numpy(), decoded.numpy())
    np.testing.assert_allclose(by_examples["probabilities"].numpy(), model(values, training=False).numpy(), atol=1e-5)
    np.testing.assert_array_equal(by_examples["probabilities"].numpy(), by_raw["probabilities"].numpy())
    assert [name.decode() for name in by_examples["all_classes"].numpy()[0]] == names
    assert (by_examples["probabilities"].numpy().argmax(axis=1) == labels.numpy()).mean() >= 0.95


def test_second_run_has_nothing_to_do(finished: Any) -> None:
    """Run again, every node says why it is up to date, and TFX is not even loaded."""
    pipeline, _ = finished
    again = pipeline.run()

    assert (again.code, again.actions()) == (0, EVERY_NODE)
    assert again.reason("Trainer") == "same inputs, settings, code, libraries; outputs intact"
    assert "nothing to do" in again.said
    assert "loading TFX" not in again.said
    assert "blessed and pushed as version 1" in again.said


def test_touched_files_are_still_the_same(finished: Any) -> None:
    """New times on old content are no reason to work."""
    pipeline, _ = finished
    for image in sorted((pipeline.data / "one").iterdir()):
        image.touch()

    assert pipeline.run("--dry-run").actions() == EVERY_NODE


def test_tfx_cli_runs_the_same_pipeline(finished: Any, tmp_path: Path) -> None:
    """`tfx pipeline create` and `tfx run create` find every node up to date and record it as CACHED."""
    pipeline, _ = finished
    run_tfx_cli(pipeline, tmp_path)

    states = {node.id: pipeline.newest(node.id).state for node in graph.NODES}
    assert states == {**dict.fromkeys(graph.IDS, "CACHED"), "Baseline": "COMPLETE"}
    assert serving_folders(pipeline.root) == ["1"]


def test_tfx_cli_does_the_same_work(finished: Any, make_pipeline: Any, tmp_path: Path) -> None:
    """A first run through the `tfx` CLI leaves the same executions as `penstock run`, and a pushed model."""
    pipeline, _ = finished
    fresh = make_pipeline(pipeline.data, tmp_path / "root")
    (tmp_path / "quick.toml").write_text("[image.train]\nepochs = 1\n[image.evaluate]\nmin_accuracy = 0\n")
    run_tfx_cli(fresh, tmp_path, PENSTOCK_SETTINGS=str(tmp_path / "quick.toml"))

    assert {node: [e.state for e in fresh.store().executions(node)] for node in graph.IDS} == {
        node: ["COMPLETE"] for node in graph.IDS
    }
    assert {node: fresh.newest(node).ledger for node in graph.IDS} == {
        node: next(pipeline.store().finished(node)).ledger for node in graph.IDS
    }
    assert serving_folders(fresh.root) == ["1"]


def test_edit_of_a_trainer_helper_is_due_from_the_trainer_on(finished: Any, tmp_path: Path) -> None:
    """A15: an edit of the model's file runs trainer and after; an edit of the report runs nothing."""
    pipeline, _ = finished
    for package in ("components", "pipelines", "schemas", "data"):
        shutil.copytree(PROJECT / package, tmp_path / package)
    copy = type(pipeline)(pipeline.data, pipeline.root, tmp_path, {"PYTHONPATH": str(tmp_path)})
    untouched = copy.run("--dry-run")
    with (tmp_path / "pipelines/report/charts.py").open("a") as file:
        file.write("# unrelated\n")
    unrelated = copy.run("--dry-run")
    with (tmp_path / "components/models/image.py").open("a") as file:
        file.write("# another thought\n")
    edited = copy.run("--dry-run")

    assert untouched.actions() == EVERY_NODE
    assert unrelated.actions() == EVERY_NODE
    assert edited.actions() == due("Trainer", "Evaluator", "Pusher")
    assert edited.reason("Trainer") == "code changed: components/models/image.py"


def test_settings_are_due_where_they_matter(finished: Any) -> None:
    """A setting runs the nodes that read it and those after them; the gate's runs the gate alone."""
    pipeline, _ = finished

    assert pipeline.run("--dry-run", "--set", "train.epochs=3").actions() == due("Trainer", "Evaluator", "Pusher")
    assert pipeline.run("--dry-run", "--set", "gate.min_per_class=2").actions() == due("Gate")
    assert pipeline.run("--dry-run", "--force", "evaluator").actions() == due("Evaluator", "Pusher")


def test_part_of_the_chain_can_be_asked_for(finished: Any) -> None:
    """--from takes what comes before as it is, --to leaves out what comes after."""
    pipeline, _ = finished
    kept = dict.fromkeys(["Ingest", "Schema", "StatisticsGen", "ExampleValidator", "Gate", "Transform"], "kept")
    skipped = dict.fromkeys(["Baseline", "Evaluator", "Pusher"], "skipped")
    part = pipeline.run("--dry-run", "--from", "Trainer", "--to", "Trainer", "--set", "ingest.min_shards=3")
    wrong = pipeline.run("--dry-run", "--from", "Trainr")

    assert part.actions() == {**kept, "Trainer": "up to date", **skipped}
    assert (wrong.code, wrong.said) == (2, "penstock: unknown node 'Trainr': did you mean 'Trainer'?\n")


def test_dry_run_changes_nothing(finished: Any) -> None:
    """What a dry run says costs not a byte on disk."""
    pipeline, _ = finished

    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in pipeline.root.rglob("*")}

    before = state()
    pipeline.run("--dry-run", "--force", "Ingest")

    assert state() == before


@pytest.mark.parametrize("fault", ["altered", "deleted"])
def test_tampered_artifact_is_not_trusted(finished: Any, fault: str) -> None:
    """A14: a bit flipped in a cached artifact, or a file gone from it, makes its node due and names the file."""
    pipeline, _ = finished
    (examples,) = pipeline.store().outputs(next(pipeline.store().finished("Ingest")).id)
    shard = examples.uri / manifest.read(examples.uri).shards[0].name
    content, times = shard.read_bytes(), shard.stat()
    if fault == "altered":
        shard.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    else:
        shard.unlink()
    refused = pipeline.run("--dry-run")
    shard.write_bytes(content)

    assert refused.actions()["Ingest"] == "runs"
    assert refused.reason("Ingest") == (f"its output was tampered with: examples: Split-train/{shard.name} {fault}")
    assert pipeline.run("--dry-run").actions() == EVERY_NODE


def test_served_version_that_is_gone_is_pushed_again(finished: Any) -> None:
    """A deleted version makes the Pusher due."""
    pipeline, _ = finished
    served = pipeline.root / "serving" / "1"
    served.rename(pipeline.root / "away")
    gone = pipeline.run("--dry-run")
    (pipeline.root / "away").rename(served)

    assert gone.actions() == due("Pusher")
    assert gone.reason("Pusher") == "its output was tampered with: served version 1: 1: folder is gone"


def test_model_below_its_bar_is_not_served(finished: Any) -> None:
    """An unblessed model has its own exit code, says why, never reaches the serving folder, and says so again."""
    pipeline, _ = finished
    first = pipeline.run("--set", "evaluate.min_accuracy=1")
    again = pipeline.run("--set", "evaluate.min_accuracy=1")

    assert first.code == 3, first.said
    assert "not blessed: accuracy is" in first.said
    assert serving_folders(pipeline.root) == ["1"]
    assert (again.code, again.actions()) == (3, EVERY_NODE)


def test_moved_image_changes_its_label(finished: Any) -> None:
    """A13: `mv` of one image to another class folder runs ingest and all after it, and the label follows."""
    pipeline, _ = finished
    image = min((pipeline.data / "three").iterdir())
    image.rename(pipeline.data / "eight" / image.name)
    planned = pipeline.run("--dry-run", *QUICK)
    ran = pipeline.run(*QUICK)
    (examples,) = pipeline.store().outputs(pipeline.newest("Ingest").id)
    counts = manifest.read(examples.uri).classes

    assert planned.actions() == {**due(*graph.IDS), "Schema": "up to date", "Baseline": "looked up"}
    assert planned.reason("Ingest") == f"data changed: 1 moved (three/{image.name} to eight/{image.name})"
    assert ran.code == 0, ran.said
    assert {name: sum(split[name] for split in counts.values()) for name in ("three", "eight")} == {
        "three": 182,
        "eight": 175,
    }
    assert serving_folders(pipeline.root) == ["1", "2"]


def test_content_changed_in_place_is_seen(finished: Any) -> None:
    """A13: other bytes of the same length with the old times make ingest due."""
    pipeline, _ = finished
    image = min((pipeline.data / "five").glob("*.png"))
    content, times = image.read_bytes(), image.stat()
    image.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(image, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = pipeline.run("--dry-run", *QUICK)
    image.write_bytes(content)

    assert changed.reason("Ingest") == f"data changed: 1 altered (five/{image.name})"
    assert pipeline.run("--dry-run", *QUICK).actions() == EVERY_NODE
