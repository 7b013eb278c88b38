"""URIs are local while an executor works and remote afterwards; nothing is committed unless all of it is uploaded."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import standard_artifacts

from components.errors import BadInput, Locked, PenstockError
from components.storage import tensorflow_s3
from components.storage.objects import ObjectPath
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.remote import lease
from pipelines.orchestration.remote.staging import Staged, Stager
from pipelines.orchestration.runners import engines


@pytest.fixture
def config(s3_bucket: str, tmp_path: Path) -> RunConfig:
    """A run with its root on a real S3 server."""
    return run_config.make("image", data=str(tmp_path), root=f"{s3_bucket}/root", state=str(tmp_path / "state"))


@pytest.fixture
def examples(config: RunConfig) -> ObjectPath:
    """An artifact on the store, with its seal."""
    assert config.store is not None
    folder = config.store / "Ingest" / "examples" / "1"
    (folder / "manifest.json").write_bytes(b"{}")
    (folder / "Split-train/shard").write_bytes(b"records")
    seals.write(config, folder, seals.of_listing(folder))
    return folder


def info(config: RunConfig, examples: ObjectPath, node: str = "Trainer") -> Any:
    """Returns what TFX's launcher passes to an executor, as far as staging reads it."""
    model = SimpleNamespace(uri=f"{config.root}/{node}/model/2")
    artifact = standard_artifacts.Examples()
    artifact.uri = str(examples)
    return SimpleNamespace(
        pipeline_node=SimpleNamespace(node_info=SimpleNamespace(id=node)),
        input_dict={"examples": [artifact]},
        output_dict={"model": [model]},
        tmp_dir=f"{config.root}/{node}/.system/2/.temp/",
        stateful_working_dir=f"{config.root}/{node}/.system/state",
        execution_output_uri=f"{config.root}/{node}/.system/2/executor_output.pb",
    )


def held(config: RunConfig) -> Any:
    """Returns the lock of the root."""
    assert config.store is not None
    return lease.hold(config.store, "state")


def stage(config: RunConfig, holding: lease.Lease, execution: Any, work: Callable[[Staged], None]) -> None:
    """Does something with the artifacts of a node while they are staged."""
    with Stager(config, holding).staged(execution, is_beam=False) as staged:
        work(staged)


def output_of(execution: Any) -> Any:
    """Returns what an executor returns: the artifact with its local URI, also as a property."""
    made = execution_result_pb2.ExecutorOutput()
    artifact = made.output_artifacts["model"].artifacts.add(uri=execution.output_dict["model"][0].uri)
    artifact.custom_properties["current_model"].string_value = f"{artifact.uri}/Format-Serving"
    return made


def test_a_node_works_on_local_folders(config: RunConfig, examples: ObjectPath) -> None:
    """Its outputs are on the store before it is published, and no artifact names a folder of this machine."""
    execution = info(config, examples)
    remote = execution.output_dict["model"][0].uri
    with held(config) as holding, Stager(config, holding).staged(execution, is_beam=False) as staged:
        staged.fetch()
        local = Path(execution.output_dict["model"][0].uri)
        assert (Path(execution.input_dict["examples"][0].uri) / "Split-train/shard").read_bytes() == b"records"
        assert Path(execution.tmp_dir).is_dir()
        (local / "weights").write_bytes(b"weights")
        output = output_of(execution)
        staged.publish(output, "")

    assert (ObjectPath(remote) / "weights").read_bytes() == b"weights"
    assert seals.commit_object(config, ObjectPath(remote)).is_file()  # type: ignore[union-attr]
    assert execution.output_dict["model"][0].uri == remote
    assert execution.input_dict["examples"][0].uri == str(examples)
    assert execution.tmp_dir.startswith("s3://")
    (made,) = output.output_artifacts["model"].artifacts
    assert made.uri == remote
    assert made.custom_properties["current_model"].string_value == f"{remote}/Format-Serving"


def test_an_executor_that_fails(config: RunConfig, examples: ObjectPath) -> None:
    """Its local output is deleted, and nothing is on the store."""
    execution = info(config, examples)

    def fail(staged: Staged) -> None:
        staged.fetch()
        (Path(execution.output_dict["model"][0].uri) / "weights").write_bytes(b"weights")
        raise ValueError("failed")

    with held(config) as holding, pytest.raises(ValueError, match="failed"):
        stage(config, holding, execution, fail)

    assert not list(config.mirror.glob("Trainer/model/*"))
    assert execution.output_dict["model"][0].uri.startswith("s3://")
    assert set(config.store.files_below()) == {  # type: ignore[union-attr]
        "Ingest/examples/1/manifest.json",
        "Ingest/examples/1/Split-train/shard",
        f".penstock/seals/{seals.path(config, examples).name}",
    }


def test_a_run_that_lost_its_lock_commits_nothing(config: RunConfig, examples: ObjectPath) -> None:
    """Another machine has taken the root over."""
    execution = info(config, examples)
    remote = ObjectPath(execution.output_dict["model"][0].uri)

    def publish(staged: Staged) -> None:
        staged.fetch()
        (Path(execution.output_dict["model"][0].uri) / "weights").write_bytes(b"weights")
        holding.beat()
        staged.publish(output_of(execution), "")

    with (
        held(config) as holding,
        lease.hold(holding.path.parent.parent, "other", take_over=True),
        pytest.raises(Locked),
    ):
        stage(config, holding, execution, publish)

    assert remote.files_below() == {}


