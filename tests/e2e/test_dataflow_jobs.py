"""The Dataflow jobs of all data nodes, built without network from a sample run, field by field."""

import base64
import bz2
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as pb

from data.breast_cancer import write_table
from data.digits import write_image_folder
from pipelines.package import bundle, wheel

PENSTOCK = Path(sys.executable).with_name("penstock")
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.all]

QUICK = ("--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0", "--set", "gate.min_per_class=0")
IMAGE = f"europe-west1-docker.pkg.dev/my-project-123456/penstock/worker:{bundle.image_tag(wheel.version())}"
CLOUD = {
    "project": "my-project-123456",
    "region": "europe-west1",
    "temp_location": "gs://my-bucket/tmp",
    "staging_location": "gs://my-bucket/staging",
    "machine_type": "n2-standard-4",
    "workers": "8",
    "service_account": "worker@my-project-123456.iam.gserviceaccount.com",
}
GRAPH_LIMIT = 20_000_000  # bytes that Dataflow accepts
TRANSFORMS = {
    "Ingest": {"WorkList", "Divide", "WriteShards"},
    "StatisticsGen": {
        f"{what}[{split}]"
        for what in ("Read", "Statistics", "Write")
        for split in ("train", "eval", "test")
    },
    "Transform": {"Shards", "Analyze"},
    "Evaluator": {"ReadFromTFRecordToArrow[test][0]", "FlattenExamples", "ExtractEvaluateAndWriteResults"},
    "Extract": {"Shards", "Embed"},
}


@dataclass(frozen=True)
class Job:
    """A staged job, as Dataflow would get it."""

    folder: Path
    task: str

    @property
    def description(self) -> Any:
        """The content of job.json."""
        return json.loads((self.folder / "job.json").read_bytes())

    @property
    def environment(self) -> Any:
        """How it runs."""
        return self.description["environment"]

    @property
    def pool(self) -> Any:
        """Its only worker pool."""
        (found,) = self.environment["workerPools"]
        return found

    @property
    def options(self) -> dict[str, Any]:
        """The options that workers see."""
        found: dict[str, Any] = self.environment["sdkPipelineOptions"]["options"]
        return found

    @property
    def graph(self) -> Any:
        """The content of pipeline.pb."""
        return pb.Pipeline.FromString((self.folder / "pipeline.pb").read_bytes())

    def texts(self) -> Iterator[bytes]:
        """Yields the code and data of each transform, unpacked."""
        for transform in self.graph.components.transforms.values():
            payload, urn = transform.spec.payload, transform.spec.urn
            if urn == "beam:transform:pardo:v1":
                payload = pb.ParDoPayload.FromString(payload).do_fn.payload
            elif urn == "beam:transform:read:v1":
                payload = pb.ReadPayload.FromString(payload).source.payload
            yield unpacked(payload)

    def find(self, pattern: bytes) -> set[str]:
        """Returns what matches a pattern in the code and data of the transforms."""
        return {found.decode() for text in self.texts() for found in re.findall(pattern, text)}


def unpacked(payload: bytes) -> bytes:
    """Returns what Beam's pickler packed, or the payload itself."""
    try:
        packed = base64.b64decode(payload, validate=True)
        return bz2.decompress(packed) if packed.startswith(b"BZh") else zlib.decompress(packed)
    except (ValueError, OSError, zlib.error):
        return payload


