"""A pipeline whose input is another pipeline's output: the pushed image model looks at images for the questions."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from data.digit_questions import write_questions
from data.digits import write_image_folder

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
PROJECT = Path(__file__).resolve().parents[2]
QUICK = ["--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0", "--set", "gate.min_per_class=0"]


def penstock(*arguments: str) -> str:
    """Runs the command and returns what it said; it must succeed."""
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", "run", *arguments, *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image pipeline and one of questions that builds on what it has pushed."""
    folder = tmp_path_factory.mktemp("pretrained")
    write_image_folder(folder / "digits", 300)
    write_questions(folder / "questions", 400)
    penstock("image", "--data", str(folder / "digits"), "--root", str(folder / "one"))
    penstock(*second(folder))
    return folder


def second(home: Path, *more: str) -> list[str]:
    """Returns the arguments of the second pipeline."""
    return [
        "multimodal", "--data", str(home / "questions"), "--root", str(home / "two"),
        "--set", f"extract.model={home}/one/serving/1", *more,
    ]  # fmt: skip


def models(root: Path) -> list[Any]:
    """Returns all artifacts of type Model in a pipeline's store."""
    config = pb.ConnectionConfig()
    config.sqlite.filename_uri = str(root / "metadata.db")
    return list(metadata_store.MetadataStore(config).get_artifacts_by_type("Model"))


def test_lineage_goes_on_in_the_other_pipeline(home: Path) -> None:
    """The network's artifact names the pipeline, the store and the artifact that it was pushed from."""
    (trained,) = models(home / "one")
    taken = models(home / "two")[0]
    told = {key: value.string_value for key, value in taken.custom_properties.items() if key.startswith("source")}

    assert told == {
        "source": f"{home}/one/serving/1",
        "source_pipeline": "image",
        "source_metadata": f"{home}/one/metadata.db",
        "source_id": str(trained.id),
        "source_uri": trained.uri,
    }


def test_records_hold_vectors_and_the_served_model_takes_images(home: Path) -> None:
    """D1: what is served answers for a image as it does for the vector that Beam made of it."""
    served = tf.saved_model.load(str(home / "two" / "serving" / "1"))
    records = first_records(home / "two" / "Extract" / "extracted")
    looked_at = [tf.train.Example.FromString(record).features.feature for record in records]
    ingested = map(tf.train.Example.FromString, first_records(home / "two" / "Ingest" / "examples"))
    columns = [each.features.feature for each in ingested]
    by_records = served.signatures["serving_default"](examples=tf.constant(records))["probabilities"]
    by_raw = served.signatures["raw"](
        image=tf.constant([each["image"].bytes_list.value[0] for each in columns]),
        question=tf.constant([each["question"].bytes_list.value[0] for each in columns]),
        number=tf.constant([each["number"].int64_list.value[0] for each in columns], tf.int64),
        ink=tf.constant([each["ink"].float_list.value[0] for each in columns]),
    )["probabilities"]

    assert [set(each) for each in looked_at] == [{*each} - {"image"} | {"image_features"} for each in columns]
    tf.debugging.assert_near(by_records, by_raw, atol=1e-5)


def first_records(artifacts: Path) -> list[bytes]:
    """Returns the first records of the first training shard of the only artifact."""
    (artifact,) = artifacts.iterdir()
    shard = min((artifact / "Split-train").iterdir())
    return list(tf.data.TFRecordDataset(str(shard)).take(5).as_numpy_iterator())


def test_nothing_is_due_until_the_network_changes(home: Path) -> None:
    """The same path with another content is another network."""
    again = penstock(*second(home))
    penstock("image", "--data", str(home / "digits"), "--root", str(home / "one"), "--force", "Trainer")
    other = penstock(*second(home), "--dry-run", "--set", f"extract.model={home}/one/serving/2")

    assert "Trainer" not in [line.split()[1] for line in again.splitlines() if line.startswith("✓")]
    assert "extract.model changed" in other
    assert "after Extractor, which runs" in other


def test_it_can_be_a_part_of_the_model(home: Path) -> None:
    """Records keep their images then."""
    said = penstock(*second(home, "--set", "extract.where=finetune", "--root", str(home / "three")))

    assert "blessed and pushed as version 1" in said
    assert not (home / "three" / "Extract").exists()


def test_a_model_of_images_may_follow_one_of_vectors(home: Path) -> None:
    """In the same root: the one that is blessed cannot read what the new one reads, and is not asked."""
    said = penstock(*second(home, "--set", "extract.where=frozen"))

    assert "blessed and pushed as version 2" in said
