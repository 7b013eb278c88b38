"""What is due, and why: decided from content, settings and source code before anything heavy is imported.

    data, settings, code, library versions, upstream keys ─► fingerprint ─► key
    a finished execution with that key, with the very inputs of this plan, and with its outputs unbroken ─► up to date

Everything else runs, and says why. TFX's own cache is not asked: it knows neither the code behind an import path nor
whether an artifact's files are still what they were.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata as distributions
from pathlib import Path
from typing import Any

import orjson

from components import fingerprint, refs
from components.errors import SettingsError
from components.ingest.survey import cached
from components.ingest.survey.survey import Survey
from components.pretrained import extractor
from components.records import manifest, seal
from components.records.quarantine import printable
from components.storage import paths
from components.storage.hashing import HashCache, digest_of, sha256_of
from pipelines.config import HOME, RunConfig
from pipelines.orchestration import graph
from pipelines.orchestration import schema as curated
from pipelines.orchestration.graph import Node
from pipelines.orchestration.schema import Curated
from pipelines.orchestration.store import Artifact, Execution, Store

RUN, CACHED, HELD, LOOK_UP, SKIP = "run", "cached", "held", "look up", "skip"


@dataclass(frozen=True)
class Request:
    """What the user asked for beyond "bring it up to date"."""

    first: str | None = None  # --from
    last: str | None = None  # --to
    force: frozenset[str] = frozenset()


EVERYTHING = Request()


@dataclass(frozen=True)
class NodePlan:
    """What will be done about one node."""

    node: Node
    action: str
    reason: str
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    execution: Execution | None = None  # whose outputs are used again
    outputs: tuple[Artifact, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What will be done about every node."""

    nodes: tuple[NodePlan, ...]
    schema: Curated | None = None  # None if it is taken as it is

    @property
    def due(self) -> tuple[NodePlan, ...]:
        """The nodes that have to run."""
        return tuple(planned for planned in self.nodes if planned.action == RUN)

    def of(self, node_id: str) -> NodePlan:
        """Returns the plan of one node."""
        return next(planned for planned in self.nodes if planned.node.id == node_id)


def make(config: RunConfig, store: Store, cache: HashCache, request: Request = EVERYTHING) -> Plan:
    """Decides about every node, in order."""
    chain = graph.nodes(config.settings.extract)
    planner = _Planner(config, store, cache, _checked(request, chain), chain)
    for node in chain:
        planner.decide(node)
    return Plan(tuple(planner.decided.values()), planner.schema)


