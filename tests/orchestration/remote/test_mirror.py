"""Local copies of artifacts on a real S3 server: verified, complete, bounded."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from components.errors import BadInput
from components.records import seal
from components.storage.hashing import HashCache
from components.storage.objects import ObjectPath
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.remote import mirror
from pipelines.orchestration.remote.mirror import Mirror

FILES = {"manifest.json": b"{}", "Split-train/a": b"records", "Split-train/b": b"more records"}


@pytest.fixture
def config(s3_bucket: str, tmp_path: Path) -> RunConfig:
    """A run with its root on a real S3 server."""
    return run_config.make("image", data=str(tmp_path), root=f"{s3_bucket}/root", state=str(tmp_path / "state"))


@pytest.fixture
def artifact(config: RunConfig, tmp_path: Path) -> ObjectPath:
    """An artifact on the store, with its seal."""
    assert config.store is not None
    folder, source = config.store / "Ingest" / "examples" / "1", tmp_path / "source"
    for name, content in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    mirror.upload(source, folder, FILES, lambda: None)
    seals.write(config, folder, seals.of_listing(folder, seal.seal(source, HashCache(None))))
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """Returns all files below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fetch(config: RunConfig, folder: ObjectPath, wanted: Callable[[str], bool] = bool) -> Path:
    """Fetches an artifact with a new mirror."""
    return Mirror(config).fetch(folder, seals.read(config, folder), HashCache(None), wanted)


def test_a_copy_is_complete(config: RunConfig, artifact: ObjectPath) -> None:
    """It is in the state folder, under the path that the artifact has in the root."""
    copy = fetch(config, artifact)

    assert copy == config.mirror / "Ingest" / "examples" / "1"
    assert content(copy) == FILES


def test_only_what_differs_is_fetched_again(config: RunConfig, artifact: ObjectPath) -> None:
    """An altered file is replaced, a foreign one deleted, an intact one kept."""
    copy = fetch(config, artifact)
    kept = (copy / "Split-train" / "b").stat().st_ino
    (copy / "Split-train" / "a").write_bytes(b"RECORDS")
    (copy / "foreign").write_bytes(b"")
    (copy / "manifest.json").unlink()

    assert content(fetch(config, artifact)) == FILES
    assert (copy / "Split-train" / "b").stat().st_ino == kept


def test_files_can_be_left_out(config: RunConfig, artifact: ObjectPath) -> None:
    """The audit of a node on a distributed engine needs no shards."""
    assert content(fetch(config, artifact, lambda name: not name.startswith("Split-"))).keys() == {"manifest.json"}


def test_an_object_that_is_not_what_was_written(config: RunConfig, artifact: ObjectPath) -> None:
    """The error names it; no file of it stays under its name."""
    (artifact / "Split-train/a").write_bytes(b"altered")
    with pytest.raises(BadInput, match="Split-train/a: its content is not what the node wrote"):
        fetch(config, artifact)
    assert not (config.mirror / "Ingest/examples/1/Split-train/a").exists()
    assert seals.broken(config, artifact, HashCache(None)) == "its seal is missing"  # so its node runs again


def test_the_least_recently_used_copies_go_first(
    config: RunConfig, artifact: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the present run stay."""
    for age, name in enumerate(["newest", "older", "oldest"]):
        folder = config.mirror / "Trainer" / "model" / name
        folder.mkdir(parents=True)
        (folder / "weights").write_bytes(b"x" * 1000)
        os.utime(folder, (1e9 - age, 1e9 - age))
    copies = Mirror(config)
    copies.fetch(artifact, seals.read(config, artifact), HashCache(None))
    total = 3000 + sum(map(len, FILES.values()))
    monkeypatch.setattr(mirror, "_SHARE", 0.0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": total}))
    copies.make_room(0)
    assert [path.name for path in config.mirror.glob("*/*/*")] == ["1"]


@pytest.mark.parametrize("uri", ["s3://elsewhere/x", "s3://bucket/rootless/x"])
def test_a_folder_outside_of_the_root(config: RunConfig, uri: str) -> None:
    """It has no copy."""
    with pytest.raises(BadInput, match="below the root"):
        Mirror(config).local(ObjectPath(uri))


class TestSeals:
    """Whether an artifact on the store is what its node wrote, by one listing."""

    def test_intact(self, config: RunConfig, artifact: ObjectPath) -> None:
        """Also for another machine, which has no seal of its own."""
        assert seals.broken(config, artifact, HashCache(None)) is None
        seals.path(config, artifact).unlink()
        assert seals.broken(config, artifact, HashCache(None)) is None

    def test_altered(self, config: RunConfig, artifact: ObjectPath) -> None:
        """Same size, other content: the store gives it another etag."""
        (artifact / "Split-train/a").write_bytes(b"RECORDS")
        assert seals.broken(config, artifact, HashCache(None)) == "Split-train/a altered"

    def test_deleted_and_added(self, config: RunConfig, artifact: ObjectPath) -> None:
        """The first file is named."""
        (artifact / "z").write_bytes(b"1")
        assert seals.broken(config, artifact, HashCache(None)) == "z added"
        (artifact / "manifest.json").unlink()
        assert seals.broken(config, artifact, HashCache(None)) == "manifest.json deleted"

    def test_without_a_commit_object(self, config: RunConfig, artifact: ObjectPath) -> None:
        """It is not used."""
        seals.remove(config, artifact)
        assert seals.broken(config, artifact, HashCache(None)) == "its seal is missing"


def test_paths_of_the_mirror_become_uris(config: RunConfig) -> None:
    """Whole names only: another folder may start with the same letters."""
    home, root = config.mirror, config.root
    text = Mirror(config).remote_text
    assert text(f"{home}/Trainer/model/1") == f"{root}/Trainer/model/1"
    assert text(f'["{home}", "{home}/a"]') == f'["{root}", "{root}/a"]'
    for other in (f"{home}-2/a", f"{home}.old", f"/data{home}/a"):
        assert text(other) == other
