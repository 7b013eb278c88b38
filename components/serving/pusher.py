"""The node that pushes a blessed model, and moves the live pointer to it (`publish.py`)."""

from pathlib import Path
from typing import Any

import orjson
from tfx import types
from tfx.components.pusher import component as tfx_component
from tfx.components.pusher import executor as tfx_pusher
from tfx.dsl.components.base import executor_spec
from tfx.proto import pusher_pb2
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import proto_utils

from components.pretrained.artifacts import RUN, SPANS, TRAINED_ON
from components.serving import live, publish, versions
from components.serving.live import LiveModel, Move
from components.serving.publish import Home
from components.storage import durable
from components.storage.location import REMOTE_URI, location

PUSHED = "pushed.json"
BEFORE = "highest_version_before"  # key of custom_config: the versions above it are of this run
_REASON = "blessed by the Evaluator"


class PushExecutor(tfx_pusher.Executor):
    """TFX's Pusher with an atomic copy; TFX's own code checks the blessing."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Pushes the model if it is blessed and was not withdrawn, and writes pushed.json."""
        self._log_startup(input_dict, output_dict, exec_properties)
        pushed = artifact_utils.get_single_instance(output_dict[standard_component_specs.PUSHED_MODEL_KEY])
        if not self.CheckBlessing(input_dict):
            self._MarkNotPushed(pushed)
            _write_outcome(pushed, {"pushed": False})
            return
        destination = pusher_pb2.PushDestination()
        proto_utils.json_to_proto(exec_properties[standard_component_specs.PUSH_DESTINATION_KEY], destination)
        custom = orjson.loads(exec_properties[standard_component_specs.CUSTOM_CONFIG_KEY])
        serving = location(destination.filesystem.base_directory)
        home = Home(custom["pipeline"], location(custom["root"]), serving, custom["metadata"])
        model = artifact_utils.get_single_instance(input_dict[standard_component_specs.MODEL_KEY])
        pointer = live.read_of(home.root, home.pipeline)
        if pointer is not None and pointer.has_withdrawn(model.id):
            self._MarkNotPushed(pushed)
            _write_outcome(pushed, {"pushed": False, "withdrawn": True})
            return
        exported = Path(self.GetModelPath(input_dict))
        made = _lineage(model, versions.digest_of(exported))
        move = _of_earlier_try(home, made, custom.get(BEFORE)) or publish.publish(
            exported, home, Move("push", "", live.now(), live.actor(), _REASON, made)
        )
        self._MarkPushed(pushed, pushed_destination=move.folder, pushed_version=str(move.version))
        _write_outcome(pushed, {"pushed": True, "destination": move.folder, "version": str(move.version)})


class Pusher(tfx_component.Pusher):
    """TFX's Pusher, with the executor above.

    Component `outputs` contains:
     - `pushed_model`: PushedModel with `pushed.json`: whether, where and as which version it was pushed.
    """

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(PushExecutor)


def _of_earlier_try(home: Home, model: LiveModel, before: int | None) -> Move | None:
    """Returns the push of an earlier try of this run, which then failed, if its version is whole."""
    pointer = publish.catch_up(home) if before is not None else None
    move = pointer.live if pointer else None
    if move is None or before is None or move.kind != "push" or move.serving != str(home.serving):
        return None
    is_own = move.version > before and move.model.artifact == model.artifact
    return move if is_own and versions.digest_of(location(move.folder)) == model.digest else None


def _lineage(model: types.Artifact, digest: str) -> LiveModel:
    text = model.get_string_custom_property
    return LiveModel(
        artifact=model.id,
        uri=text(REMOTE_URI) or model.uri,
        digest=digest,
        data_digest=text(TRAINED_ON),
        spans=tuple(filter(None, text(SPANS).split(","))),
        run=text(RUN),
    )


def _write_outcome(pushed: types.Artifact, outcome: dict[str, Any]) -> None:
    folder = Path(pushed.uri)
    folder.mkdir(parents=True, exist_ok=True)
    durable.write_bytes(folder / PUSHED, orjson.dumps(outcome))
