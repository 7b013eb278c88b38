"""All executions of a pipeline with what they read and wrote, by a few queries: who made what from what."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines.journal import run_id
from pipelines.orchestration.metadata.store import Store

FINISHED = ("COMPLETE", "CACHED")
_AT_ONCE = 500  # ids per query
Keyed = tuple[str, int]  # key of an input or output, and id of the artifact


@dataclass(frozen=True)
class PastExecution:
    """One execution, with its artifacts."""

    id: int
    node: str
    state: str
    inputs: tuple[Keyed, ...] = ()
    outputs: tuple[Keyed, ...] = ()


@dataclass(frozen=True)
class History:
    """What the metadata knows about one pipeline."""

    executions: tuple[PastExecution, ...]  # newest first
    runs: tuple[frozenset[int], ...]  # ids of the executions of each run, newest first
    live: Mapping[int, str]  # URIs of the artifacts that are not deleted, by id


def read(store: Store) -> History:
    """Returns the history of the pipeline of a store."""
    executions = _executions(store)
    ids = {artifact for execution in executions for _, artifact in (*execution.inputs, *execution.outputs)}
    artifacts = [each for part in _parts(sorted(ids)) for each in store.client.get_artifacts_by_id(part)]
    live = {each.id: each.uri for each in artifacts if each.state == pb.Artifact.LIVE}
    return History(tuple(executions), tuple(_runs(store, {execution.id for execution in executions})), live)


def _executions(store: Store) -> list[PastExecution]:
    known = {each.id: each for node in store.nodes() for each in store.executions(node)}
    inputs: dict[int, list[Keyed]] = {number: [] for number in known}
    outputs: dict[int, list[Keyed]] = {number: [] for number in known}
    for part in _parts(sorted(known)):
        for event in store.client.get_events_by_execution_ids(part):
            found = inputs if event.type == pb.Event.INPUT else outputs if event.type == pb.Event.OUTPUT else None
            if found is not None:
                found[event.execution_id].append((event.path.steps[0].key, event.artifact_id))
    return [
        PastExecution(number, known[number].node, known[number].state, tuple(inputs[number]), tuple(outputs[number]))
        for number in sorted(known, reverse=True)
    ]


def _runs(store: Store, mine: set[int]) -> list[frozenset[int]]:
    """Returns the executions of each run, of all its calls, that with the newest execution first."""
    found: dict[str, set[int]] = {}
    for context in store.client.get_contexts_by_type("pipeline_run"):
        executions = {each.id for each in store.executions_in(context.id)}
        found.setdefault(run_id.of_context(context.name), set()).update(mine & executions)
    return sorted(map(frozenset, filter(None, found.values())), key=max, reverse=True)


def _parts(ids: list[int]) -> Iterable[Any]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))
