"""Reads ML Metadata (MLMD) without importing TFX: opening it takes 0.2 s.

One node's work in one run is an execution. Its `fingerprint` records what it was made from (`plan.py`), its `ledger`
and `facts` record the result (`audit.py`).
"""

import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from ml_metadata import errors
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from components.errors import BadInput, PenstockError, SettingsError
from components.pretrained.artifacts import are_comparable, difference
from components.redact import redact
from components.serving.live import LiveModel
from components.storage.location import Location, location
from pipelines.config import metadata_server
from pipelines.config.metadata_server import Server
from pipelines.journal import run_id

FINGERPRINT = "fingerprint"
LEDGER = "ledger"
FACTS = "facts"
SECONDS = "seconds"
_KILLED = "killed"  # of an execution that a killed run left open: MLMD has the time when the next run closed it
_PATIENCE = 30.0  # seconds for a writer of a SQLite file to end; MLMD has about the same when it opens one
_ROOT_TYPE = "penstock.root"  # context type: one per pipeline of a shared database
_DATABASE_TYPE = "penstock.database"  # context type: one per database
_BY_ID = metadata_store.OrderByField.ID
_OPEN = (pb.Execution.NEW, pb.Execution.RUNNING)


@dataclass(frozen=True)
class Execution:
    """One node's work in one run."""

    id: int
    node: str
    state: str
    fingerprint: dict[str, Any]
    ledger: dict[str, Any] | None
    facts: dict[str, Any]
    updated: int = 0  # milliseconds since 1970
    created: int = 0  # the same
    killed: bool = False  # its run was killed; `updated` is then when the next run closed it


@dataclass(frozen=True)
class Artifact:
    """One output of an execution."""

    id: int
    name: str  # the output's key
    uri: Location
    live: bool
    properties: dict[str, Any]