@pytest.mark.parametrize(("choice", "free", "stays"), [
    ("auto", 1 << 40, False), ("auto", 1 << 20, True), ("always", 1 << 40, False), ("never", 1 << 40, True),
])  # fmt: skip
def test_whether_the_trainer_copies_its_shards(
    config: RunConfig, examples: ObjectPath, monkeypatch: pytest.MonkeyPatch, choice: str, free: int, stays: bool
) -> None:
    """By the setting, or by the space that is free."""
    enabled: list[bool] = []
    monkeypatch.setattr(tensorflow_s3, "enable", lambda: enabled.append(True))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free, total=1 << 40))
    made = run_config.make(
        "image", data=".", root=str(config.root), state=str(config.state), flags=[f"input.copy_shards={choice}"]
    )
    execution = info(made, examples)
    with held(made) as holding, Stager(made, holding).staged(execution, is_beam=False) as staged:
        staged.fetch()
        assert (execution.input_dict["examples"][0].uri == str(examples)) is stays

    assert bool(enabled) is stays


def test_shards_that_stay_on_the_store_are_compared_with_the_seal(config: RunConfig, examples: ObjectPath) -> None:
    """By one listing; the error names the object."""
    (examples / "Split-train/shard").write_bytes(b"RECORDS")
    made = run_config.make(
        "image", data=".", root=str(config.root), state=str(config.state), flags=["input.copy_shards=never"]
    )
    with held(made) as holding, pytest.raises(BadInput, match="Split-train/shard altered"):
        stage(made, holding, info(made, examples), lambda staged: staged.fetch())


def test_the_gate_fetches_no_shards(config: RunConfig, examples: ObjectPath) -> None:
    """It reads the manifest only; the next node that needs the shards fetches them."""
    copy = config.mirror / "Ingest/examples/1"
    with held(config) as holding:
        stage(config, holding, info(config, examples, "Gate"), lambda staged: staged.fetch())
        assert [path.name for path in copy.rglob("*") if path.is_file()] == ["manifest.json"]
        stage(config, holding, info(config, examples, "StatisticsGen"), lambda staged: staged.fetch())
        assert (copy / "Split-train/shard").read_bytes() == b"records"


@pytest.fixture
def on_engine(config: RunConfig, examples: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A node whose workers write to the store themselves: its output has a number that was used before."""
    monkeypatch.setattr(tensorflow_s3, "enable", lambda: None)
    monkeypatch.setattr(engines, "is_distributed", lambda *_: True)
    for home in (ObjectPath(f"{config.root}/Trainer/model/2"), config.mirror / "Trainer/model/2"):
        if isinstance(home, Path):
            home.mkdir(parents=True)
        (home / "weights").write_bytes(b"OLD....")
        (home / "foreign").write_bytes(b"old")
    return info(config, examples)


def test_an_engine_finds_no_objects_of_an_earlier_number(config: RunConfig, on_engine: Any) -> None:
    """And the audit no copies of them: those of the same size would be taken for new."""
    folder = ObjectPath(on_engine.output_dict["model"][0].uri)
    with held(config) as holding, Stager(config, holding).staged(on_engine, is_beam=True) as staged:
        staged.fetch()
        assert folder.files_below() == {}
        (folder / "weights").write_bytes(b"weights")
        staged.wrote()
        assert (staged.outputs["model"] / "weights").read_bytes() == b"weights"
        staged.publish(execution_result_pb2.ExecutorOutput(), "")

    assert set(seals.read(config, folder).etags) == {"weights"}  # type: ignore[union-attr]


def test_what_an_engine_wrote_after_the_audit_is_not_committed(config: RunConfig, on_engine: Any) -> None:
    """A worker that was late, or another program."""
    folder = ObjectPath(on_engine.output_dict["model"][0].uri)
    with held(config) as holding, Stager(config, holding).staged(on_engine, is_beam=True) as staged:
        staged.fetch()
        (folder / "weights").write_bytes(b"weights")
        staged.wrote()
        (folder / "weights").write_bytes(b"WEIGHTS")
        with pytest.raises(PenstockError, match="lists other files than the node wrote"):
            staged.publish(execution_result_pb2.ExecutorOutput(), "")

    assert seals.read(config, folder) is None


def test_no_copy_is_deleted_in_vain(config: RunConfig, examples: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the shards would not fit anyway; a copy that is complete is used on a full disk, too."""
    other = config.mirror / "Trainer/model/1"
    monkeypatch.setattr(tensorflow_s3, "enable", lambda: None)
    with held(config) as holding:
        stage(config, holding, info(config, examples, "StatisticsGen"), lambda staged: staged.fetch())
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0, total=1 << 40))
        execution = info(config, examples)
        with Stager(config, holding).staged(execution, is_beam=False) as staged:
            staged.fetch()
            assert not execution.input_dict["examples"][0].uri.startswith("s3://")

        other.mkdir(parents=True)
        (other / "weights").write_bytes(b"weights")
        (config.mirror / "Ingest/examples/1/Split-train/shard").unlink()
        stage(config, holding, info(config, examples), lambda staged: staged.fetch())
    assert (other / "weights").exists()
    assert (config.mirror / "Ingest/examples/1/manifest.json").exists()
