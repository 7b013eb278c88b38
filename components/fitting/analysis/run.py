"""Analyzes the train split: a span that was analyzed before is loaded, the shards of the others are read.

spans ─┬─ kept, and intact ───────────────────────────────────────────────┐
       └─ else: shards ─┬─ in this process ──────────────────────┬─► span ┴─► merged ─► results for the graph
                        └─ on Beam, one element per shard ─► file ┘
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import apache_beam as beam

from components import beam_workers
from components.fitting.analysis import kept
from components.fitting.analysis.kept import Kept
from components.fitting.analysis.shards import Fit, ShardAnalyzer
from components.fitting.analysis.trace import Accumulator
from components.records import manifest, spans
from components.records.manifest import Shard
from components.records.spans import SpanShards
from components.storage import durable
from components.storage.location import Location

_SPLIT = "train"


@dataclass(frozen=True)
class AnalysisJob:
    """What to analyze, and how."""

    examples: Location
    work: Location  # folder of temporary files, for workers as well
    schema: str
    fit: Fit


@dataclass(frozen=True)
class Analyzed:
    """What was counted in all spans."""

    total: Sequence[Accumulator]
    spans: tuple[SpanShards, ...]
    new: Mapping[str, Sequence[Accumulator]]  # by the name of the span: of those that were read now
    rejected: Mapping[str, str]  # by the name of the span: why what was kept was not used


def run(
    job: AnalysisJob, analyzer: ShardAnalyzer, store: Kept | None, make_pipeline: Callable[[], beam.Pipeline]
) -> Analyzed:
    """Returns what all analyses have counted in the train split."""
    found = tuple(spans.of_split(job.examples, manifest.read(job.examples), _SPLIT))
    counted: dict[str, Sequence[Accumulator]] = {}
    reasons: dict[str, str] = {}
    for span in found:
        accumulators = analyzer.start()
        reason = store.load(span, accumulators) if store and span.key else "new"
        if reason:
            reasons[span.name] = reason
        else:
            counted[span.name] = accumulators
    todo = [span for span in found if span.name in reasons]
    new = _analyze(job, analyzer, todo, make_pipeline) if todo else {}
    total = analyzer.start()
    for span in found:
        for whole, part in zip(total, {**counted, **new}[span.name], strict=True):
            whole.merge(part)
    return Analyzed(total, found, new, {name: why for name, why in reasons.items() if why not in ("new", "changed")})


def keep(store: Kept, found: Analyzed) -> None:
    """Stores what was counted in each new span, and deletes what belongs to spans that have left the data."""
    for span in found.spans:
        if span.key and span.name in found.new:
            store.store(span, found.new[span.name])
    store.collect(found.spans)


def _analyze(
    job: AnalysisJob, analyzer: ShardAnalyzer, todo: Sequence[SpanShards], make_pipeline: Callable[[], beam.Pipeline]
) -> dict[str, Sequence[Accumulator]]:
    """Returns what was counted in each of the spans."""
    pipeline = make_pipeline()
    is_local = beam_workers.runs_here(pipeline)
    if not is_local:
        beam_workers.prepare()
        work = [shard for span in todo for shard in span.shards]
        with pipeline:
            _ = pipeline | "Shards" >> beam.Create(work, reshuffle=True) | "Analyze" >> beam.ParDo(_AnalyzeShard(job))
    return {span.name: _of_span(job, analyzer, span, is_local=is_local) for span in todo}


def _of_span(job: AnalysisJob, analyzer: ShardAnalyzer, span: SpanShards, *, is_local: bool) -> list[Accumulator]:
    total = analyzer.start()
    for shard in span.shards:
        if is_local:
            analyzer.add(job.examples, shard, total)
        else:
            part = analyzer.start()
            kept.load(_file_of(job, shard).read_bytes(), part)
            for whole, each in zip(total, part, strict=True):
                whole.merge(each)
    return total


def _file_of(job: AnalysisJob, shard: Shard) -> Location:
    return job.work / f"{shard.name.replace('/', '-')}.npz"


class _AnalyzeShard(beam.DoFn):
    """Analyzes one shard and writes what it has counted."""

    def __init__(self, job: AnalysisJob) -> None:
        self._job = job

    def setup(self) -> None:
        self._analyzer = ShardAnalyzer(self._job.schema, self._job.fit)

    def process(self, shard: Shard) -> tuple[()]:
        counted = self._analyzer.start()
        self._analyzer.add(self._job.examples, shard, counted)
        durable.write_bytes(_file_of(self._job, shard), kept.dump(counted))
        return ()
