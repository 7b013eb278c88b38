"""The process that measures: reads an order, takes trials in turn, tells the figures."""

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from components import tasks
from components.errors import PenstockError
from components.features.image import ImageFeature
from components.input_pipeline import budget
from components.settings.ingest import Ingest
from components.settings.input import Input
from components.settings.transform import Transform
from pipelines.bench import meter, restored, subject, trials, tutorial
from pipelines.bench.subject import Subject
from pipelines.bench.trials import Answer, Facts, Figures, Order, Trial

_MB = 1 << 20


def measure(order: Order, folder: Path) -> Answer:
    """Measures every trial in every round; `folder` is for images that are stored anew."""
    fitted = _fitted(order)
    makers = [_maker(order, trial, folder / str(number), fitted) for number, trial in enumerate(order.trials)]
    found: list[list[Figures]] = [[] for _ in order.trials]
    for number in range(order.rounds):
        for place in turns(len(order.trials), number):
            found[place].append(_measure(order, order.trials[place], makers[place]))
    return Answer(facts(_subject(order, order.trials[0], fitted)), tuple(map(tuple, found)))


def turns(count: int, number: int) -> list[int]:
    """Returns the order of a round: every round begins with another, so that none is always the first."""
    return [(place + number) % count for place in range(count)]


def facts(mine: Subject) -> Facts:
    """Returns what is known of the records."""
    data = budget.Data(sum(file.records for file in mine.shards), sum(file.bytes for file in mine.shards))
    images = [key for key, feature in mine.features.items() if isinstance(feature, ImageFeature)]
    return Facts(
        records=data.records,
        bytes=data.bytes,
        decoders=tuple(sorted({getattr(each, "decoder", "tensorflow") for each in mine.features.values()})),
        cache_mb=budget.cache_bytes(data, mine.features.values()) / _MB,
        images=images[0] if images else "",
    )


def _measure(order: Order, trial: Trial, make: Callable[[], Iterable[Any]]) -> Figures:
    # Made anew in each round: a pipeline that waits for its turn would go on filling its buffers meanwhile.
    feed = meter.Feed(make, samples=_counted if trial.kind in subject.STAGES[:-1] else None)
    feed.run(order.warm_up)
    window = feed.run(order.seconds)
    waits = meter.quantiles(window.waits)
    figures = {
        "rate": window.rate,
        "cpu_us": window.cpu_us,
        "others": window.others,
        "first_batch": feed.first_batch_seconds,
        "wait_p50": waits[50],
        "wait_p99": waits[99],
        "peak_mb": meter.peak_mb(),
    }
    if rate := order.device_rate or order.device_share * window.rate:
        seen = feed.simulate(rate, order.seconds)
        figures |= {"utilisation": seen.utilisation, "stall_p50": seen.stall_p50, "stall_p99": seen.stall_p99}
    return Figures(**figures)


def _fitted(order: Order) -> Any:
    if not order.graph:
        return None
    from components.fitting.fitted import Fitted  # TFX's libraries, which images do without

    return Fitted(order.graph, Transform.model_validate(order.transform))


def _maker(order: Order, trial: Trial, folder: Path, fitted: Any) -> Callable[[], Iterable[Any]]:
    mine = _subject(order, trial, fitted)
    if trial.kind == "tutorial":
        return lambda: tutorial.batches(mine)
    if trial.kind == "stored":
        restored.write(Path(trial.artifact), folder, facts(mine).images, Ingest.model_validate(trial.ingest))
        return subject.of(tasks.get(order.task), folder, mine.settings, order.seed, fitted).training
    return mine.training if trial.kind == "training" else lambda: mine.until(trial.kind)


def _subject(order: Order, trial: Trial, fitted: Any) -> Subject:
    settings = Input.model_validate(trial.settings)
    return subject.of(tasks.get(order.task), Path(trial.artifact), settings, order.seed, fitted)


def _counted(part: Any) -> int:
    return int(part[0])


def main() -> None:
    """Measures what standard input orders."""
    order = trials.order_of(sys.stdin.read())
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(trials.told(measure(order, Path(folder))), flush=True)
        except (PenstockError, tf.errors.OpError) as error:
            print(trials.refused(str(error)), flush=True)


if __name__ == "__main__":
    main()
