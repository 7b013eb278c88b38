"""Which artifacts a pipeline still needs: a function of its history and its live pointer.

    newest n runs, newest finished execution of each node, what a run found up to date ─┐
    models of kept versions, and the Evaluator and the Pusher that read them ───────────┴─► all that they read and wrote
    each model among these, the baselines and bases included ─► its lineage: what it was trained on, and its statistics

The lineage ends at other models: that of a base's base is not followed, or nothing would ever be collected.
"""

from collections.abc import Collection, Iterable, Iterator

from components.serving.live import LiveModel, LivePointer
from pipelines.orchestration.metadata.history import FINISHED, History, Keyed, PastExecution

_OTHER_MODELS = ("base_model", "baseline_model")  # inputs that lead to another model
_MODEL_KEYS = ("model", *_OTHER_MODELS)
_STATISTICS = "StatisticsGen"  # the Gate of a later run reads its output, although no model was made from it


def needed(
    history: History, pointer: LivePointer | None, runs: int, versions: int = 1, up_to_date: Collection[int] = ()
) -> set[int]:
    """Returns the ids of the artifacts to keep.

    Args:
        history: of the pipeline.
        pointer: to its live model.
        runs: how many of the newest runs are kept.
        versions: how many of the newest versions are kept, the live one included: a rollback can lead to each.
        up_to_date: ids of the executions that the newest run found up to date.
    """
    graph = _Graph(history)
    kept = graph.recent(runs) + [execution for execution in history.executions if execution.id in up_to_date]
    of_runs = _models(kept)
    served = _served(pointer, of_runs, history, versions)
    kept += graph.of_models(served)
    artifacts = {artifact for execution in kept for _, artifact in (*execution.inputs, *execution.outputs)}
    for model in served | _models(kept):
        artifacts |= {model, *graph.lineage(model)}
    return artifacts


def _models(executions: Iterable[PastExecution]) -> set[int]:
    """Returns the models that executions read or wrote."""
    return {
        artifact
        for execution in executions
        for key, artifact in (*execution.inputs, *execution.outputs)
        if key in _MODEL_KEYS
    }


def _served(pointer: LivePointer | None, candidates: Collection[int], history: History, versions: int) -> set[int]:
    """Returns the models of versions, and the bases of candidates: the Gate compares spans with their data.

    Baselines need no place here: the Evaluator has read them.
    """
    if pointer is None:
        return set()
    found = {move.model.artifact for move in (pointer.live, *pointer.earlier[: max(1, versions - 1)])}
    data = {move.model.data_digest for move in pointer.moves if move.model.artifact in found.union(candidates)}
    chains = (pointer.bases(digest) for digest in sorted(data))
    return found | {base.artifact for chain in chains for base in _first_existing(chain, history)}


def _first_existing(models: Iterable[LiveModel], history: History) -> list[LiveModel]:
    return [model for model in models if model.artifact in history.live][:1]


class _Graph:
    def __init__(self, history: History) -> None:
        self._history = history
        self._finished = [execution for execution in history.executions if execution.state in FINISHED]
        self._made_by: dict[int, PastExecution] = {}
        self._read_by: dict[int, list[PastExecution]] = {}
        for execution in self._finished:  # newest first: the one that made it is the oldest, the others reused it
            for _, artifact in execution.outputs:
                self._made_by[artifact] = execution
            for _, artifact in execution.inputs:
                self._read_by.setdefault(artifact, []).append(execution)

    def recent(self, runs: int) -> list[PastExecution]:
        """Returns the finished executions of the newest runs, and the newest one of each node.

        A run in which nothing finished is not counted: a week of failures does not collect the last good model.
        """
        finished = {execution.id: execution for execution in self._finished}
        counted = [found for run in self._history.runs if (found := run & finished.keys())][:runs]
        newest: dict[str, PastExecution] = {}
        for execution in self._finished:
            if execution.state == "COMPLETE":
                newest.setdefault(execution.node, execution)
        return [finished[number] for number in sorted(frozenset().union(*counted))] + list(newest.values())

    def of_models(self, models: Iterable[int]) -> list[PastExecution]:
        """Returns what made each model, and the newest execution of each node that read it as its candidate."""
        return [execution for model in models for execution in self._of_model(model)]

    def _of_model(self, model: int) -> Iterator[PastExecution]:
        if model in self._made_by:
            yield self._made_by[model]
        nodes = set()
        for execution in self._read_by.get(model, ()):
            if ("model", model) in execution.inputs and execution.node not in nodes:
                nodes.add(execution.node)
                yield execution

    def lineage(self, model: int) -> set[int]:
        """Returns all that a model was made from, but other models, and the statistics of its examples."""
        found, left = {model}, [model]
        while left:
            for _, artifact in self._beside(left.pop()):
                if artifact not in found:
                    found.add(artifact)
                    left.append(artifact)
        return found

    def _beside(self, artifact: int) -> Iterator[Keyed]:
        """Yields the inputs and outputs of what made an artifact, and the statistics of examples."""
        if execution := self._made_by.get(artifact):
            yield from execution.outputs
            yield from (each for each in execution.inputs if each[0] not in _OTHER_MODELS)
        counted = (execution for execution in self._read_by.get(artifact, ()) if _is_statistics_of(artifact, execution))
        if newest := next(counted, None):
            yield from newest.outputs


def _is_statistics_of(artifact: int, execution: PastExecution) -> bool:
    """Whether an execution counted an artifact's records; the schema, which all of them read, leads to none."""
    return (
        execution.node == _STATISTICS and execution.state == "COMPLETE" and ("examples", artifact) in execution.inputs
    )
