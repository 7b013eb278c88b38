"""B14: what is kept of a pipeline's history, on histories of many runs."""

from dataclasses import dataclass, field, replace

from hypothesis import example, given
from hypothesis import strategies as st

from components.serving.live import LiveModel, LivePointer, Move, follow
from pipelines.orchestration.metadata.history import History, PastExecution
from pipelines.retention.needed import needed

KEPT_RUNS = 3
MOST_MODELS = 2 * KEPT_RUNS + 6  # of kept runs and their bases; live, previous, and theirs
NIGHTS = st.lists(
    st.sampled_from(["pushed", "not better", "failed", "same data", "rollback", "promote", "nothing due"]), max_size=25
)


@dataclass
class Nights:
    """A pipeline that is retrained every night, as the metadata and live.json record it."""

    executions: list[PastExecution] = field(default_factory=list)
    runs: list[frozenset[int]] = field(default_factory=list)
    live: dict[int, str] = field(default_factory=dict)
    pointer: LivePointer | None = None
    is_warm: bool = True  # whether training starts from the base model
    data: int = 0
    candidate: int = -1
    models: dict[int, LiveModel] = field(default_factory=dict)
    made: dict[int, set[int]] = field(default_factory=dict)  # artifacts of each night's lineage, by its model
    judged: dict[int, set[int]] = field(default_factory=dict)  # the outputs of Evaluator and Pusher, by model
    schema: int = 0
    highest: int = 0

    def execution(self, node: str, inputs: dict[str, int], *outputs: str, state: str = "COMPLETE") -> list[int]:
        """Records an execution; returns the ids of what it wrote."""
        number, written = len(self.executions) + 1, [self.highest + place + 1 for place in range(len(outputs))]
        self.live.update({artifact: f"/root/{node}/{artifact}" for artifact in written})
        self.highest += len(outputs)
        self.executions.append(
            PastExecution(number, node, state, tuple(inputs.items()), tuple(zip(outputs, written, strict=True)))
        )
        return written

    def night(self, outcome: str) -> None:
        """Runs the pipeline once, or moves the live pointer."""
        if outcome in ("rollback", "promote"):
            self._move_back(outcome)
            return
        if outcome == "nothing due":
            return
        begun = len(self.executions)
        if outcome != "same data" or not self.data:
            self.data += 1
        (examples,) = self.execution("Ingest", {}, "examples")
        if not self.schema:
            (self.schema,) = self.execution("Schema", {}, "schema")
        (statistics,) = self.execution("StatisticsGen", {"examples": examples, "schema": self.schema}, "statistics")
        if outcome != "failed":
            self._train(outcome, examples, statistics)
        self.runs.insert(0, frozenset(range(begun + 1, len(self.executions) + 1)))

    def _train(self, outcome: str, examples: int, statistics: int) -> None:
        digest = f"data {self.data}"
        (graph,) = self.execution("Transform", {"examples": examples, "schema": self.schema}, "transform_graph")
        base = self.first(self.pointer.bases(digest) if self.pointer else [])
        bases = {"base_model": base} if base and self.is_warm else {}
        model, log = self.execution(
            "Trainer", {"examples": examples, "transform_graph": graph, **bases}, "model", "run"
        )
        self.candidate = model
        self.models[model] = LiveModel(model, "", data_digest=digest)
        self.made[model] = {examples, statistics, graph, model, log, self.schema}
        baseline = self.first(self.pointer.baselines(model) if self.pointer else [])
        baselines = {"baseline_model": baseline} if baseline else {}
        (blessing,) = self.execution("Evaluator", {"examples": examples, "model": model, **baselines}, "blessing")
        (pushed,) = self.execution("Pusher", {"model": model, "model_blessing": blessing}, "pushed_model")
        self.judged[model] = {blessing, pushed}
        if outcome != "not better":
            self._push(Move("push", "", "", "", "", self.models[model]))

    def _push(self, move: Move) -> None:
        version = len(self.pointer.moves) + 1 if self.pointer else 1
        self.pointer = follow(self.pointer, [replace(move, folder=f"/serving/{version}")], "nightly")

    def _move_back(self, kind: str) -> None:
        previous = self.pointer.previous if self.pointer else None
        if previous is None or previous.model.artifact not in self.live:
            return
        if kind == "rollback":
            self._push(replace(previous, kind="rollback", source=previous.folder))
        else:
            self._push(replace(previous, kind="promote", source=""))

    def first(self, models: list[LiveModel]) -> int | None:
        """Returns the model that the plan would choose."""
        return next((each.artifact for each in models if each.artifact in self.live), None)

    def choices(self) -> tuple[int | None, ...]:
        """Returns base and baseline of the newest candidate, and the base of the next night."""
        if self.pointer is None or self.candidate not in self.models:
            return ()
        own = self.models[self.candidate].data_digest
        chains = self.pointer.bases(own), self.pointer.baselines(self.candidate), self.pointer.bases("tomorrow")
        return tuple(map(self.first, chains))

    def collect(self) -> set[int]:
        """Deletes what is not needed, and returns what is kept."""
        history = History(tuple(reversed(self.executions)), tuple(self.runs), self.live)
        kept = needed(history, self.pointer, KEPT_RUNS)
        self.live = {artifact: uri for artifact, uri in self.live.items() if artifact in kept}
        return kept


