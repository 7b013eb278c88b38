"""One contender in this process: make its batches, warm up, measure, tell the parent. Runs in peers' environments too.

python -m benchmarks.consume benchmarks.contenders.tutorial:image_crop --raw … --artifact … --batch 64
"""

import argparse
import importlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import Source
from pipelines.bench import meter

MARK = "measured:"
_SIMULATED_AT = 0.9  # of the rate without a device
_SAMPLED = 16  # batches looked at, after the clock has stopped


def tokens(batch: Any) -> tuple[int, int]:
    """Returns how many numbers of a batch of texts are words, of how many."""
    ids = next(iter(meter.leaves(batch)))
    return int(np.count_nonzero(ids)), int(ids.size)


def look(feed: meter.Feed) -> dict[str, Any]:
    """Returns what batches look like: two contenders that do the same work show the same."""
    batches = [next(iter(meter.leaves(feed.take()))) for _ in range(_SAMPLED)]
    first = batches[0]
    if first.dtype == object:
        return {"dtype": "string", "shape": list(first.shape)}
    scale = 255.0 if first.dtype.kind == "f" and first.max() <= 1.5 and first.ndim == 4 else 1.0  # noqa: PLR2004
    mean = float(np.mean([batch.astype(np.float64).mean() for batch in batches]) * scale)
    return {"dtype": str(first.dtype), "shape": list(first.shape), "mean": mean}


def measure(make: Callable[[], Iterable[Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns what the parent wants to know."""
    feed = meter.Feed(make, tokens if arguments.tokens else None)
    feed.run(arguments.warm_up)
    window = feed.run(arguments.seconds)
    waits = meter.quantiles(window.waits)
    found: dict[str, Any] = {
        "rate": window.rate,
        "cpu_us": window.cpu_us,
        "others": window.others,
        "first_batch": feed.first_batch_seconds,
        "peak_mb": meter.peak_mb(),
        "wait_p50": waits[50],
        "wait_p99": waits[99],
        "filled": window.filled / window.seconds,
        "padding": 1 - window.filled / window.cells if window.cells else 0.0,
    }
    if arguments.simulate:
        found["simulated"] = asdict(feed.simulate(_SIMULATED_AT * window.rate, arguments.seconds))
    return found | {"look": look(feed)}


def main() -> None:
    """Measures one contender."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("make")
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--artifact", type=Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--warm-up", type=float, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--tokens", action="store_true")
    parser.add_argument("--simulate", action="store_true")
    arguments = parser.parse_args()
    module, _, name = arguments.make.partition(":")
    contender = getattr(importlib.import_module(module), name)
    source = Source(arguments.raw, arguments.artifact)
    if module.endswith(".limit"):  # no batches come out of it
        print(MARK, json.dumps(contender(source, arguments.batch)), flush=True)
    else:
        print(MARK, json.dumps(measure(lambda: contender(source, arguments.batch), arguments)), flush=True)


if __name__ == "__main__":
    main()
