"""Runs a compiled pipeline on this machine with TFX's launcher and metadata, according to a plan.

for each node:  up to date ─► its outputs are published again, in state CACHED
                due        ─► check shards ─► launch ─► audit ─► seal ─► published, in state COMPLETE
                              (on an object store, before and after: `staging.py`)
                failed or unresolved ─► tried again if the error may be gone (`retries.py`), else the run ends with it
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from google.protobuf import message
from tfx.dsl.compiler import constants
from tfx.orchestration import metadata
from tfx.orchestration.local import runner_utils
from tfx.orchestration.portable import (
    beam_executor_operator,
    execution_publish_utils,
    inputs_utils,
    launcher,
    python_executor_operator,
    runtime_parameter_utils,
)
from tfx.orchestration.portable.mlmd import context_lib
from tfx.proto.orchestration import executable_spec_pb2, pipeline_pb2
from tfx.types import artifact_utils

from components import beam_workers
from components.errors import PenstockError
from components.fitting import component as transform
from components.serving import live, pusher
from components.storage import durable
from components.training import interrupt
from pipelines.config import RunConfig, metadata_server
from pipelines.orchestration import keys, plan, retries
from pipelines.orchestration.audit import Audit, ShardCheck, audit, records_read
from pipelines.orchestration.metadata import store
from pipelines.orchestration.outcome import NodeFacts
from pipelines.orchestration.plan import NodePlan, Plan
from pipelines.orchestration.remote import object_filesystem
from pipelines.orchestration.remote.lease import Lease
from pipelines.orchestration.remote.staging import Staged, Stager, locations
from pipelines.orchestration.retries import FailedTry
from pipelines.orchestration.root import disk
from pipelines.orchestration.runners import beam_translation, engines

_NO_AUDIT = Audit()
_TRY = "penstock.try"  # context type in MLMD: of a node that was tried again


@dataclass(frozen=True)
class Hooks:
    """What the caller does while nodes run."""

    started: Callable[[NodePlan], None]
    failed: Callable[[NodePlan, FailedTry], None]  # a try that is repeated after a wait
    clean: Callable[[], None]  # closes and deletes what such a try has left
    finished: Callable[[NodeFacts], None]


@dataclass(frozen=True)
class _Launched:
    """A node that TFX has run and published, or did not run."""

    info: Any  # of TFX
    audited: Audit


class LocalRunner:
    """Runs one pipeline by a plan; the caller holds the root's lock."""

    def __init__(
        self,
        config: RunConfig,
        planned: Plan,
        hooks: Hooks,
        engine: engines.Prepared,
        context: str,
        lease: Lease | None = None,
    ) -> None:
        """Takes a plan and what runs it.

        Args:
            config: of the run.
            planned: what happens to each node.
            hooks: called at the start and the end of each node, and when it is tried again.
            engine: runs Beam pipelines.
            context: name of the pipeline_run context in MLMD; a new one.
            lease: lock of a root on an object store.
        """
        self._config, self._plan, self._hooks = config, planned, hooks
        self._shards, self._stager, self._engine = ShardCheck(), Stager(config, lease), engine
        self._context, self._lease = context, lease

    def run(self, pipeline: pipeline_pb2.Pipeline) -> None:
        """Runs every node of the plan in topological order; raises what the first failing node raised."""
        runtime_parameter_utils.substitute_runtime_parameter(
            pipeline, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: self._context}
        )
        deployment = runner_utils.extract_local_deployment_config(pipeline)
        connection = metadata_server.connection(self._config.metadata)  # the compiled one has no password
        if self._config.store is not None:
            object_filesystem.register()
        for each in pipeline.nodes:
            planned = self._plan.of(each.pipeline_node.node_info.id)
            if planned.action != plan.SKIP:
                self._run_node(planned, each.pipeline_node, pipeline, deployment, connection)

    def _run_node(self, planned: NodePlan, node: Any, pipeline: Any, deployment: Any, connection: Any) -> None:
        self._hooks.started(planned)
        begun, failures = time.monotonic(), []

        def attempt(number: int) -> _Launched | None:
            if self._lease is not None:
                self._lease.require()
            if number > 1:
                self._hooks.clean()
            if planned.execution is not None:
                _reuse(planned, node, connection)
                return None
            if number > 1:
                _separate(node, f"{self._context}.{planned.node.id}.{number}")
            return self._launch(planned, node, pipeline, deployment, connection)

        def failed(tried: FailedTry) -> None:
            failures.append(tried)
            self._hooks.failed(planned, tried)

        try:
            if self._lease is not None:
                self._lease.require()
            if planned.execution is None:
                self._prepare(planned, node)
            launched = retries.call(self._config.settings.retry, attempt, failed)
            audited = self._verified(planned, launched, connection, failed) if launched else _NO_AUDIT
        except BaseException:
            self._hooks.finished(_facts(planned, "failed", time.monotonic() - begun, failures))
            raise
        state = "cached" if planned.execution is not None else "ran"
        self._hooks.finished(_facts(planned, state, time.monotonic() - begun, failures, audited))

    def _prepare(self, planned: NodePlan, node: Any) -> None:
        """Gives a node its parameters; once for all its tries, as a forced Trainer starts from the beginning once."""
        parameter = node.parameters.parameters[store.FINGERPRINT]
        parameter.field_value.string_value = orjson.dumps(planned.fingerprint).decode()
        for name, value in planned.parameters.items():
            node.parameters.parameters[name].field_value.string_value = value
        if planned.node.id == "Trainer":
            self._provide_checkpoints(planned, node)
        if planned.node.id == "Transform":
            self._provide_spans(planned, node)

    def _launch(self, planned: NodePlan, node: Any, pipeline: Any, deployment: Any, connection: Any) -> _Launched:
        node_id = planned.node.id
        if node_id == "Pusher":
            self._provide_version(node)
        inspector = _Inspector(self._config, self._shards, self._stager, self._engine)
        info = launcher.Launcher(
            pipeline_node=node,
            mlmd_connection=metadata.Metadata(connection),
            pipeline_info=pipeline.pipeline_info,
            pipeline_runtime_spec=pipeline.runtime_spec,
            executor_spec=runner_utils.extract_executor_spec(deployment, node_id),
            custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, node_id),
            custom_executor_operators=inspector.operators(),
        ).launch()
        return _Launched(info, inspector.audited)

    def _verified(
        self, planned: NodePlan, launched: _Launched, connection: Any, failed: Callable[[FailedTry], None]
    ) -> Audit:
        """Requires that a node is published; it is not run again if the metadata cannot be read for a moment."""
        retries.call(
            self._config.settings.retry,
            lambda _: _require_success(planned.node.id, launched.info, connection),
            failed,
        )
        if planned.node.id == "Trainer" and not self._config.settings.train.keep_checkpoints:
            durable.remove(self._config.checkpoints_of(planned.fingerprint["key"]))
        return launched.audited

    def _provide_checkpoints(self, planned: NodePlan, node: Any) -> None:
        """Tells the Trainer where its checkpoints are; a forced one starts from the beginning."""
        folder = self._config.checkpoints_of(planned.fingerprint["key"])
        if planned.reason == plan.FORCED:
            durable.remove(folder)
        _configure(node, {"checkpoints": str(folder), "job": str(self._config.job)})

    def _provide_version(self, node: Any) -> None:
        """Tells the Pusher the highest version before its first try, which may have pushed and then failed."""
        if pusher.BEFORE not in _custom(node):
            pointer = live.read_of(self._config.root, self._config.name)
            _configure(node, {pusher.BEFORE: live.highest(pointer, self._config.serving)})

    def _provide_spans(self, planned: NodePlan, node: Any) -> None:
        """Tells Transform where it keeps what it has counted in each span; a forced one counts all again."""
        if planned.reason == plan.FORCED:
            durable.remove(self._config.spans)
        kept = {transform.KEPT: str(self._config.spans), transform.FINGERPRINT: keys.without_data(planned.fingerprint)}
        _configure(node, kept)


