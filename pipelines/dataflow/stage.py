"""The Dataflow job of every data node, built from a sample run and written to a folder.

    a finished run on this machine, on a sample ─► its artifacts, copied to a mirror of gs://bucket/root
                                                        │
    for each data node: TFX's executor, inputs and outputs at gs://…, ─► <out>/<node>/job.json, pipeline.pb, staged/
                        as far as the pipeline is built

A node's pipeline depends on what earlier nodes wrote (schema, shards, model), so jobs are built from a sample run. The
jobs name the cloud's root and data. What a job contains of its inputs is that of the sample: Ingest's list of work
units, Extract's list of shards, the schema in StatisticsGen and Transform.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_beam_executor
from tfx.orchestration import data_types_utils, metadata
from tfx.orchestration.local import runner_utils
from tfx.proto.orchestration import executable_spec_pb2
from tfx.types import artifact_utils
from tfx.utils import import_utils

from components.errors import PenstockError, SettingsError
from components.ingest import component as ingest
from components.storage import durable
from pipelines.config import RunConfig
from pipelines.dataflow import job, mirror
from pipelines.orchestration import build, schema
from pipelines.orchestration.runners import beam_translation, dataflow
from pipelines.package import user_code


@dataclass(frozen=True)
class Places:
    """Where the jobs read and write."""

    root: str  # gs://…
    data: str  # gs://…
    out: Path  # local folder, one folder per node


@dataclass(frozen=True)
class StagedJob:
    """The job of one node."""

    node: str
    folder: Path
    graph_bytes: int
    transforms: int


def stage(sample: RunConfig, places: Places, include: Sequence[Path] = ()) -> Iterator[StagedJob]:
    """Builds the job of each data node that the sample run has, and yields them in the order of the pipeline.

    Args:
        sample: configuration of the finished sample run, with the settings of the cloud.
        places: what the jobs name, and the folder for them.
        include: further modules and data files for workers.
    """
    engine = sample.settings.engine
    own = user_code.version(user_code.modules(sample.task, sample.settings), include)
    dataflow.check(engine, places.root, places.data, own)
    if sample.store is not None or not (sample.state / "metadata.db").exists():
        raise SettingsError(f"--sample {sample.root}: expected the root of a finished run on this machine")
    with tempfile.TemporaryDirectory(prefix="penstock-stage-") as temporary:
        packages = dataflow.packages(sample.task, sample.settings, Path(temporary), include)
        _fill_mirror(sample, places, Path(temporary) / "mirror")
        mirror.mount(Path(temporary) / "mirror")
        beam_translation.speed_up()
        for node in _nodes(sample, places):
            yield _stage_node(node, sample, places, packages)


@dataclass(frozen=True)
class _DataNode:
    """A data node: its executor, and what it is called with."""

    id: str
    executor: type[Any]
    inputs: dict[str, list[Any]]
    outputs: dict[str, list[Any]]
    properties: dict[str, Any]


def _fill_mirror(sample: RunConfig, places: Places, folder: Path) -> None:
    """Copies the sample's data and artifacts to where the jobs look for them."""
    if "*" in places.data or "{" in places.data:
        raise SettingsError(f"--data {places.data}: patterns are not supported here; name the folder or file")
    mirror.copy(Path(sample.data), places.data, folder)
    for node in sorted(each for each in sample.state.iterdir() if each.is_dir() and each.name[:1].isupper()):
        mirror.copy(node, f"{places.root}/{node.name}", folder)


def _nodes(sample: RunConfig, places: Places) -> Iterator[_DataNode]:
    found = schema.current(sample)
    compiled = build.compiled(replace(sample, data=places.data), *found)
    deployment = runner_utils.extract_local_deployment_config(compiled)
    connection = metadata.sqlite_metadata_connection_config(str(sample.state / "metadata.db"))
    with metadata.Metadata(connection) as handle:
        for each in compiled.nodes:
            node_id = each.pipeline_node.node_info.id
            spec = runner_utils.extract_executor_spec(deployment, node_id)
            if isinstance(spec, executable_spec_pb2.BeamExecutableSpec):
                inputs, outputs = _artifacts(handle.store, f"{sample.name}.{node_id}", sample.state, places.root)
                properties = _properties(each.pipeline_node, node_id)
                executor = import_utils.import_class_by_path(spec.python_executor_spec.class_path)
                yield _DataNode(node_id, executor, inputs, outputs, properties)


def _artifacts(store: Any, context: str, old: Path, new: str) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Returns inputs and outputs of a node's newest execution that succeeded, with URIs below another root."""
    known = store.get_context_by_type_and_name("node", context)
    executions = store.get_executions_by_context(known.id) if known else []
    done = [each for each in executions if each.last_known_state == each.COMPLETE]
    if not done:
        raise PenstockError(
            f"{old}: {context.rpartition('.')[2]} has not run there; run the pipeline to the end on a sample, on this "
            "machine, before its jobs are staged"
        )
    inputs: dict[str, list[Any]] = {}
    outputs: dict[str, list[Any]] = {}
    for event in store.get_events_by_execution_ids([max(done, key=lambda each: each.id).id]):
        (proto,) = store.get_artifacts_by_id([event.artifact_id])
        (kind,) = store.get_artifact_types_by_id([proto.type_id])
        artifact = artifact_utils.deserialize_artifact(kind, proto)
        artifact.uri = artifact.uri.replace(str(old), new, 1)
        side = inputs if event.type == event.INPUT else outputs
        side.setdefault(event.path.steps[0].key, []).append(artifact)
    return inputs, outputs


def _properties(node: Any, node_id: str) -> dict[str, Any]:
    values = {name: each.field_value for name, each in node.parameters.parameters.items()}
    parsed: dict[str, Any] = data_types_utils.build_value_dict(values)
    if node_id == "Ingest":  # its driver adds this
        parsed[ingest.FINGERPRINT] = ingest.survey_digest(parsed)
    return parsed


def _stage_node(node: _DataNode, sample: RunConfig, places: Places, packages: Sequence[Path]) -> StagedJob:
    folder = places.out / node.id
    durable.remove(folder)
    flags = [*dataflow.flags(sample.settings.engine, sample.name, node.id, packages), *sample.beam_args]
    context = base_beam_executor.BaseBeamExecutor.Context(
        tmp_dir=f"{places.root}/.temp/{node.id}/",
        unique_id="1",
        make_beam_pipeline_fn=lambda: job.pipeline(flags, folder),
    )
    executor = node.executor(context=context)
    try:
        executor.Do(node.inputs, node.outputs, node.properties)
    except job.JobWritten:
        graph = (folder / job.GRAPH).read_bytes()
        return StagedJob(node.id, folder, len(graph), job.count_transforms(graph))
    raise PenstockError(f"{node.id} ended without a Beam job; please report this")
