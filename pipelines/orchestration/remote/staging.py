"""Artifacts on an object store, nodes on this machine: each node works on local disk.

    metadata: s3://…/Ingest/examples/5             metadata: s3://…/Trainer/model/9
         │ fetched and verified (`mirror.py`)                ▲ commit object, after all files
         ▼                                                   │
    <state>/mirror/Ingest/examples/5 ─► executor ─► <state>/mirror/Trainer/model/9 ─► audit, seal, upload

The artifacts' URIs are local only while the executor works. A killed run leaves objects that nothing refers to; the
next run deletes them (`leftovers.py`). On a distributed engine, the URIs stay remote and workers write to the store;
the outputs without their shards are then fetched for the audit, and the seal is that of the listing.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.errors import BadInput, PenstockError
from components.records import seal
from components.records.seal import Seal
from components.storage import durable, tensorflow_s3
from components.storage.hashing import HashCache
from components.storage.location import REMOTE_URI, Location, location
from components.storage.objects import ObjectPath
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.remote.lease import Lease
from pipelines.orchestration.remote.mirror import Mirror, upload
from pipelines.orchestration.runners import engines

_MARGIN = 1 << 30  # bytes of disk that stay free when the Trainer's shards are copied
_HAS_SHARDS = ("Ingest", "Extract")  # their output
_READS_NO_SHARDS = ("Gate",)  # but the manifest


def work_folder(config: RunConfig) -> Path:
    """Returns the folder for the temporary files of the node that works, if the root is on an object store."""
    return config.notes / "work"


@dataclass
class Staged:
    """The artifacts of one node while it runs; with a local root, simply those of TFX."""

    info: Any
    inputs: dict[str, Location] = field(default_factory=dict)  # as the audit reads them
    outputs: dict[str, Path] = field(default_factory=dict)
    is_remote: bool = False  # whether the executor itself reads and writes on the store

    def fetch(self) -> None:
        """Makes the inputs available before the executor runs."""
        self.inputs, self.outputs = locations(self.info.input_dict), locations(self.info.output_dict)  # type: ignore[assignment]

    def wrote(self) -> None:
        """Called after the executor: makes the outputs available to the audit."""

    def publish(self, output: Any, served: str) -> None:
        """Seals the outputs, and the served version, after the audit."""


class LocalStaged(Staged):
    """The root is on this machine."""

    def __init__(self, info: Any, config: RunConfig) -> None:
        """Takes what the launcher passes to the executor."""
        super().__init__(info)
        self._config = config

    def publish(self, output: Any, served: str) -> None:
        """Seals the outputs, and the served version, after the audit."""
        del output
        folders = [Path(each.uri) for found in self.info.output_dict.values() for each in found]
        with closing(HashCache(self._config.hash_cache)) as cache:
            for folder in folders:
                seals.write(self._config, folder, seal.seal(folder, cache))
            _seal_served(self._config, served, cache)


class RemoteStaged(Staged):
    """The root is on an object store."""

    def __init__(self, info: Any, config: RunConfig, mirror: Mirror, lease: Lease, *, is_remote: bool) -> None:
        """Takes what the launcher passes to the executor; see `staged`."""
        super().__init__(info, is_remote=is_remote)
        self._config, self._mirror, self._lease = config, mirror, lease
        self._node = info.pipeline_node.node_info.id
        self._uris = {id(each): each.uri for each in _all(info.input_dict, info.output_dict)}
        self._folders = info.tmp_dir, info.stateful_working_dir, info.execution_output_uri
        self._work = work_folder(config)
        self._written: dict[str, Seal] = {}  # what workers wrote, when the audit read it

    def fetch(self) -> None:
        """Fetches the inputs; local folders take the place of the outputs."""
        with closing(HashCache(self._config.hash_cache)) as cache:
            for key, artifacts in self.info.input_dict.items():
                for artifact in artifacts:
                    self._fetch_input(key, artifact, cache)
        self.inputs = locations(self.info.input_dict)
        if self.is_remote:
            tensorflow_s3.enable()
            for artifact in _all(self.info.output_dict):
                self._clear(ObjectPath(artifact.uri))
            return
        durable.remove(self._work)
        for name in ("tmp", "state"):
            (self._work / name).mkdir(parents=True)
        self.info.tmp_dir, self.info.stateful_working_dir = f"{self._work / 'tmp'}/", str(self._work / "state")
        self.info.execution_output_uri = str(self._work / "executor_output.pb")
        for artifact in _all(self.info.output_dict):
            artifact.uri = str(self._mirror.new(ObjectPath(artifact.uri)))
        self.outputs = locations(self.info.output_dict)  # type: ignore[assignment]

    def wrote(self) -> None:
        """Fetches what workers wrote to the store, without shards."""
        if not self.is_remote:
            return
        with closing(HashCache(self._config.hash_cache)) as cache:
            for key, artifacts in self.info.output_dict.items():
                folder = ObjectPath(artifacts[0].uri)
                wanted = _is_no_shard if self._node in _HAS_SHARDS else bool
                self._written[str(folder)] = listed = seals.of_listing(folder)
                self.outputs[key] = self._mirror.fetch(folder, listed, cache, wanted)

    def publish(self, output: Any, served: str) -> None:
        """Uploads the outputs, each with its commit object last; the artifacts get their remote URIs back."""
        with closing(HashCache(self._config.hash_cache)) as cache:
            for artifact in _all(self.info.output_dict):
                self._publish(ObjectPath(self._uris[id(artifact)]), cache)
            _seal_served(self._config, served, cache)
        for made in output.output_artifacts.values():
            for proto in made.artifacts:
                proto.uri = self._mirror.remote_text(proto.uri)
                for properties in (proto.properties, proto.custom_properties):
                    for value in properties.values():
                        if value.WhichOneof("value") == "string_value":
                            value.string_value = self._mirror.remote_text(value.string_value)
        self.restore()

    def restore(self) -> None:
        """Gives the artifacts their remote URIs back."""
        for artifact in _all(self.info.input_dict, self.info.output_dict):
            artifact.uri = self._uris[id(artifact)]
        self.info.tmp_dir, self.info.stateful_working_dir, self.info.execution_output_uri = self._folders
        durable.remove(self._work)

    def _clear(self, folder: ObjectPath) -> None:
        """Deletes objects and copies of a number that was used before, with metadata that are gone."""
        self._lease.require()
        folder.remove_tree()
        self._mirror.new(folder)

    def _fetch_input(self, key: str, artifact: Any, cache: HashCache) -> None:
        folder = location(artifact.uri)
        if isinstance(folder, Path) or not self._mirror.holds(artifact.uri):
            return
        if self.is_remote or self._stays(key, folder, cache):
            if reason := seals.broken(self._config, folder, cache):
                raise BadInput(f"{folder}: {reason}; expected it as its node wrote it: run again, and that node does")
            tensorflow_s3.enable()
            return
        wanted = _is_no_shard if self._node in _READS_NO_SHARDS and key == "examples" else bool
        artifact.set_string_custom_property(REMOTE_URI, artifact.uri)
        artifact.uri = str(self._mirror.fetch(folder, seals.read(self._config, folder), cache, wanted))

    def _stays(self, key: str, folder: ObjectPath, cache: HashCache) -> bool:
        """Whether the Trainer reads its shards from the store."""
        if self._node != "Trainer" or key != "examples":
            return False
        choice, sealed = self._config.settings.input.copy_shards, seals.read(self._config, folder)
        if choice != "auto" or sealed is None:
            return choice == "never"
        needed = self._mirror.missing_bytes(folder, sealed, cache)
        free = shutil.disk_usage(_existing(self._config.mirror)).free
        if not needed or needed + _MARGIN <= free:
            return False
        if needed + _MARGIN > free + self._mirror.removable_bytes(folder):
            return True  # and no copy is deleted in vain
        self._mirror.make_room(needed)
        return needed + _MARGIN > shutil.disk_usage(_existing(self._config.mirror)).free

    def _publish(self, folder: ObjectPath, cache: HashCache) -> None:
        self._lease.require()
        local = self._mirror.local(folder)
        sealed = seal.seal(local, cache)
        if not self.is_remote:
            folder.remove_tree()  # objects of a number that was used before, with metadata that are gone
            upload(local, folder, [file.path for file in sealed.files], self._lease.require)
        listed = seals.of_listing(folder, sealed, seal.checksums_in(local))
        if listed.etags != self._written[str(folder)].etags if self.is_remote else listed.files != sealed.files:
            raise PenstockError(
                f"{folder}: the store lists other files than the node wrote; does another program write there?"
            )
        self._lease.require()
        seals.write(self._config, folder, listed)


class Stager:
    """Stages the nodes of one run."""

    def __init__(self, config: RunConfig, lease: Lease | None) -> None:
        """Takes the run, and the lock of its root if that is on an object store."""
        self._config, self._lease = config, lease
        self._mirror = Mirror(config) if config.store is not None else None

    @contextmanager
    def staged(self, info: Any, *, is_beam: bool) -> Iterator[Staged]:
        """Yields the artifacts of a node; its URIs are remote again afterwards."""
        if self._mirror is None or self._lease is None:
            yield LocalStaged(info, self._config)
            return
        is_remote = is_beam and engines.is_distributed(self._config.settings.engine, self._config.beam_args)
        staged = RemoteStaged(info, self._config, self._mirror, self._lease, is_remote=is_remote)
        try:
            yield staged
        except BaseException:
            if not is_remote:
                for artifact in _all(info.output_dict):
                    if not self._mirror.holds(artifact.uri):
                        durable.remove(Path(artifact.uri))
            raise
        finally:
            staged.restore()


def _seal_served(config: RunConfig, served: str, cache: HashCache) -> None:
    """Seals the served version."""
    if served:
        folder = location(served)
        sealed = seal.seal(folder, cache) if isinstance(folder, Path) else seals.of_listing(folder)
        seals.write(config, folder, sealed)


def _is_no_shard(name: str) -> bool:
    return not name.startswith("Split-")


def _all(*maps: Mapping[str, Any]) -> Iterator[Any]:
    for artifacts in maps:
        for found in artifacts.values():
            yield from found


def locations(artifacts: Mapping[str, Any]) -> dict[str, Location]:
    """Returns where the first artifact of each key is."""
    return {key: location(found[0].uri) for key, found in artifacts.items() if found}


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
