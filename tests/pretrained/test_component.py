"""Ingest and Extract as TFX executors, with their artifacts on a real S3 server: the same bytes as on this machine."""

from pathlib import Path
from typing import Any

import keras
import pytest
from tfx.components.util import examples_utils
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts

from components.ingest import component as ingest
from components.ingest.config import IngestConfig, Needs
from components.pretrained import artifacts
from components.pretrained.component import ExtractExecutor
from components.records import manifest, shard_files
from components.settings.ingest import Ingest
from components.storage.location import Location
from components.storage.objects import ObjectPath
from components.storage.paths import files_below
from data.digits import write_image_folder

pytestmark = pytest.mark.slow


def examples(uri: Location) -> Any:
    """Returns an artifact of examples."""
    artifact = standard_artifacts.Examples()
    artifact.uri, artifact.split_names = str(uri), '["train", "eval", "test"]'
    examples_utils.set_payload_format(artifact, example_gen_pb2.FORMAT_TF_EXAMPLE)
    return artifact


def executor(kind: Any, home: Path, *flags: str) -> Any:
    """Returns an executor that works below a folder."""
    return kind(kind.Context(beam_pipeline_args=list(flags), tmp_dir=str(home / "tmp"), unique_id="1"))


def run_ingest(data: Path, target: Location, home: Path) -> Any:
    """Runs the node Ingest and returns its artifact."""
    config = IngestConfig(
        needs=Needs(),
        settings=Ingest(min_shards=2), hash_cache=str(home / "hashes.db"), checks=str(home / "checks.db"),
        quarantine_list=str(home / "bad.jsonl"),
    )  # fmt: skip
    properties = dict(ingest.IngestExamples(str(data), config).exec_properties)
    properties[ingest.FINGERPRINT] = ingest._survey(str(data), config).digest
    written = examples(target)
    executor(ingest.IngestExecutor, home).Do({}, {"examples": [written]}, properties)
    return written


def run_extract(read: Any, model: Location, target: Location, home: Path, *flags: str) -> None:
    """Runs the node Extract."""
    stored = standard_artifacts.Model()
    stored.uri = str(model)
    properties = {"image": "image", "batch_size": 16, "trusted": False}
    inputs = {"examples": [read], "model": [stored]}
    executor(ExtractExecutor, home, *flags).Do(inputs, {"extracted": [examples(target)]}, properties)


def content(artifact: Location) -> dict[str, bytes]:
    """Returns all files of an artifact."""
    return {name: (artifact / name).read_bytes() for name in sorted(files_below(artifact))}


def test_artifacts_on_a_store_have_the_same_bytes(s3_bucket: str, tmp_path: Path) -> None:
    """Of Ingest and of Extract, whose workers fetch the model; nothing unfinished is left."""
    write_image_folder(tmp_path / "data", 60)
    store = ObjectPath(f"{s3_bucket}/root")
    local_model, model = tmp_path / "Extractor", store / "Extractor/model/2"
    local_model.mkdir()
    layers = [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(4, name="features")]
    keras.Sequential(layers).save(local_model / f"{artifacts.SERVING}.keras")
    for name in files_below(local_model):
        (model / name).upload(local_model / name)

    ingested, extracted = ([home / name for home in (tmp_path, store)] for name in ("Ingest/1", "Extract/3"))
    for number, (source, target) in enumerate(zip(ingested, extracted, strict=True)):
        home = tmp_path / f"home-{number}"
        read = run_ingest(tmp_path / "data", source, home)
        run_extract(read, (local_model, model)[number], target, home)

    assert content(ingested[0]) == content(ingested[1])
    assert content(extracted[0]) == content(extracted[1])
    written = manifest.read(extracted[1])
    assert sum(shard.records for shard in written.shards) == 60
    shard_files.finish(extracted[1], written.shards)
    assert {name.split("/")[0] for name in files_below(extracted[1])} == {
        "Split-train", "Split-eval", "Split-test", manifest.MANIFEST, manifest.QUARANTINE,
    }  # fmt: skip