class Store:
    """The MLMD store of one pipeline root; empty if there is none yet."""

    def __init__(self, database: Path | Server, pipeline: str, *, read_only: bool = True) -> None:
        """Opens the store; read-only mode creates nothing but, in an empty database of a server, MLMD's tables."""
        self._pipeline = pipeline
        self._store = _connect(database, read_only)

    @property
    def client(self) -> metadata_store.MetadataStore:
        """MLMD's own client, for queries over all executions."""
        return self._store

    def nodes(self) -> list[str]:
        """Returns the names of all nodes that were ever executed."""
        names = [context.name for context in self._store.get_contexts_by_type("node")]
        return [name.removeprefix(f"{self._pipeline}.") for name in names if name.startswith(f"{self._pipeline}.")]

    def executions_in(self, context: int, since: int = 0) -> list[Any]:
        """Returns all executions of a context whose id is at least a number, oldest first, as MLMD has them.

        By id: MLMD's own order is by milliseconds, and it loses executions of one millisecond that are on two pages.
        """
        chosen = f"id >= {since}" if since else None
        options = metadata_store.ListOptions(order_by=_BY_ID, filter_query=chosen)
        return list(self._store.get_executions_by_context(context, options))

    def mark_deleted(self, ids: Iterable[int]) -> None:
        """Marks artifacts as deleted: from then on no run reuses them. Their files are deleted afterwards."""
        found = self._store.get_artifacts_by_id(sorted(ids))
        for artifact in found:
            artifact.state = pb.Artifact.DELETED
        if found:
            self._store.put_artifacts(found)

    def executions(self, node: str) -> Iterator[Execution]:
        """Yields the executions of a node, newest first."""
        for execution in self._of_context("node", f"{self._pipeline}.{node}"):
            yield _execution(execution, node)

    def finished(self, node: str) -> Iterator[Execution]:
        """Yields the executions that ran and succeeded, newest first."""
        return (execution for execution in self.executions(node) if execution.state == "COMPLETE")

    def by_run(self, newest: int | None = None) -> dict[str, list[Execution]]:
        """Returns the executions of each call of runs, oldest first, by the name of its pipeline_run context.

        Args:
            newest: how many runs, each with all its calls; None: all.
        """
        contexts = sorted(self._store.get_contexts_by_type("pipeline_run"), key=lambda each: each.id, reverse=True)
        runs = list(dict.fromkeys(run_id.of_context(each.name) for each in contexts))[:newest]
        if newest is not None:
            wanted = set(runs)
            chosen = [each for each in contexts if run_id.of_context(each.name) in wanted]
            found = self._calls(chosen, newest, since=self._oldest(chosen))
            if len({run_id.of_context(name) for name in found}) == len(runs):
                return found
        return self._calls(contexts, newest)  # the database of a server has runs of other pipelines, too

    def _calls(self, contexts: Iterable[Any], newest: int | None, since: int = 0) -> dict[str, list[Execution]]:
        """Returns the executions of the newest runs among some contexts, newest first, as `by_run` does."""
        nodes = self._nodes_of_executions(since)
        found: dict[str, list[Execution]] = {}
        runs: set[str] = set()
        for context in contexts:
            run = run_id.of_context(context.name)
            if newest is not None and len(runs) >= newest and run not in runs:
                continue  # older calls of a run may follow: Airflow starts one per node
            mine = [each for each in self.executions_in(context.id) if each.id in nodes]
            if mine:
                runs.add(run)
                found[context.name] = [_execution(each, nodes[each.id]) for each in mine]
        return found

    def _oldest(self, contexts: Iterable[Any]) -> int:
        """Returns the smallest id of the executions of some contexts."""
        return min((each.id for context in contexts for each in self.executions_in(context.id)), default=0)

    def _nodes_of_executions(self, since: int) -> dict[int, str]:
        """Returns the node of each execution of the pipeline whose id is at least a number."""
        prefix = f"{self._pipeline}."
        return {
            execution.id: context.name.removeprefix(prefix)
            for context in self._store.get_contexts_by_type("node")
            if context.name.startswith(prefix)
            for execution in self.executions_in(context.id, since)
        }

    def pipelines(self) -> list[str]:
        """Returns the names of all pipelines in the database."""
        return sorted(context.name for context in self._store.get_contexts_by_type("pipeline"))

    def input_ids(self, execution_id: int) -> set[int]:
        """Returns the ids of the artifacts that an execution read."""
        events = self._store.get_events_by_execution_ids([execution_id])
        return {event.artifact_id for event in events if event.type == pb.Event.INPUT}

    def inputs(self, execution_id: int) -> dict[str, Artifact]:
        """Returns an artifact per input of an execution, by the name of the input."""
        events = [e for e in self._store.get_events_by_execution_ids([execution_id]) if e.type == pb.Event.INPUT]
        keys = {event.artifact_id: event.path.steps[0].key for event in events}
        return {keys[each.id]: _artifact(each, keys[each.id]) for each in self._store.get_artifacts_by_id(list(keys))}

    def outputs(self, execution_id: int) -> list[Artifact]:
        """Returns the output artifacts of an execution."""
        events = self._store.get_events_by_execution_ids([execution_id])
        keys = {e.artifact_id: e.path.steps[0].key for e in events if e.type == pb.Event.OUTPUT}
        found = self._store.get_artifacts_by_id(list(keys))
        return sorted((_artifact(artifact, keys[artifact.id]) for artifact in found), key=lambda a: (a.name, a.id))

    def baseline(self, models: Sequence[LiveModel], candidate: Artifact | None) -> Artifact | None:
        """Returns the first of some models that still exists and can be compared with a candidate, if given."""
        # One after the other: the models may be on an object store, and each comparison reads files of two of them.
        existing = self._existing(models)
        found = (each for each in existing if candidate is None or are_comparable(each.uri, candidate.uri))
        return next(found, None)

    def not_compared(self, models: Sequence[LiveModel], candidate: Artifact) -> str:
        """Says why a candidate cannot be compared with the first of some models; empty if it can, or there is none."""
        first = next(iter(self._existing(models)), None)
        reason = difference(first.uri, candidate.uri) if first else ""
        return f"not compared with the live model: {reason}" if reason else ""

    def base_model(self, models: Sequence[LiveModel]) -> Artifact | None:
        """Returns the first of some models that still exists."""
        first = next(iter(self._existing(models)), None)
        return replace(first, name="base_model") if first else None

    def made_from(self, model: int) -> dict[str, Artifact]:
        """Returns the artifacts that a model was trained on, and the statistics of its data, as far as they are known.

        The keys are those of the Trainer's inputs, and `statistics`.
        """
        made = [e.execution_id for e in self._store.get_events_by_artifact_ids([model]) if e.type == pb.Event.OUTPUT]
        found = {name: each for execution in made for name, each in self.inputs(execution).items()}
        examples = found["examples"].id if "examples" in found else None
        for execution in self.finished("StatisticsGen"):
            if examples in self.input_ids(execution.id):
                return {**found, **{each.name: each for each in self.outputs(execution.id)}}
        return found

    def blessed(self) -> set[int]:
        """Returns the ids of all blessed models."""
        made = (artifact for execution in self.finished("Evaluator") for artifact in self.outputs(execution.id))
        blessings = (artifact.properties for artifact in made if artifact.name == "blessing")
        return {each["current_model_id"] for each in blessings if each.get("blessed") == 1}

    def trained_model(self, folder: Location) -> Artifact | None:
        """Returns the Model artifact of this pipeline's Trainer that is in a folder."""
        made = (artifact for execution in self.finished("Trainer") for artifact in self.outputs(execution.id))
        return next((each for each in made if each.name == "model" and each.uri == folder), None)

    def artifacts(self, ids: Iterable[int], name: str) -> list[Artifact]:
        """Returns the artifacts with these ids, as far as they are known; `name` is the key they are listed under."""
        return [_artifact(artifact, name) for artifact in self._store.get_artifacts_by_id(sorted(ids))]

    def _existing(self, models: Sequence[LiveModel]) -> list[Artifact]:
        """Returns the artifacts of models that the metadata knows and that were not deleted, in order."""
        known = {found.id: found for found in self.artifacts({model.artifact for model in models}, "model")}
        found = [(known.get(model.artifact), model) for model in models]
        return [each for each, model in found if each is not None and each.live and str(each.uri) == model.uri]

    def close_killed_executions(self) -> list[str]:
        """Marks executions that a killed run left open as failed; requires the root's lock. Returns their nodes."""
        return self.close_open_executions("FAILED", killed=True)

    def close_open_executions(self, state: str, *, killed: bool = False) -> list[str]:
        """Marks executions that are open with the state that they ended in; requires the root's lock."""
        left_open = [e for e in self._of_context("pipeline", self._pipeline) if e.last_known_state in _OPEN]
        for execution in left_open:
            execution.last_known_state = pb.Execution.State.Value(state)
            if killed:
                execution.custom_properties[_KILLED].int_value = 1
        if left_open:
            self._store.put_executions(left_open)
        return [self._node_of(execution.id) for execution in left_open]

    def unfinished(self, node: str) -> set[str]:
        """Returns the ids of a node's executions that failed or were cancelled, as the names of their folders."""
        done = (*_OPEN, pb.Execution.COMPLETE, pb.Execution.CACHED)
        found = self._of_context("node", f"{self._pipeline}.{node}")
        return {str(execution.id) for execution in found if execution.last_known_state not in done}

    def is_live(self, folder: Location) -> bool:
        """Whether a live artifact is in this folder."""
        return any(found.state == pb.Artifact.LIVE for found in self._store.get_artifacts_by_uri(str(folder)))

    def claim(self, place: str) -> None:
        """Notes which root this pipeline has, in a database that others use too; raises SettingsError for another one.

        Two roots of one name would plan with each other's executions, and close those that still run.
        """
        kind = self._store.put_context_type(pb.ContextType(name=_ROOT_TYPE))
        mine = pb.Context(type_id=kind, name=self._pipeline)
        mine.custom_properties["root"].string_value = place
        with suppress(errors.AlreadyExistsError):
            self._store.put_contexts([mine])
        known = self._store.get_context_by_type_and_name(_ROOT_TYPE, self._pipeline)
        if known.custom_properties["root"].string_value != place:
            raise SettingsError(
                f"pipeline {self._pipeline!r}: its root in this metadata is "
                f"{known.custom_properties['root'].string_value}, expected {place}; choose another --name, or that root"
            )

    def identity(self) -> str:
        """Returns a random id that is kept in the database: addresses such as localhost name several databases."""
        kind = self._store.put_context_type(pb.ContextType(name=_DATABASE_TYPE))
        mine = pb.Context(type_id=kind, name="id")
        mine.custom_properties["id"].string_value = uuid.uuid4().hex
        with suppress(errors.AlreadyExistsError):
            self._store.put_contexts([mine])
        known = self._store.get_context_by_type_and_name(_DATABASE_TYPE, "id")
        return str(known.custom_properties["id"].string_value)

    def _node_of(self, execution_id: int) -> str:
        names = [context.name for context in self._store.get_contexts_by_execution(execution_id)]
        nodes = [name for name in names if name.startswith(f"{self._pipeline}.")]
        return nodes[0].removeprefix(f"{self._pipeline}.") if nodes else str(execution_id)

    def _of_context(self, context_type: str, name: str) -> list[Any]:
        context = self._store.get_context_by_type_and_name(context_type, name)
        return self.executions_in(context.id)[::-1] if context is not None else []


