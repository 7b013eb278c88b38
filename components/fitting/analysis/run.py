"""Analyzes the train split: a span that was analyzed before is loaded, the shards of the others are read.

spans ─┬─ kept, and intact ────────────────────────────────────────────────────────┐
       └─ else: shards ─┬─ in this process ───────────────────────┬─► span ─► kept ┴─► merged ─► results for the graph
                        └─ on Beam, one element per shard ─► file ┘

One span at a time is in memory, beside all that are merged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import apache_beam as beam

from components import beam_workers, progress
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
    new: tuple[str, ...]  # names of the spans that were read now
    rejected: Mapping[str, str]  # by the name of the span: why what was kept was not used


def run(
    job: AnalysisJob, analyzer: ShardAnalyzer, store: Kept | None, make_pipeline: Callable[[], beam.Pipeline]
) -> Analyzed:
    """Returns what all analyses have counted in the train split; keeps what was counted in each new span."""
    found = tuple(spans.of_split(job.examples, manifest.read(job.examples), _SPLIT))
    total = analyzer.start()
    reasons: dict[str, str] = {}
    for span in found:
        accumulators = analyzer.start()
        reason = store.load(span, accumulators) if store and span.key else "new"
        if reason:
            reasons[span.name] = reason
        else:
            _merge(total, accumulators)
    todo = [span for span in found if span.name in reasons]
    for span, counted in _analyze(job, analyzer, todo, make_pipeline) if todo else ():
        _merge(total, counted)
        if store and span.key:
            _keep(store, span, counted)
    rejected = {name: why for name, why in reasons.items() if why not in ("new", "changed")}
    return Analyzed(total, found, tuple(reasons), rejected)


def _keep(store: Kept, span: SpanShards, counted: Sequence[Accumulator]) -> None:
    try:
        store.store(span, counted)
    except OSError as error:
        progress.warn(
            f"Transform: what was counted in span {span.name} cannot be kept in {store.folder} ({error.strerror}); "
            "the next Transform reads the span again"
        )


def _merge(total: Sequence[Accumulator], counted: Sequence[Accumulator]) -> None:
    for whole, part in zip(total, counted, strict=True):
        whole.merge(part)


def _analyze(
    job: AnalysisJob, analyzer: ShardAnalyzer, todo: Sequence[SpanShards], make_pipeline: Callable[[], beam.Pipeline]
) -> Iterator[tuple[SpanShards, list[Accumulator]]]:
    """Yields each of the spans with what was counted in it."""
    pipeline = make_pipeline()
    is_local = beam_workers.runs_here(pipeline)
    if not is_local:
        beam_workers.prepare()
        work = [shard for span in todo for shard in span.shards]
        with pipeline:
            _ = pipeline | "Shards" >> beam.Create(work, reshuffle=True) | "Analyze" >> beam.ParDo(_AnalyzeShard(job))
    for span in todo:
        yield span, _of_span(job, analyzer, span, is_local=is_local)


def _of_span(job: AnalysisJob, analyzer: ShardAnalyzer, span: SpanShards, *, is_local: bool) -> list[Accumulator]:
    total = analyzer.start()
    if is_local:
        analyzer.add(job.examples, span.shards, total)
        return total
    for shard in span.shards:
        part = analyzer.start()
        kept.load(_file_of(job, shard).read_bytes(), part)
        _merge(total, part)
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
        self._analyzer.add(self._job.examples, [shard], counted)
        durable.write_bytes(_file_of(self._job, shard), kept.dump(counted))
        return ()
