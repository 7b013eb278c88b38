"""The newest span apart: candidate and live model on the same test records, of the newest span and of all."""

import logging
import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from components.ingest.survey.spans import Span
from components.pretrained.artifacts import SERVING
from components.records import manifest
from components.storage.local_copy import local_copy
from components.storage.location import Location
from pipelines.config import RunConfig
from pipelines.orchestration.metadata.store import Artifact, Store
from pipelines.orchestration.remote.mirror import near

if TYPE_CHECKING:
    from components.evaluation.by_span import SpanScore

_SPLIT = "test"
Scores = dict[str, dict[str, float | None]]  # "newest span" or "window" -> records, metric of candidate and live model


def compare(config: RunConfig, span: Span, live: Location | None) -> Scores:
    """Returns the scores of the model that was just trained, and of the one that was live before.

    Empty if the records are on an object store only. Raises ValueError if a model cannot predict them.

    Args:
        config: the pipeline, after a run that has trained.
        span: the newest span.
        live: folder of the version that was live before the run, if there was one.
    """
    import tensorflow as tf

    logging.getLogger("absl").setLevel(logging.WARNING)  # ML Metadata would announce each connection
    try:
        return _compare(config, span, live)
    except (tf.errors.OpError, OSError, KeyError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from error


def _compare(config: RunConfig, span: Span, live: Location | None) -> Scores:
    from components.evaluation import by_span

    store = Store(config.metadata, config.name)
    trained = next(store.finished("Trainer"))
    (model,) = (each for each in store.outputs(trained.id) if each.name == "model")
    examples = near(config, next(_examples(store, store.input_ids(trained.id))).uri)
    if not isinstance(examples, Path):
        return {}
    with ExitStack() as stack:
        folders = [near(config, model.uri) / SERVING, *([live] if live else [])]
        models = [stack.enter_context(local_copy(folder)) for folder in folders]
        newest, window = by_span.compare(models, examples, manifest.read(examples), _SPLIT, span.name)
    return {"newest span": _plain(newest), "window": _plain(window)}


def text(scores: Scores) -> str:
    """Returns one sentence: `newest span: accuracy 0.9000 (live 0.8500) on 20 test records; window: …`."""
    return "; ".join(f"{part}: {_part_text(values)}" for part, values in scores.items())


def _part_text(values: dict[str, float | None]) -> str:
    records = values["records"]
    metric = next(name for name in values if name not in ("records", "live"))
    candidate, before = values[metric], values.get("live")
    if candidate is None:
        return f"{metric} not defined on {records:,.0f} test records"
    compared = f" (live {before:.4f})" if before is not None else ""
    return f"{metric} {candidate:.4f}{compared} on {records:,.0f} test records"


def _plain(score: "SpanScore") -> dict[str, float | None]:
    """Returns a score as JSON has it, which knows no nan."""
    values = [None if math.isnan(value) else value for value in score.values]
    return {"records": score.records, **dict(zip((score.metric, "live"), values, strict=False))}


def _examples(store: Store, read: set[int]) -> Iterator[Artifact]:
    """Yields the examples that an execution read: those of Extract, if there are any, else those of Ingest."""
    for node in ("Extract", "Ingest"):
        for execution in store.finished(node):
            yield from (each for each in store.outputs(execution.id) if each.id in read)
