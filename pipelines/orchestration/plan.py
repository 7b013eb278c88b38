"""Decides which nodes run, and why, before anything heavy is imported.

    data, settings, code, library versions, upstream keys ─► fingerprint ─► key (`keys.py`)
    a finished execution with that key, that read this plan's inputs, and whose outputs are intact ─► up to date

Every other node runs, and says why (`reasons.py`). TFX's own cache is not used: it knows neither the code behind an
import path nor whether an artifact's files have changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from components.errors import BadInput, FlagError
from components.ingest.survey import cached
from components.ingest.survey.survey import Survey
from components.pretrained.find import find_model
from components.records import manifest, source_files
from components.records.quarantine import printable
from components.serving.live import LivePointer
from components.storage import paths
from components.storage.hashing import HashCache, digest_of
from components.storage.location import Location, location
from components.training.base import base_model
from pipelines.config import RunConfig
from pipelines.orchestration import graph, keys, reasons
from pipelines.orchestration import schema as curated
from pipelines.orchestration.graph import Node
from pipelines.orchestration.metadata import acceptances, live_artifacts, live_model, seals
from pipelines.orchestration.metadata.store import Artifact, Execution, Store
from pipelines.orchestration.schema import Curated

RUN, CACHED, KEPT, LOOK_UP, SKIP = "run", "cached", "kept", "look up", "skip"
FORCED = "forced by --force"
_MOST_EXPLAINED = 1_000_000  # files whose changes are named: each takes half a kilobyte
_NEW = -1  # id of a model that is not trained yet


@dataclass(frozen=True)
class Request:
    """Which nodes the user limits the run to, or forces."""

    first: str | None = None  # --from
    last: str | None = None  # --to
    force: frozenset[str] = frozenset()
    accept: tuple[str, ...] = ()  # findings of the Gate
    because: str = ""
    start: str = ""  # why training starts from what it starts from, for the report; empty: nothing was decided

    def __post_init__(self) -> None:
        """Rejects findings that cannot be accepted before a run begins."""
        acceptances.require_valid(self.accept, self.because)


EVERYTHING = Request()


@dataclass(frozen=True)
class NodePlan:
    """What happens to one node, and why."""

    node: Node
    action: str
    reason: str
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    execution: Execution | None = None  # whose outputs are reused
    outputs: tuple[Artifact, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)  # of the node, beside those of its configuration


@dataclass(frozen=True)
class Plan:
    """What happens to every node."""

    nodes: tuple[NodePlan, ...]
    schema: Curated | None = None  # None if the run does not reach it
    accepted: acceptances.Accepted | None = None  # findings that the user accepts with this run
    start: str = ""  # of the request

    @property
    def due(self) -> tuple[NodePlan, ...]:
        """The nodes that run."""
        return tuple(planned for planned in self.nodes if planned.action == RUN)

    def of(self, node_id: str) -> NodePlan:
        """Returns the plan of one node."""
        return next(planned for planned in self.nodes if planned.node.id == node_id)


def make(config: RunConfig, store: Store, cache: HashCache, request: Request = EVERYTHING) -> Plan:
    """Returns the plan: a decision about every node, in order."""
    nodes = graph.nodes(config.settings)
    planner = _Planner(config, store, cache, _checked(request, nodes), nodes)
    for node in nodes:
        planner.decided[node.id] = planner.decide(node)
    if request.accept and planner.accepted is None:
        raise FlagError(
            f"--accept {request.accept[0]}: the Gate compares nothing in this run; expected data in spans, a blessed "
            "model of other data, gate.drift = stop or warn, and a run that includes the Gate"
        )
    return Plan(tuple(planner.decided.values()), planner.schema, planner.accepted, request.start)


class _Planner:
    def __init__(
        self, config: RunConfig, store: Store, cache: HashCache, request: Request, nodes: Sequence[Node]
    ) -> None:
        self._config, self._store, self._cache, self._request = config, store, cache, request
        self._kept = graph.before(request.first, nodes) if request.first else set()
        self._wanted = {request.last, *graph.before(request.last, nodes)} if request.last else {n.id for n in nodes}
        self._found: Survey | None = None
        self._broken_base = ""
        self._live: live_artifacts.LiveArtifacts | None = None
        self.schema: Curated | None = None
        self.accepted: acceptances.Accepted | None = None
        self.decided: dict[str, NodePlan] = {}

    def decide(self, node: Node) -> NodePlan:
        if node.id not in self._wanted:
            return NodePlan(node, SKIP, f"after --to {self._request.last}")
        if node.resolves:
            return self._look_up(node)
        planned = self._keep(node) if node.id in self._kept else self._compare(node)
        if node.id == "Trainer" and planned.action == RUN and self._broken_base:
            raise BadInput(
                f"{self._broken_base}; expected it as it was trained: restore it, set train.warm_start to the folder "
                "of another model, such as serving/1, or to none"
            )
        return planned

    def _look_up(self, node: Node) -> NodePlan:
        if node.id != "Base":
            baseline = self._baseline()
            return NodePlan(node, LOOK_UP, f"baseline model {baseline.uri}" if baseline else "no other live model")
        pointer, data = self._pointer, self.decided["Ingest"].fingerprint["data_digest"]
        found = self._store.base_model(pointer.bases(data)) if pointer else None
        if found is None:
            return NodePlan(node, LOOK_UP, "no live model was trained on other data")
        reason, sealed = f"base model {found.uri}", seals.read(self._config, found.uri)
        if broken := self._broken_folder(found.uri):
            self._broken_base = reason = f"{reason} was tampered with: {broken}"
        # In the Trainer's key: a checkpoint of a training from another base model is not continued.
        return NodePlan(node, LOOK_UP, reason, {"key": sealed.digest if sealed else ""}, outputs=(found,))

    def _keep(self, node: Node) -> NodePlan:
        """Reuses the newest output of a node before --from, whatever has changed since."""
        flag = f"--from {self._request.first}"
        kept = next(
            (e for e in self._store.finished(node.id) if self._same_inputs(node, e) and self._are_live(e)), None
        )
        if kept is None:
            known = next(self._store.finished(node.id), None)
            reason = "has not run on its present inputs" if known else "has no output yet"
            raise FlagError(f"{flag}: {node.id} {reason}; run without --from first")
        outputs = tuple(self._store.outputs(kept.id))
        if broken := self._broken(node, outputs):
            raise FlagError(f"{flag}: the output of {node.id} is broken ({broken}); run without --from")
        return NodePlan(node, KEPT, f"before {flag}", kept.fingerprint, kept, outputs)

    def _compare(self, node: Node) -> NodePlan:
        """Compares the node's fingerprint with those of its finished executions."""
        parameters = self._parameters(node)
        wanted = self._fingerprint(node)
        if node.id in self._request.force:
            return NodePlan(node, RUN, FORCED, wanted, parameters=parameters)
        running = [up for up in node.upstream if self.decided[up].action == RUN]
        if running:
            return NodePlan(node, RUN, f"after {running[0]}, which runs", wanted, parameters=parameters)
        refusal = ""
        for execution in self._store.finished(node.id):
            if execution.fingerprint.get("key") != wanted["key"] or not self._same_inputs(node, execution):
                continue
            outputs = tuple(self._store.outputs(execution.id))
            if not all(artifact.live for artifact in outputs):
                refusal = refusal or "its output was deleted"
                continue
            broken = self._broken(node, outputs)
            if broken is None:
                return NodePlan(node, CACHED, reasons.unchanged(node), wanted, execution, outputs)
            refusal = refusal or f"its output was tampered with: {broken}"
        return NodePlan(node, RUN, refusal or self._explain(node, wanted), wanted, parameters=parameters)

    def _parameters(self, node: Node) -> Mapping[str, str]:
        """Returns what the plan finds for a node: the live model's data, whose spans are not new; what was accepted."""
        if node.id not in ("StatisticsGen", "Gate"):
            return {}
        ingest = self.decided["Ingest"]
        data = ingest.fingerprint["data_digest"]
        self._live = live_artifacts.find_live(
            self._config, self._store, self._pointer, data, has_spans=bool(self._newest_span(ingest))
        )
        if node.id == "StatisticsGen":
            return {"live": str(self._live.examples) if self._live else ""}
        if self._live is None or self._config.settings.gate.drift == "off":
            return {"live": ""}
        for folder in (self._live.statistics, self._live.transform):
            if broken := self._broken_folder(folder):
                raise BadInput(
                    f"{folder}, of the live model {self._live.model}: {broken}; expected it as it was written: restore "
                    "it, or train once without the comparison: --set gate.drift=off"
                )
        self.accepted = acceptances.make(
            self._config,
            data,
            self._live.digest,
            self._newest_span(ingest),
            self._request.accept,
            self._request.because,
        )
        return {"live": self._live.to_json(self.accepted.all)}

    def _newest_span(self, ingest: NodePlan) -> str:
        """Returns the name of the newest span; empty for data without spans."""
        if ingest.action == KEPT:  # the data may have changed since
            return ("", *manifest.read(ingest.outputs[0].uri).spans)[-1]
        return max((each.span.name for each in self._survey().spans), key=lambda name: (len(name), name))

    def _same_inputs(self, node: Node, execution: Execution) -> bool:
        """Whether an execution read the artifacts that this plan's upstream nodes provide."""
        available = {artifact.id for up in node.upstream for artifact in self.decided[up].outputs}
        found = self._baseline() if "Baseline" in node.upstream else None
        baseline = {found.id} if found else set()
        read = self._store.input_ids(execution.id)
        return baseline <= read <= available | baseline

    def _are_live(self, execution: Execution) -> bool:
        """Whether no output of an execution was marked as deleted (`penstock gc`)."""
        return all(artifact.live for artifact in self._store.outputs(execution.id))

    def _broken(self, node: Node, outputs: Iterable[Artifact]) -> str | None:
        """Returns what is wrong with the outputs of an execution, if anything."""
        for artifact in outputs:
            if reason := self._broken_folder(artifact.uri):
                return f"{artifact.name}: {reason}"
            pushed = artifact.properties.get("pushed_destination") if node.id == "Pusher" else None
            if pushed and (reason := self._broken_folder(location(pushed))):
                return f"served version {location(pushed).name}: {reason}"
        return None

    def _broken_folder(self, folder: Location) -> str | None:
        return seals.broken(self._config, folder, self._cache)

    def _fingerprint(self, node: Node) -> dict[str, Any]:
        upstream = {name: self.decided[name].fingerprint.get("key", "") for name in node.upstream}
        source = self._survey().source if node.id == "Ingest" else ""
        return keys.make(node, self._config, upstream, source, self._content(node))

    def _content(self, node: Node) -> dict[str, Any]:
        """Returns what a node reads that no other node wrote."""
        if node.id == "Ingest":
            return {"data_digest": self._survey().digest}
        if node.id == "Schema":
            self.schema = curated.find(self._config, self._survey())
            return {"schema_digest": digest_of([curated.in_force(self._config, self.schema).decode()])}
        if node.id == "Extractor":
            source = find_model(self._config.settings.extract, self._cache)
            trusted = {"extractor_trusted": True} if source.trusted else {}
            return {"extractor_digest": source.digest, **trusted, "packages": keys.versions(source.packages)}
        if node.id == "Base":
            return {"base_digest": base_model.find(self._config.settings.train.warm_start, self._cache).digest}
        if node.id == "Pusher":
            return {"serving": str(self._config.serving)}
        return self._of_live_span(node)

    def _of_live_span(self, node: Node) -> dict[str, Any]:
        """Returns what decides which spans a node reads, and what it compares them with."""
        if node.id == "StatisticsGen":
            return {"live_span_digest": self._live.digest if self._live else ""}
        if node.id == "Gate" and self.accepted and self._live:
            return {"live_span_digest": self._live.digest, "accepted": [each["finding"] for each in self.accepted.all]}
        return {}

    def _baseline(self) -> Artifact | None:
        """Returns the model that the candidate is compared with, as the Baseline node looks it up.

        If the Trainer runs, its model is a new one, and it is not known whether the two can be compared.
        """
        if self._pointer is None:
            return None
        candidate = next((each for each in self.decided["Trainer"].outputs if each.name == "model"), None)
        return self._store.baseline(self._pointer.baselines(candidate.id if candidate else _NEW), candidate)

    @cached_property
    def _pointer(self) -> LivePointer | None:
        return live_model.pointer_of(self._config, self._store)

    def _survey(self) -> Survey:
        if self._found is None:
            config = self._config
            paths.prepare(config.data, config.beam_args)
            self._found = cached.take(config.data, config.settings.ingest, self._cache, config.needs)
        return self._found

    def _explain(self, node: Node, wanted: Mapping[str, Any]) -> str:
        """Says what has changed since the node last ran."""
        finished = list(self._store.finished(node.id))
        if not finished:
            tried = next(self._store.executions(node.id), None)
            of = f" with base model {self._config.settings.train.warm_start}" if node.id == "Base" else ""
            return "never finished before" if tried else f"first run{of}"
        same_key = next((e for e in finished if e.fingerprint.get("key") == wanted["key"]), None)
        if same_key is not None:
            return self._explain_inputs(node, same_key)
        old = finished[0].fingerprint
        if not old:
            return "made without a fingerprint"
        if "data_digest" in wanted and old.get("data_digest") != wanted["data_digest"]:
            return self._explain_data(finished[0])
        return reasons.difference(old, wanted)

    def _explain_inputs(self, node: Node, same_key: Execution) -> str:
        """Says which input differs from that of an execution with the same key."""
        read = self._store.input_ids(same_key.id)
        candidate = {a.id for a in self.decided["Trainer"].outputs} if "Baseline" in node.upstream else set()
        return "another live model to compare with" if candidate & read else reasons.OTHER_INPUTS

    def _explain_data(self, newest: Execution) -> str:
        (examples,) = self._store.outputs(newest.id)
        try:
            files = manifest.read(examples.uri).sources.files
            if max(files, len(self._survey().listing.files)) > _MOST_EXPLAINED:
                return "data changed"
            old = {path: digest for path, _, digest in source_files.read(examples.uri, files)}
        except (OSError, ValueError, KeyError, TypeError):
            return "data changed"
        new = {printable(path): identity for path, _, identity in self._survey().listing.identities()}
        return reasons.data_difference(old, new)


def _checked(request: Request, nodes: Sequence[Node]) -> Request:
    """Returns the request with the nodes' exact names; rejects what contradicts itself."""
    names = [name for name in (request.first, request.last, *request.force) if name]
    known = {name: graph.find(name, nodes).id for name in names}
    first, last = known.get(request.first or ""), known.get(request.last or "")
    before_first = graph.before(first, nodes) if first else set()
    before_last = graph.before(last, nodes) if last else set()
    for name in (known[name] for name in request.force):
        if name in before_first or (last and name not in {last, *before_last}):
            raise FlagError(f"--force {name}: outside of the nodes that --from and --to select")
    if first and last and first != last and first not in before_last:
        raise FlagError(f"--from {first} --to {last}: {first} does not come before {last}")
    return replace(request, first=first, last=last, force=frozenset(known[name] for name in request.force))
