"""Measure one contender in this process and report to the parent. Runs in the peers' environments too.

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

from benchmarks.contenders import BenchData
from pipelines.bench.processes import meter

MARK = "measured:"
_SIMULATED_AT = 0.9  # of the rate without a device
_SAMPLED = 16  # batches described, after the measurement


class Tokens:
    """Reads batches of texts, and counts their tokens and all cells."""

    def __init__(self) -> None:
        self.filled = self.cells = 0

    def read(self, batch: Any) -> int:
        """Adds a batch and returns its number of samples."""
        ids = next(iter(meter.leaves(batch)))
        self.filled += int(np.count_nonzero(ids))
        self.cells += int(ids.size)
        return meter.touch(batch)


def look(feed: meter.Feed) -> dict[str, Any]:
    """Returns dtype, shape and mean of batches: contenders that do the same work have the same."""
    batches = [next(iter(meter.leaves(feed.take()))) for _ in range(_SAMPLED)]
    first = batches[0]
    if first.dtype == object:
        return {"dtype": "string", "shape": list(first.shape)}
    scale = 255.0 if first.dtype.kind == "f" and first.max() <= 1.5 and first.ndim == 4 else 1.0  # noqa: PLR2004
    mean = float(np.mean([batch.astype(np.float64).mean() for batch in batches]) * scale)
    return {"dtype": str(first.dtype), "shape": list(first.shape), "mean": mean}


def measure(make: Callable[[], Iterable[Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns all figures of one run."""
    tokens = Tokens()
    feed = meter.Feed(make, tokens.read if arguments.tokens else None)
    feed.run(arguments.warm_up)
    tokens.filled = tokens.cells = 0
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
        "filled": tokens.filled / window.seconds,
        "padding": 1 - tokens.filled / tokens.cells if tokens.cells else 0.0,
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
    source = BenchData(arguments.raw, arguments.artifact)
    if module.endswith(".limit"):  # it makes no batches
        print(MARK, json.dumps(contender(source, arguments.batch)), flush=True)
    else:
        print(MARK, json.dumps(measure(lambda: contender(source, arguments.batch), arguments)), flush=True)


if __name__ == "__main__":
    main()