class _Planner:
    def __init__(
        self, config: RunConfig, store: Store, cache: HashCache, request: Request, chain: Sequence[Node]
    ) -> None:
        self._config, self._store, self._cache, self._request = config, store, cache, request
        self._held = graph.before(request.first, chain) if request.first else set()
        wanted = {request.last, *graph.before(request.last, chain)} if request.last else {node.id for node in chain}
        self._wanted = wanted
        self._found: Survey | None = None
        self.schema: Curated | None = None
        self.decided: dict[str, NodePlan] = {}

    def decide(self, node: Node) -> None:
        if node.id not in self._wanted:
            self.decided[node.id] = NodePlan(node, SKIP, f"after --to {self._request.last}")
        elif node.id in self._held:
            self.decided[node.id] = self._hold(node)
        elif node.resolves:
            self.decided[node.id] = NodePlan(node, LOOK_UP, "looked up in every run")
        else:
            self.decided[node.id] = self._decide_by_fingerprint(node)

    def _hold(self, node: Node) -> NodePlan:
        """Takes a node before --from as it is, whatever has changed since."""
        if node.resolves:
            return NodePlan(node, LOOK_UP, "looked up in every run")
        wanted = f"--from {self._request.first}"
        held = next((e for e in self._store.finished(node.id) if self._same_inputs(node, e)), None)
        if held is None:
            known = next(self._store.finished(node.id), None)
            reason = "has not run on what comes before it" if known else "has no output yet"
            raise SettingsError(f"{wanted}: {node.id} {reason}; run without --from first")
        outputs = tuple(self._store.outputs(held.id))
        if broken := self._broken(node, outputs):
            raise SettingsError(f"{wanted}: the output of {node.id} is broken ({broken})")
        return NodePlan(node, HELD, f"before {wanted}", held.fingerprint, held, outputs)

    def _decide_by_fingerprint(self, node: Node) -> NodePlan:
        wanted = self._fingerprint(node)
        if node.id in self._request.force:
            return NodePlan(node, RUN, "forced by --force", wanted)
        running = [up for up in node.upstream if self.decided[up].action == RUN]
        if running:
            return NodePlan(node, RUN, f"after {running[0]}, which runs", wanted)
        refusal = ""
        for execution in self._store.finished(node.id):
            if execution.fingerprint.get("key") != wanted["key"] or not self._same_inputs(node, execution):
                continue
            outputs = tuple(self._store.outputs(execution.id))
            broken = self._broken(node, outputs)
            if broken is None:
                return NodePlan(node, CACHED, _same(node), wanted, execution, outputs)
            refusal = refusal or f"its output was tampered with: {broken}"
        return NodePlan(node, RUN, refusal or self._explain(node, wanted), wanted)

    def _same_inputs(self, node: Node, execution: Execution) -> bool:
        """Whether an execution read the very artifacts that this plan's upstream nodes provide."""
        available = {artifact.id for up in node.upstream for artifact in self.decided[up].outputs}
        baseline = self._baseline() if "Baseline" in node.upstream else set()
        read = self._store.input_ids(execution.id)
        return baseline <= read <= available | baseline

    def _broken(self, node: Node, outputs: Iterable[Artifact]) -> str | None:
        """Returns what is wrong with the outputs of an execution, if anything."""
        for artifact in outputs:
            if not artifact.live:
                return f"{artifact.name} is not marked live in the metadata"
            if reason := self._broken_folder(artifact.uri):
                return f"{artifact.name}: {reason}"
            pushed = artifact.properties.get("pushed_destination") if node.id == "Pusher" else None
            if pushed and (reason := self._broken_folder(Path(pushed))):
                return f"served version {Path(pushed).name}: {reason}"
        return None

    def _broken_folder(self, folder: Path) -> str | None:
        sealed = seal.read(seal_path(self._config, folder))
        return "its seal is missing" if sealed is None else seal.broken(folder, sealed, self._cache)

    def _fingerprint(self, node: Node) -> dict[str, Any]:
        """Returns all that a node's result depends on, by kind, with one key over everything."""
        parts = {
            "settings": {name: self._config.settings.section(name) for name in node.settings},
            "parts": {name: _plain(getattr(self._config.task, name)) for name in node.parts},
            "code": {**fingerprint.sources(self._modules(node)), **_wiring()},
            "packages": {name: _version(name) for name in node.packages},
            "upstream": {name: self.decided[name].fingerprint.get("key", "") for name in node.upstream},
            **self._content(node),
        }
        return {**parts, "key": digest_of([node.id, orjson.dumps(parts, option=orjson.OPT_SORT_KEYS).decode()])}

    def _content(self, node: Node) -> dict[str, Any]:
        """Returns what a node reads that no other node wrote."""
        if node.id == "Ingest":
            return {"data_digest": self._look().digest}
        if node.id == "Schema":
            self.schema = curated.find(self._config, self._look())
            return {"schema_digest": digest_of([curated.in_force(self._config, self.schema).decode()])}
        if node.id == "Extractor":
            source = extractor.find(self._config.settings.extract, self._cache)
            return {"extractor_digest": source.digest, "packages": {name: _version(name) for name in source.packages}}
        if node.id == "Pusher":
            return {"serving": str(self._config.serving)}
        return {}

    def _baseline(self) -> set[int]:
        """Returns the model that the candidate is compared with, as the Baseline node will look it up."""
        (candidate,) = [artifact.id for artifact in self.decided["Trainer"].outputs if artifact.name == "model"]
        latest = self._store.latest_blessed_model(other_than=candidate)
        return {latest} if latest is not None else set()

    def _look(self) -> Survey:
        if self._found is None:
            config = self._config
            paths.prepare(config.data, config.beam_args)
            self._found = cached.take(config.data, config.settings.ingest, self._cache, config.needs)
        return self._found

    def _modules(self, node: Node) -> list[str]:
        """Returns the modules that a node enters; of the Task's sources only the one that reads this data."""
        source = [refs.module_of(self._look().source)] if node.id == "Ingest" else []
        return [*graph.entry_modules(node, self._config.task), *source]

    def _explain(self, node: Node, wanted: Mapping[str, Any]) -> str:
        """Says what has changed since the node was last run."""
        finished = list(self._store.finished(node.id))
        if not finished:
            tried = next(self._store.executions(node.id), None)
            return "never finished before" if tried else "first run"
        twin = next((e for e in finished if e.fingerprint.get("key") == wanted["key"]), None)
        if twin is not None:
            return self._explain_inputs(node, twin)
        old = finished[0].fingerprint
        if not old:
            return "made without a fingerprint"
        if "data_digest" in wanted and old.get("data_digest") != wanted["data_digest"]:
            return self._explain_data(finished[0])
        return _difference(old, wanted)

    def _explain_inputs(self, node: Node, twin: Execution) -> str:
        """Says which input is another one than that of an execution with the same key."""
        read = self._store.input_ids(twin.id)
        candidate = {a.id for a in self.decided["Trainer"].outputs} if "Baseline" in node.upstream else set()
        if candidate & read:
            return "another blessed model to compare with"
        return "its inputs are other artifacts than last time"

    def _explain_data(self, newest: Execution) -> str:
        (examples,) = self._store.outputs(newest.id)
        try:
            old = {path: digest for path, _, digest in manifest.read(examples.uri).sources}
        except (OSError, ValueError, KeyError, TypeError):
            return "data changed"
        return describe_change(old, {printable(item.file.path): item.sha256 for item in self._look().manifest.files})


