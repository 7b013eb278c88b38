"""A root on an object store has one metadata store; a state folder has one root. Leftovers on the store are deleted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.errors import SettingsError
from components.records.seal import Seal
from components.storage.hashing import HashedFile
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.remote import remote_root
from pipelines.orchestration.root import leftovers


def make(root: str, state: Path | None = None, *beam_args: str) -> RunConfig:
    """Returns a configuration."""
    return run_config.make("image", data=".", root=root, state=str(state) if state else None, beam_args=beam_args)


def hold(config: RunConfig) -> None:
    """Takes the lock of a root once."""
    with remote_root.held(config, wait=False, take_over=False):
        pass


def test_a_state_folder_belongs_to_one_root(s3_bucket: str, tmp_path: Path) -> None:
    """Another root, and a local root in the same folder, are refused."""
    hold(make(f"{s3_bucket}/a", tmp_path / "state"))
    hold(make(f"{s3_bucket}/a", tmp_path / "state"))

    with pytest.raises(SettingsError, match=f"the state folder of the root {s3_bucket}/a, not of {s3_bucket}/b"):
        hold(make(f"{s3_bucket}/b", tmp_path / "state"))
    with pytest.raises(SettingsError, match="name that with --root"):
        hold(make(str(tmp_path / "state")))


def test_a_local_root_is_no_state_folder(s3_bucket: str, tmp_path: Path) -> None:
    """Its metadata names artifacts on this machine."""
    (tmp_path / "metadata.db").write_bytes(b"")
    with pytest.raises(SettingsError, match="holds a pipeline root of its own"):
        hold(make(f"{s3_bucket}/a", tmp_path))


def test_a_root_has_one_metadata_store(s3_bucket: str, tmp_path: Path) -> None:
    """Another state folder would number its artifacts as the first one does."""
    hold(make(f"{s3_bucket}/a", tmp_path / "first"))
    with pytest.raises(SettingsError, match=r"its metadata is .*first on .*; run there"):
        hold(make(f"{s3_bucket}/a", tmp_path / "second"))


def test_leftovers_on_the_store(s3_bucket: str, tmp_path: Path, open_metadata: Callable[..., Any]) -> None:
    """Outputs of unfinished executions go, with their seals and copies; those of others stay."""
    config = make(f"{s3_bucket}/root", tmp_path / "state")
    assert config.store is not None
    config.state.mkdir()
    record = open_metadata(config.state / "metadata.db")
    ids = {state: record("Trainer", state=state)[0] for state in ("COMPLETE", "FAILED", "CANCELED")}
    outputs = {state: config.store / "Trainer" / "model" / str(number) for state, number in ids.items()}
    for output in outputs.values():
        (output / "weights").write_bytes(b"weights")
        seals.write(config, output, Seal((HashedFile("weights", 7, ""),), {"weights": "x"}))
        (config.mirror / "Trainer" / "model" / output.name).mkdir(parents=True)
    system = config.store / "Trainer" / ".system" / "executor_execution" / "9" / ".temp" / "part"
    system.write_bytes(b"part")

    leftovers.collect(config, Store(config.metadata, "image"))

    kept = outputs["COMPLETE"]
    assert set(config.store.files_below()) == {
        f"Trainer/model/{kept.name}/weights",
        f".penstock/seals/{seals.path(config, kept).name}",
    }
    assert [path.name for path in config.mirror.glob("Trainer/model/*")] == [kept.name]
    assert [path.name for path in (config.notes / "seals").iterdir()] == [seals.path(config, kept).name]


@pytest.mark.parametrize("root", ["s3://bucket", "s3:///x", "s3://bucket/../x", "s3://u:pass-word@h/x", "s3://b/a*"])
def test_what_is_no_root(root: str, tmp_path: Path) -> None:
    """A bucket alone, an empty name, a way out, a password, and what a pattern would match."""
    with pytest.raises(SettingsError) as error:
        make(root, tmp_path)
    assert "pass-word" not in str(error.value)


def test_a_local_root_has_no_other_state_folder(tmp_path: Path) -> None:
    """The flag is for roots on a store."""
    with pytest.raises(SettingsError, match="leave --state out"):
        make(str(tmp_path / "root"), tmp_path / "other")
    assert make(str(tmp_path / "root")).state == tmp_path / "root"