def _separate(node: Any, name: str) -> None:
    """Puts a try of a node into a context of its own: TFX uses an execution again that has all contexts of the node.

    Outputs are in folders by the number of the execution, so each try has folders of its own.
    """
    contexts = node.contexts.contexts
    spec = next((each for each in contexts if each.type.name == _TRY), None) or contexts.add()
    spec.type.name, spec.name.field_value.string_value = _TRY, name


def _custom(node: Any) -> dict[str, Any]:
    """Returns a node's custom_config."""
    return dict(orjson.loads(node.parameters.parameters["custom_config"].field_value.string_value))


def _configure(node: Any, values: Mapping[str, str | int]) -> None:
    """Adds values to a node's custom_config."""
    content = orjson.dumps({**_custom(node), **values}).decode()
    node.parameters.parameters["custom_config"].field_value.string_value = content


class _Inspector:
    """Checks the shards before a node's executor, and its outputs before they are published: audit, then seal."""

    def __init__(self, config: RunConfig, shards: ShardCheck, stager: Stager, engine: engines.Prepared) -> None:
        self._config, self._shards, self._stager, self._engine = config, shards, stager, engine
        self.audited = Audit()

    def operators(self) -> dict[type[message.Message], Any]:
        """Returns TFX's executor operators, each followed by our inspection."""
        inspect, make_pipeline = self._inspect, self._make_pipeline

        class InspectedPython(python_executor_operator.PythonExecutorOperator):
            def run_executor(self, execution_info: Any) -> Any:
                return inspect(execution_info, super().run_executor, is_beam=False)

        class InspectedBeam(beam_executor_operator.BeamExecutorOperator):
            def run_executor(self, execution_info: Any, make_beam_pipeline_fn: Any = None) -> Any:
                beam_workers.prepare()
                beam_translation.speed_up()
                make = make_beam_pipeline_fn or partial(make_pipeline, execution_info)
                run = partial(super().run_executor, make_beam_pipeline_fn=make)
                return inspect(execution_info, run, is_beam=True)

        return {
            executable_spec_pb2.PythonClassExecutableSpec: InspectedPython,
            executable_spec_pb2.BeamExecutableSpec: InspectedBeam,
        }

    def _make_pipeline(self, info: Any) -> Any:
        """Returns the Beam pipeline of a node; with it, TFX does not pack its own source for workers at every node."""
        return self._engine.pipeline(
            self._config.name, info.pipeline_node.node_info.id, records_read(locations(info.input_dict))
        )

    def _inspect(self, info: Any, run: Callable[[Any], Any], *, is_beam: bool) -> Any:
        begun = time.monotonic()
        with (
            interrupt.preserved(),
            self._stager.staged(info, is_beam=is_beam) as staged,
            # Here, because TFX deletes the incomplete output next, and the disk is no longer full.
            disk.explained(lambda: disk.places_of_run(self._config), lambda: _needed(staged)),
        ):
            output = self._run(staged, run)
        properties = output.execution_properties
        properties[store.SECONDS].double_value = time.monotonic() - begun
        properties[store.FACTS].string_value = orjson.dumps(self.audited.facts).decode()
        if self.audited.entry is not None:
            properties[store.LEDGER].string_value = orjson.dumps(self.audited.entry).decode()
        return output

    def _run(self, staged: Staged, run: Callable[[Any], Any]) -> Any:
        info = staged.info
        node_id = info.pipeline_node.node_info.id
        staged.fetch()
        if not staged.is_remote:  # else staging has compared the listing of the store with the seal
            self._shards.before(node_id, staged.inputs)
        output = run(info)
        staged.wrote()
        self.audited = audit(node_id, staged.inputs, staged.outputs, info.exec_properties, _properties(output))
        staged.publish(output, self.audited.facts.get("destination") or "")
        return output