def stage(pipeline: Any, out: Path, data: str, *more: str, offline: Any) -> subprocess.CompletedProcess[str]:
    """Runs `penstock stage` without network."""
    cloud = [word for key, value in CLOUD.items() for word in ("--set", f"engine.{key}={value}")]
    sample = ["--sample", str(pipeline.root), "--sample-data", str(pipeline.data)]
    places = ["--root", "gs://my-bucket/root", "--data", data, "--out", str(out)]
    command = [*offline, str(PENSTOCK), "stage", pipeline.task, *sample, *places, *cloud, *QUICK, *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tabular(tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any) -> Any:
    """A finished run of the tabular task."""
    folder = tmp_path_factory.mktemp("sample")
    write_table(folder / "data", 300)
    pipeline = make_pipeline(folder / "data", folder / "root", task="tabular")
    result = pipeline.run(*QUICK)
    assert result.code == 0, result.output
    return pipeline


@pytest.fixture(scope="module")
def staged(tabular: Any, tmp_path_factory: pytest.TempPathFactory, offline: Any) -> Path:
    """The folder with the jobs of the tabular task, with a wheel."""
    out = tmp_path_factory.mktemp("jobs") / "out"
    done = stage(tabular, out, "gs://my-bucket/data", offline=offline)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


NODES = ("Ingest", "StatisticsGen", "Transform", "Evaluator")


@pytest.fixture(params=NODES)
def job(staged: Path, request: pytest.FixtureRequest) -> Job:
    """The job of each node in turn."""
    return Job(staged / request.param, "tabular")


def check_fields(job: Job) -> None:
    """Compares the fields of a job that the settings decide."""
    node = job.folder.name
    name = f"{job.task}-{node.lower()}"
    assert (job.description["name"], job.description["type"]) == (name, "JOB_TYPE_BATCH")
    assert job.description["labels"] == {"penstock-pipeline": job.task, "penstock-node": node.lower()}
    assert job.environment["userAgent"] == {"name": "Apache Beam Python 3.10 SDK", "version": "2.62.0"}
    assert job.environment["version"] == {"job_type": "FNAPI_BATCH", "major": "8"}
    assert {"use_runner_v2", "use_portable_job_submission"} <= set(job.environment["experiments"])
    assert job.environment["serviceAccountEmail"] == CLOUD["service_account"]
    assert re.fullmatch(rf"storage.googleapis.com/my-bucket/tmp/{name}\.[\d.]+", job.environment["tempStoragePrefix"])
    assert (job.pool["machineType"], job.pool["autoscalingSettings"]) == ("n2-standard-4", {"maxNumWorkers": 8})
    options = {key: job.options[key] for key in ("runner", "project", "region", "job_name")}
    assert options == {
        "runner": "DataflowRunner",
        "project": CLOUD["project"],
        "region": CLOUD["region"],
        "job_name": name,
    }
    assert re.fullmatch(rf"gs://my-bucket/staging/{name}\.[\d.]+", job.options["staging_location"])
    assert job.options["pipelineUrl"] == f"{job.options['staging_location']}/pipeline.pb"
    assert not [plugin for plugin in job.options["beam_plugins"] if not plugin.startswith("apache_beam.")]


def check_graph(job: Job) -> None:
    """Checks that the graph holds the node's transforms and is small enough."""
    names = {each.unique_name.partition("/")[0] for each in job.graph.components.transforms.values()}
    assert names >= TRANSFORMS[job.folder.name]
    assert 1_000 < (job.folder / "pipeline.pb").stat().st_size < GRAPH_LIMIT


def test_every_data_node_has_a_job(staged: Path) -> None:
    """And no other node has one."""
    assert {each.name for each in staged.iterdir() if each.is_dir()} == set(NODES)


def test_fields(job: Job) -> None:
    """Name, labels, environment, machine type, workers, region and locations are those of the settings."""
    check_fields(job)


def test_graph(job: Job) -> None:
    """The graph contains the node's transforms, and is below Dataflow's limit."""
    check_graph(job)


def test_the_wheel_and_the_requirements_are_staged(job: Job) -> None:
    """Each package in the job is in the folder; TFX's own archive is not among them."""
    prefix = job.options["staging_location"].replace("gs://", "storage.googleapis.com/")
    packages = {each["name"]: each["location"] for each in job.pool["packages"]}
    name = f"penstock-{wheel.version()}-py3-none-any.whl"
    staged = job.folder / "staged"

    assert packages == {each: f"{prefix}/{each}" for each in packages}
    assert sorted(packages) == sorted(each.name for each in staged.iterdir())
    assert packages.keys() == {
        name,
        "extra_packages.txt",
        "requirements.txt",
        "submission_environment_dependencies.txt",
    }
    assert (staged / "requirements.txt").read_bytes() == wheel.WORKER_LOCK.read_bytes()
    assert (staged / "extra_packages.txt").read_text().split() == [name]
    assert job.pool["workerHarnessContainerImage"].endswith("beam_python3.10_sdk:2.62.0")


def test_workers_read_and_write_on_the_store(staged: Path) -> None:
    """Shards, model and outputs are named by their addresses below root and data."""
    found = {node: Job(staged / node, "tabular").find(rb"gs://my-bucket/(?:root|data)[\w./*-]*") for node in NODES}
    folder = re.compile(r"gs://my-bucket/(root/\w+/\w+)/\d+")
    read = {node: {each[1] for name in names if (each := folder.match(name))} for node, names in found.items()}

    assert read == {
        "Ingest": {"root/Ingest/examples"},
        "StatisticsGen": {"root/Ingest/examples", "root/StatisticsGen/statistics"},
        "Transform": {"root/Ingest/examples", "root/Transform/transform_graph"},
        "Evaluator": {"root/Ingest/examples", "root/Trainer/model", "root/Evaluator/evaluation"},
    }
    assert "gs://my-bucket/data" in found["Ingest"]


def test_no_job_names_a_file_of_this_machine(staged: Path, tabular: Any) -> None:
    """Neither the sample nor the mirror."""
    sample = re.escape(str(tabular.root.parent)).encode()
    mirrored = {node: Job(staged / node, "tabular").find(rb"/penstock-stage-\w+/mirror[\w./-]*") for node in NODES}

    assert {node: Job(staged / node, "tabular").find(sample + rb"/(?:root|data)/[A-Z][\w./-]*") for node in NODES} == {
        node: set() for node in NODES
    }
    assert [node for node, names in mirrored.items() if names] == []


def test_a_node_that_has_not_run_stops_the_staging(
    make_pipeline: Any, tabular: Any, tmp_path: Path, offline: Any
) -> None:
    """The message says which one, and what to do."""
    started = make_pipeline(tabular.data, tmp_path / "root", task="tabular")
    assert started.run(*QUICK, "--to", "Ingest").code == 0
    done = stage(started, tmp_path / "out", "gs://my-bucket/data", offline=offline)

    assert done.returncode == 1
    assert "StatisticsGen has not run there; run the pipeline to the end on a sample" in done.stderr
    assert [each.name for each in (tmp_path / "out").iterdir() if each.is_dir()] == ["Ingest"]


def test_a_sample_that_does_not_exist_is_an_error_of_the_settings(make_pipeline: Any, tmp_path: Path) -> None:
    """Exit code 2."""
    missing = make_pipeline(tmp_path, tmp_path / "root", task="tabular")
    done = stage(missing, tmp_path / "out", "gs://my-bucket/data", offline=())

    assert done.returncode == 2
    assert "expected the root of a finished run on this machine" in done.stderr


@pytest.mark.all
def test_extract_in_an_image(make_pipeline: Any, tmp_path: Path, offline: Any) -> None:
    """A pretrained model on workers; with an image nothing but Beam's list of packages is staged."""
    import keras

    inputs = keras.Input((32, 32, 3), name="image")
    outputs = keras.layers.GlobalAveragePooling2D(name="features")(keras.layers.Conv2D(4, 3)(inputs))
    keras.Model(inputs, outputs).save(tmp_path / "tiny.keras")
    write_image_folder(tmp_path / "data", 200)
    pretrained = ("--set", f"extract.model={tmp_path / 'tiny.keras'}", "--set", "extract.where=beam")
    pipeline = make_pipeline(tmp_path / "data", tmp_path / "root")
    result = pipeline.run(*QUICK, *pretrained)
    assert result.code == 0, result.output
    more = (*pretrained, "--set", f"engine.image={IMAGE}")
    done = stage(pipeline, tmp_path / "out", "gs://my-bucket/data", *more, offline=offline)
    assert done.returncode == 0, done.stdout + done.stderr

    for node in (*NODES, "Extract"):
        job = Job(tmp_path / "out" / node, "image")
        check_fields(job)
        check_graph(job)
        assert job.pool["workerHarnessContainerImage"] == IMAGE
        assert {each["containerImage"] for each in job.pool["sdkHarnessContainerImages"]} == {IMAGE}
        assert {each["name"] for each in job.pool["packages"]} <= {"submission_environment_dependencies.txt"}
    names = Job(tmp_path / "out" / "Extract", "image").find(rb"gs://my-bucket/root/\w+/\w+")
    assert names == {
        f"gs://my-bucket/root/{each}" for each in ("Ingest/examples", "Extractor/model", "Extract/extracted")
    }