def _is_complete(database: Path) -> bool:
    """Whether the database has all that MLMD writes into a new one: tables, then types, in two transactions.

    Opening an incomplete database read-only fails in MLMD ("attempt to write a readonly database"). Opened here for
    writing, because SQLite then restores what a run that was killed in a transaction left; nothing else is written.
    """
    if not database.exists():
        return False
    try:
        uri = f"{database.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'Type'").fetchall()
            return bool(tables) and bool(connection.execute("SELECT id FROM Type WHERE name LIKE 'mlmd.%'").fetchall())
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            raise _in_use(database) from error
        raise PenstockError(
            f"metadata {database}: cannot be read: {error}; restore the file, or choose another --root"
        ) from error


def _in_use(database: Path) -> PenstockError:
    return PenstockError(f"metadata {database}: in use by another process; run again after it ends")


def _connect(database: Path | Server, read_only: bool) -> metadata_store.MetadataStore:
    """Opens the database; if there is nothing to read yet, an empty one in memory."""
    if isinstance(database, Server):
        return _connect_to_server(database)
    if read_only and not _is_complete(database):
        return metadata_store.MetadataStore(pb.ConnectionConfig(fake_database=pb.FakeDatabaseConfig()))
    try:
        return metadata_store.MetadataStore(metadata_server.connection(database, read_only=read_only))
    except RuntimeError as error:  # MLMD has waited for half a minute
        if "Concurrent writes" in str(error):
            raise _in_use(database) from error
        raise


