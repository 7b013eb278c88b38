"""The newest span apart: candidate and live model on the same test records, of the newest span and of all."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from components.ingest.survey.spans import Span
from components.pretrained.artifacts import SERVING
from components.records import manifest
from components.storage.local_copy import local_copy
from components.storage.location import Location
from pipelines.config import RunConfig
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.remote.mirror import near

if TYPE_CHECKING:
    from components.evaluation.by_span import SpanPair, SpanScore

_SPLIT = "test"
Scores = dict[str, dict[str, float | None]]  # "newest span" or "window" -> records, metric of candidate and live model


def compare(config: RunConfig, span: Span, model: Location, live: Location | None) -> Scores:
    """Returns the scores of the model that was just trained, and of the one that was live before.

    Empty if the records are on an object store only. Raises ValueError if a model cannot predict them.

    Args:
        config: the pipeline, after a run that has trained.
        span: the newest span.
        model: folder of the Model artifact.
        live: folder of the version that was live before the run, if there was one.
    """
    from components.evaluation import by_span

    with _explained():
        examples = _examples(config, model)
        if examples is None:
            return {}
        with ExitStack() as stack:
            folders = [near(config, model) / SERVING, *([live] if live else [])]
            models = [stack.enter_context(local_copy(folder)) for folder in folders]
            newest, window = by_span.compare(models, examples, manifest.read(examples), _SPLIT, span.name)
        return {"newest span": _plain(newest), "window": _plain(window)}


def records(config: RunConfig, span: Span, model: Location) -> int:
    """Returns how many test records of a span are on this machine; raises ValueError if the metadata lacks the model.

    Args:
        config: the pipeline, after a run that has trained.
        span: the newest span.
        model: folder of the Model artifact.
    """
    examples = _examples(config, model)
    shards = manifest.read(examples).shards_of(_SPLIT) if examples is not None else []
    return sum(each.records for each in shards if manifest.span_of(each.name) == span.name)


def pair(config: RunConfig, span: Span, models: Sequence[Location]) -> "SpanPair | None":
    """Returns two models on the newest span; None if the records are on an object store only.

    Args:
        config: the pipeline, after a run that has trained.
        span: the newest span.
        models: folders of two Model artifacts that were trained on the same examples.
    """
    from components.evaluation import by_span

    with _explained(), ExitStack() as stack:
        examples = _examples(config, models[0])
        if examples is None:
            return None
        one, other = (stack.enter_context(local_copy(near(config, model) / SERVING)) for model in models)
        return by_span.pair((one, other), examples, manifest.read(examples), _SPLIT, span.name)


@contextmanager
def _explained() -> Iterator[None]:
    """Turns errors of TensorFlow and of files into a ValueError of one line."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, OSError, KeyError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from error


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


def _examples(config: RunConfig, model: Location) -> Path | None:
    """Returns the examples that a model was trained on: those of Extract, if there are any, else those of Ingest."""
    store = Store(config.metadata, config.name)
    trained = store.trained_model(model)
    if trained is None:
        raise ValueError(f"{model}: no such model in the metadata")
    examples = near(config, store.made_from(trained.id)["examples"].uri)
    return examples if isinstance(examples, Path) else None