@given(NIGHTS, st.booleans())
@example(["pushed", "pushed", *["not better"] * 5], False)
@example(["pushed", "pushed", *["same data"] * 5], False)
def test_nothing_that_the_next_run_or_a_rollback_needs_is_deleted(outcomes: list[str], is_warm: bool) -> None:
    """B14: base and baseline stay the same, and the live and the previous model keep all that they were made from."""
    nights = Nights(is_warm=is_warm)
    for outcome in outcomes:
        nights.night(outcome)
        before, live = nights.choices(), set(nights.live)
        nights.collect()
        gone = live - nights.live.keys()

        assert nights.choices() == before
        served = [move for move in (nights.pointer.live, nights.pointer.previous) if move] if nights.pointer else []
        for model in {move.model.artifact for move in served}:
            assert not (nights.made[model] | nights.judged[model]) & gone
        for model in filter(None, before):
            assert not nights.made[model] & gone


@given(NIGHTS)
def test_models_are_bounded(outcomes: list[str]) -> None:
    """B14: however many nights, and whatever their outcomes."""
    nights = Nights()
    for outcome in outcomes:
        nights.night(outcome)
        nights.collect()

        assert len(nights.models.keys() & nights.live.keys()) <= MOST_MODELS


def test_fifty_nights() -> None:
    """B14: after each of fifty runs as many artifacts are live as after the fifth."""
    nights, counts = Nights(), []
    for _ in range(50):
        nights.night("pushed")
        nights.collect()
        counts.append(len(nights.live))

    assert counts[8:] == [counts[8]] * 42
    assert len(nights.models.keys() & nights.live.keys()) == KEPT_RUNS + 1  # the base of the oldest


def test_failed_runs_do_not_displace_good_ones() -> None:
    """A week of failures is not counted, and leaves the models of the last good runs."""
    nights = Nights()
    for _ in range(4):
        nights.night("pushed")
    good = set(nights.models)
    failed = replace_states(nights, 10)

    assert {model for model in good if model in failed} == good


def replace_states(nights: Nights, count: int) -> set[int]:
    """Adds runs whose only execution failed; returns what is kept."""
    for _ in range(count):
        nights.execution("Ingest", {}, state="FAILED")
        nights.runs.insert(0, frozenset([len(nights.executions)]))
    return nights.collect()


def test_what_a_run_found_up_to_date_is_kept() -> None:
    """The settings may be those of an old run again, in which nothing was due."""
    nights = Nights()
    for _ in range(10):
        nights.night("not better")
    old = next(each for each in nights.executions if each.node == "Trainer")
    history = History(tuple(reversed(nights.executions)), tuple(nights.runs), nights.live)
    model = dict(old.outputs)["model"]

    assert model not in needed(history, None, KEPT_RUNS)
    assert nights.made[model] <= needed(history, None, KEPT_RUNS, up_to_date={old.id})
