"""Pipelines whose runs are written as real runs write them: calls in the journal, executions in the metadata."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines import config as run_config
from pipelines.config import RunConfig, metadata_server
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.watch import pipelines
from pipelines.watch.pipelines import KnownPipeline


class Runs:
    """A root with a pipeline, and what writes its runs."""

    def __init__(self, root: Path, name: str = "image", flags: tuple[str, ...] = ()) -> None:
        self.config: RunConfig = run_config.make("image", name=name, data=".", root=str(root), flags=flags)

    @property
    def pipeline(self) -> KnownPipeline:
        """The pipeline as other code finds it."""
        return pipelines.of(self.config)

    def call(self, run: str, code: int = 0, reason: str = "", command: tuple[str, ...] = (), **result: Any) -> None:
        """Writes a call that has ended."""
        with calls.opened(self.config, Origin(run, command)) as call:
            call.end(code, reason, **result)

    def executions(self, context: str, states: Mapping[str, str], **facts: Any) -> None:
        """Writes one execution per node into the metadata, in the context of a call."""
        self.config.state.mkdir(parents=True, exist_ok=True)
        store = metadata_store.MetadataStore(metadata_server.connection(self.config.state / "metadata.db"))

        def known(kind: str, name: str) -> Any:
            return pb.Context(type_id=store.put_context_type(pb.ContextType(name=kind)), name=name)

        for node, state in states.items():
            kind = store.put_execution_type(pb.ExecutionType(name=node))
            execution = pb.Execution(type_id=kind, last_known_state=pb.Execution.State.Value(state))
            for name, value in facts.items():
                execution.custom_properties[name].string_value = value
            contexts = [
                known("pipeline", self.config.name),
                known("pipeline_run", context),
                known("node", f"{self.config.name}.{node}"),
            ]
            store.put_execution(execution, [], contexts, reuse_context_if_already_exist=True)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """A pipeline in an empty root."""
    return Runs(tmp_path / "root")


@pytest.fixture
def make_runs(tmp_path: Path) -> Callable[..., Runs]:
    """Returns the function that makes a pipeline in a folder below the test's."""
    return lambda folder, *more: Runs(tmp_path / folder, *more)