def describe_change(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Says how two sets of files differ, by path and digest."""
    gone, added = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    moved = _pair_moves(gone, added, old, new)
    kinds = {
        "moved": [f"{source} to {target}" for source, target in moved],
        "altered": sorted(path for path in old.keys() & new.keys() if old[path] != new[path]),
        "added": sorted(set(added) - {target for _, target in moved}),
        "removed": sorted(set(gone) - {source for source, _ in moved}),
    }
    said = [f"{len(found):,} {what} ({found[0]})" for what, found in kinds.items() if found]
    return f"data changed: {', '.join(said)}" if said else "data changed"


def _pair_moves(
    gone: list[str], added: list[str], old: Mapping[str, str], new: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Pairs each file that is gone with an added one of the same content."""
    waiting: dict[str, list[str]] = {}
    for path in reversed(added):
        waiting.setdefault(new[path], []).append(path)
    return [(path, waiting[old[path]].pop()) for path in gone if waiting.get(old[path])]


def seal_path(config: RunConfig, folder: Path) -> Path:
    """Returns where the seal of an artifact folder is kept."""
    return config.notes / "seals" / f"{digest_of([str(folder)])[:32]}.json"


def _checked(request: Request, chain: Sequence[Node]) -> Request:
    names = [name for name in (request.first, request.last, *request.force) if name]
    known = {name: graph.find(name, chain).id for name in names}

    def before(name: str) -> set[str]:
        return graph.before(name, chain)

    first, last = known.get(request.first or ""), known.get(request.last or "")
    for name in (known[name] for name in request.force):
        if (first and name in before(first)) or (last and name not in {last, *before(last)}):
            raise SettingsError(f"--force {name}: it is outside of what --from and --to leave to run")
    if first and last and first != last and first not in before(last):
        raise SettingsError(f"--from {first} --to {last}: {first} does not come before {last}")
    return Request(first, last, frozenset(known[name] for name in request.force))


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Says which part of a fingerprint changed, the nearest to the user first."""
    reasons = [
        *_changed_settings(old.get("settings", {}), new["settings"]),
        *_changed_code(old.get("code", {}), new["code"]),
        *_changed_versions(old.get("packages", {}), new["packages"]),
        *(f"{what} changed" for key, what in _OWN_CONTENT.items() if key in new and old.get(key) != new[key]),
        *(f"{up} was made anew" for up, key in new["upstream"].items() if old.get("upstream", {}).get(up) != key),
    ]
    return reasons[0] if reasons else "its inputs are other artifacts than last time"


_OWN_CONTENT = {
    "parts": "task",
    "extractor_digest": "extract.model",
    "schema_digest": "schema",
    "serving": "serving folder",
}


def _changed_settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    before = _flat(old)
    for key, value in _flat(new).items():
        if before.get(key) != value:
            yield f"setting {key} changed: {before.get(key)!r} to {value!r}"


def _changed_code(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    if files := fingerprint.changed(old, new):
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        yield f"code changed: {files[0]}{more}"


def _changed_versions(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name, version in new.items():
        if old.get(name) != version:
            yield f"{name} changed: {old.get(name)} to {version}"


def _flat(section: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in section.items():
        flat.update(_flat(value, f"{path}{key}.") if isinstance(value, Mapping) else {path + key: value})
    return flat


def _same(node: Node) -> str:
    kinds = [
        *(["data"] if node.id == "Ingest" else ["inputs"] if node.upstream else []),
        *(["schema"] if node.id == "Schema" else []),
        *(["settings"] if node.settings else []),
        *(["code"] if node.code or node.parts else []),
        *(["libraries"] if node.packages else []),
    ]
    return f"same {', '.join(kinds)}; outputs intact"


def _plain(value: object) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


@lru_cache(maxsize=1)
def _wiring() -> dict[str, str]:
    # How the nodes are set up. The file alone: what it imports is every node's code.
    return {"pipelines/orchestration/build.py": sha256_of(HOME / "pipelines" / "orchestration" / "build.py")[:16]}


@lru_cache(maxsize=64)
def _version(package: str) -> str:
    return distributions.version(package)
