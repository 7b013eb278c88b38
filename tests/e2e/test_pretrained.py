"""A pipeline that uses another pipeline's output: the pushed image model extracts features for the questions task."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from data.digit_questions import write_questions

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
QUICK = ("--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0", "--set", "gate.min_per_class=0")

Run = Callable[..., str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, tfx_runs: Path) -> Path:
    """A folder with a copy of an image pipeline, and the data of a pipeline of questions that uses its pushed model."""
    folder = tmp_path_factory.mktemp("pretrained") / "home"
    write_questions(folder / "questions", 200)
    shutil.copytree(tfx_runs / "root", folder / "image", symlinks=True)
    return folder


@pytest.fixture(scope="module")
def run_questions(home: Path, make_pipeline: Any) -> Run:
    """Runs the pipeline of questions, which must succeed, and returns what it printed; Extract has run."""

    def run(*arguments: str, root: str = "questions run") -> str:
        pipeline = make_pipeline(home / "questions", home / root, task="multimodal")
        result = pipeline.run("--set", f"extract.model={home}/image/serving/1", *QUICK, *arguments)
        assert result.code == 0, result.output
        return result.output

    run("--to", "Extract")
    return run


@pytest.fixture
def root(home: Path, run_questions: Run) -> Path:
    """The root of the pipeline of questions."""
    del run_questions
    return home / "questions run"


@pytest.fixture(scope="module")
def pushed(home: Path, run_questions: Run) -> Path:
    """The root of the finished pipeline of questions."""
    run_questions()
    return home / "questions run"


def models(root: Path) -> list[Any]:
    """Returns all artifacts of type Model in a pipeline's metadata."""
    config = pb.ConnectionConfig()
    config.sqlite.filename_uri = str(root / "metadata.db")
    return list(metadata_store.MetadataStore(config).get_artifacts_by_type("Model"))


def test_lineage_continues_in_the_other_pipeline(home: Path, root: Path, tfx_runs: Path) -> None:
    """The model's artifact names the pipeline, the metadata and the artifact that it was pushed from."""
    (trained,) = models(home / "image")
    imported = models(root)[0]
    lineage = {key: each.string_value for key, each in imported.custom_properties.items() if key.startswith("source")}

    assert lineage == {
        "source": f"{home}/image/serving/1",
        "source_root": f"{tfx_runs}/root",
        "source_pipeline": "image",
        "source_metadata": f"{tfx_runs}/root/metadata.db",
        "source_id": str(trained.id),
        "source_uri": trained.uri,
    }


@pytest.mark.all
def test_records_hold_features_and_the_served_model_takes_images(pushed: Path) -> None:
    """D1: the served model predicts the same from an image as from the features that Beam extracted from it."""
    served = tf.saved_model.load(str(pushed / "serving" / "1"))
    records = first_records(pushed / "Extract" / "extracted")
    extracted = [tf.train.Example.FromString(record).features.feature for record in records]
    ingested = map(tf.train.Example.FromString, first_records(pushed / "Ingest" / "examples"))
    columns = [each.features.feature for each in ingested]
    by_records = served.signatures["serving_default"](examples=tf.constant(records))["probabilities"]
    by_raw = served.signatures["raw"](
        image=tf.constant([each["image"].bytes_list.value[0] for each in columns]),
        question=tf.constant([each["question"].bytes_list.value[0] for each in columns]),
        number=tf.constant([each["number"].int64_list.value[0] for each in columns], tf.int64),
        ink=tf.constant([each["ink"].float_list.value[0] for each in columns]),
    )["probabilities"]

    assert [set(each) for each in extracted] == [{*each} - {"image"} | {"image_features"} for each in columns]
    tf.debugging.assert_near(by_records, by_raw, atol=1e-5)


def first_records(artifacts: Path) -> list[bytes]:
    """Returns the first five training records of the only artifact in a folder."""
    (artifact,) = artifacts.iterdir()
    shard = min((artifact / "Split-train").iterdir())
    return list(tf.data.TFRecordDataset(str(shard)).take(5).as_numpy_iterator())


def test_extraction_runs_again_only_if_the_model_changes(home: Path, run_questions: Run, restored: Any) -> None:
    """Other content of the model at the same path runs the Extractor and what follows it."""
    with restored(home):
        again = run_questions("--to", "Extract")
        (home / "image" / "serving" / "1" / "assets" / "new.txt").write_text("content that was not there before")
        changed = run_questions("--dry-run")

    assert "nothing to do" in again
    assert "extract.model changed" in changed
    assert "after Extractor, which runs" in changed


@pytest.mark.parametrize("node", ["Extractor", "Extract"])
def test_full_disk(home: Path, run_questions: Run, make_pipeline: Any, mounted: Any, node: str) -> None:
    """B5: exit code 7 and the right disk; nothing is left on it."""
    del run_questions
    pipeline = make_pipeline(home / "questions", home / "questions run", task="multimodal")
    folder = pipeline.root / node
    with mounted(folder, "4k"):
        (folder / "filler").write_bytes(bytes(4096))
        arguments = ("--set", f"extract.model={home}/image/serving/1", "--force", node, "--to", node)
        result = pipeline.run(*QUICK, *arguments)
        left = [path.name for path in folder.rglob("*") if path.is_file()]

    assert result.code == 7, result.output
    assert f"no space left on the disk at {folder}: 0.0 MB free" in result.output
    assert left == ["filler"]


def test_record_lost_while_embedding_stops_the_run(home: Path, run_questions: Run, make_pipeline: Any) -> None:
    """A16: Extract writes all records of a shard but the first; the ledger is shown."""
    del run_questions
    losing = (
        "from components.pretrained.component import _EmbedShard\n"
        "whole = _EmbedShard._embedded\n"
        "def losing(self, records):\n"
        "    next(found := whole(self, records))\n"
        "    return found\n"
        "_EmbedShard._embedded = losing"
    )
    pipeline = make_pipeline(home / "questions", home / "questions run", task="multimodal")
    arguments = ("--set", f"extract.model={home}/image/serving/1", "--force", "Extract", "--to", "Extract")
    result = pipeline.run(*arguments, before=losing)

    assert result.code == 6, result.output
    assert re.search(r"^Extract, split train: \d+ records lost$", result.output, re.MULTILINE)
    assert "expected in = out + quarantined" in result.output


@pytest.mark.all
def test_model_can_be_finetuned(home: Path, run_questions: Run) -> None:
    """With extract.where=finetune records keep their images and nothing is extracted."""
    output = run_questions("--set", "extract.where=finetune", root="finetuned")

    assert "blessed and pushed as version 1" in output
    assert not (home / "finetuned" / "Extract").exists()


@pytest.mark.all
def test_model_on_images_may_follow_a_model_on_features(
    home: Path, pushed: Path, run_questions: Run, restored: Any
) -> None:
    """In the same root, the blessed model cannot read the new model's records and is not used as baseline."""
    del pushed
    with restored(home):
        output = run_questions("--set", "extract.where=frozen")

    assert "blessed and pushed as version 2" in output