def _properties(output: Any) -> dict[str, Any]:
    """Returns the custom properties that the executor gave to its output artifacts."""
    artifacts = [each for found in output.output_artifacts.values() for each in found.artifacts]
    return {
        name: getattr(value, value.WhichOneof("value"))
        for artifact in artifacts
        for name, value in artifact.custom_properties.items()
    }


def _needed(staged: Staged) -> str:
    """Returns how much a node had written when its disk was full."""
    folders = [*staged.outputs.values(), *([] if "://" in staged.info.tmp_dir else [Path(staged.info.tmp_dir)])]
    node = staged.info.pipeline_node.node_info.id
    return f"more than the {disk.size(folders) / 1e6:,.1f} MB needed that {node} had written"


def _reuse(planned: NodePlan, node: Any, connection: Any) -> None:
    """Publishes the outputs of an earlier execution for this run, in state CACHED."""
    with metadata.Metadata(connection) as handle:
        contexts = context_lib.prepare_contexts(metadata_handle=handle, node_contexts=node.contexts)
        resolved = inputs_utils.resolve_input_artifacts(pipeline_node=node, metadata_handle=handle)
        execution = execution_publish_utils.register_execution(
            metadata_handle=handle,
            execution_type=node.node_info.type,
            contexts=contexts,
            input_artifacts=resolved[0] if isinstance(resolved, list) and resolved else None,
            exec_properties={store.FINGERPRINT: orjson.dumps(planned.fingerprint).decode()},
        )
        execution_publish_utils.publish_cached_executions(
            handle, contexts=contexts, executions=[execution], output_artifacts_maps=[_load_outputs(planned, handle)]
        )


def _load_outputs(planned: NodePlan, handle: Any) -> dict[str, list[Any]]:
    loaded: dict[str, list[Any]] = {}
    for output in planned.outputs:
        (proto,) = handle.store.get_artifacts_by_id([output.id])
        (artifact_type,) = handle.store.get_artifact_types_by_id([proto.type_id])
        loaded.setdefault(output.name, []).append(artifact_utils.deserialize_artifact(artifact_type, proto))
    return loaded


def _require_success(node_id: str, info: Any, connection: Any) -> None:
    """Raises an error for failures that TFX records in the metadata without raising."""
    if info is None or not info.execution_id:
        raise PenstockError(f"{node_id} did not run: its inputs were not found in the metadata")
    with metadata.Metadata(connection) as handle:
        (execution,) = handle.store.get_executions_by_id([info.execution_id])
    state = execution.State.Name(execution.last_known_state)
    if state not in ("COMPLETE", "CACHED"):
        raise PenstockError(f"{node_id} ended in state {state}: its inputs were not found in the metadata")


def _facts(
    planned: NodePlan, state: str, seconds: float, failures: Sequence[FailedTry], audited: Audit = _NO_AUDIT
) -> NodeFacts:
    ledger = planned.execution.ledger if planned.execution is not None else None
    records = ledger["records_in"] if ledger else audited.entry.records_in if audited.entry else None
    facts = planned.execution.facts if planned.execution is not None else audited.facts
    tries = f"{len(failures) + 1} tries: {', '.join(each.reason for each in failures)}" if failures else ""
    return NodeFacts(
        planned.node.id, state, seconds, planned.reason, records, facts.get("samples_per_second"),
        note="; ".join(filter(None, [tries, facts.get("note", "")])),
        failures=tuple(f"{each.reason}: {each.message}" for each in failures),
    )  # fmt: skip
