"""Pushes a blessed model atomically, under a version number that only increases.

    model ─► <serving>/.aside-… (copied, fsynced) ─► rename to <serving>/<version>

A server that polls the folder sees a version only when it is complete. On an object store: `store_push.py`.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filelock
import orjson
from tfx import types
from tfx.components.pusher import component as tfx_component
from tfx.components.pusher import executor as tfx_pusher
from tfx.dsl.components.base import executor_spec
from tfx.proto import pusher_pb2
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import proto_utils

from components.errors import DiskFull
from components.pretrained.artifacts import PROVENANCE
from components.serving import store_push
from components.storage import durable
from components.storage.location import REMOTE_URI, Location, location

PUSHED = "pushed.json"
_VERSION = re.compile("[0-9]+")
_BLOCK = 4096  # bytes: the space that a small file takes
_HIGHEST = ".highest-version"  # a version is never used twice, even if its folder is deleted


class PushExecutor(tfx_pusher.Executor):
    """TFX's Pusher with an atomic copy; TFX's own code checks the blessing."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Pushes the model if it is blessed, and writes pushed.json."""
        self._log_startup(input_dict, output_dict, exec_properties)
        pushed = artifact_utils.get_single_instance(output_dict[standard_component_specs.PUSHED_MODEL_KEY])
        if not self.CheckBlessing(input_dict):
            self._MarkNotPushed(pushed)
            _write_outcome(pushed, {"pushed": False})
            return
        destination = pusher_pb2.PushDestination()
        proto_utils.json_to_proto(exec_properties[standard_component_specs.PUSH_DESTINATION_KEY], destination)
        model = artifact_utils.get_single_instance(input_dict[standard_component_specs.MODEL_KEY])
        pipeline = orjson.loads(exec_properties.get(standard_component_specs.CUSTOM_CONFIG_KEY) or b"{}")
        provenance = {**pipeline, "id": model.id, "uri": model.get_string_custom_property(REMOTE_URI) or model.uri}
        serving = location(destination.filesystem.base_directory)
        exported = Path(self.GetModelPath(input_dict))
        folder: Location
        if isinstance(serving, Path):
            folder = push(exported, serving, provenance)
        else:
            folder = store_push.push(exported, serving, provenance)
        self._MarkPushed(pushed, pushed_destination=str(folder), pushed_version=folder.name)
        _write_outcome(pushed, {"pushed": True, "destination": str(folder), "version": folder.name})


class Pusher(tfx_component.Pusher):
    """TFX's Pusher, with the executor above.

    Component `outputs` contains:
     - `pushed_model`: PushedModel with `pushed.json`: whether, where and as which version it was pushed.
    """

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(PushExecutor)


def push(model: Path, serving: Path, provenance: Mapping[str, Any] | None = None) -> Path:
    """Copies `model` to the next version below `serving`, with its provenance, and returns the new folder."""
    serving.mkdir(parents=True, exist_ok=True)
    # Several pipelines may share a serving folder: one of them pushes at a time.
    with filelock.FileLock(serving / ".lock"):
        durable.sweep(serving)
        _check_space(model, serving)
        version = _next_version(serving)
        durable.write_bytes(serving / _HIGHEST, str(version).encode())
        target = serving / str(version)
        with durable.publish_folder(target) as temporary:
            shutil.copytree(model, temporary, dirs_exist_ok=True)
            if provenance:
                (temporary / PROVENANCE).parent.mkdir(exist_ok=True)
                (temporary / PROVENANCE).write_bytes(orjson.dumps(dict(provenance)))
    return target


def _check_space(model: Path, serving: Path) -> None:
    sizes = [file.stat().st_size for file in model.rglob("*") if file.is_file()]
    needed = sum(-(-size // _BLOCK) * _BLOCK for size in sizes)
    free = shutil.disk_usage(serving).free
    if needed > free:
        raise DiskFull(
            f"{serving}: the model needs {needed / 1e6:,.1f} MB, its disk has {free / 1e6:,.1f} MB free; nothing was "
            "pushed, and the served versions stay. Free disk space, or choose another folder (--set push.directory=…)"
        )


def _next_version(serving: Path) -> int:
    """Returns one more than the highest version that exists or ever existed."""
    highest = serving / _HIGHEST
    used = [int(highest.read_text())] if highest.exists() else []
    present = [int(entry.name) for entry in serving.iterdir() if _VERSION.fullmatch(entry.name)]
    return max([*used, *present], default=0) + 1


def _write_outcome(pushed: types.Artifact, outcome: dict[str, Any]) -> None:
    folder = Path(pushed.uri)
    folder.mkdir(parents=True, exist_ok=True)
    durable.write_bytes(folder / PUSHED, orjson.dumps(outcome))