def _connect_to_server(server: Server) -> metadata_store.MetadataStore:
    try:
        return metadata_store.MetadataStore(server.connection())
    except (errors.StatusError, RuntimeError) as error:  # its message may quote the connection
        reason = redact(" ".join(str(error).split()), [server.password] if server.password else []).rstrip(": ")
        kind = SettingsError if server.answers() else BadInput  # MLMD does not say which it is
        raise kind(
            f"metadata {server}: cannot be opened: {reason}; expected a server that is reachable from here, and an "
            f"existing database that {server.user} may create tables in; the password is read from "
            f"{metadata_server.PASSWORD}"
        ) from None


def _execution(execution: Any, node: str) -> Execution:
    properties = execution.custom_properties
    return Execution(
        id=execution.id,
        node=node,
        state=pb.Execution.State.Name(execution.last_known_state),
        fingerprint=_json(properties, FINGERPRINT) or {},
        ledger=_json(properties, LEDGER),
        facts=_json(properties, FACTS) or {},
        updated=execution.last_update_time_since_epoch,
        created=execution.create_time_since_epoch,
        killed=_KILLED in properties,
    )


def _artifact(artifact: Any, key: str) -> Artifact:
    properties = {name: getattr(value, value.WhichOneof("value")) for name, value in artifact.custom_properties.items()}
    return Artifact(artifact.id, key, location(artifact.uri), artifact.state == pb.Artifact.LIVE, properties)


def _json(properties: Any, key: str) -> Any:
    return orjson.loads(properties[key].string_value) if key in properties else None
