"""What `bench input` and `tune input` say in the end, as lines of text."""

from collections.abc import Sequence

from components.input_pipeline import diagnosis
from pipelines.bench.bench import SIMULATED_AT, Result
from pipelines.bench.trials import Figures
from pipelines.bench.tune import Tried, Tuned

_QUIET = 0.1  # share of the machine that others may use before rates say little
_HEAD, _CELL = 18, 20


def result(found: Result) -> list[str]:
    """Returns the figures, the stages and the verdict."""
    facts = found.facts
    data = f"{facts.records:,} records of {facts.bytes / facts.records / 1e3:,.1f} KB"
    lines = [
        f"{data}, batches of {found.batch_size}, {found.cores} cores, decoder {', '.join(facts.decoders)}",
        "",
        *_comparison(found.ours, found.tutorial),
        "",
        *_stages(found),
        "",
        _row("device", [_device(found)]),
        _row("verdict", [found.verdict]),
    ]
    if found.ours.others > _QUIET:
        lines.append(_row("beware", [f"others used {_percent(found.ours.others)} of the machine: only CPU-µs hold"]))
    return lines


def tuned(found: Tuned) -> list[str]:
    """Returns all that was tried, the best first."""
    width = max(len(each.name) for each in found.tried)
    lines = [f"{'':{width}}  {'samples/s':>12}  {'CPU-µs':>10}  {'gain':>7}"]
    lines += [_tried(each, found.current, width) for each in sorted(found.tried, key=lambda each: -each.rate)]
    return [*lines, "", found.verdict]


def _tried(each: Tried, current: Tried, width: int) -> str:
    return f"{each.name:{width}}  {each.rate:>12,.0f}  {each.cpu_us:>10,.1f}  {each.rate / current.rate:>6.2f}x"


def _comparison(ours: Figures, theirs: Figures | None) -> list[str]:
    rows = [
        ("samples/s", [f"{each.rate:,.0f}" for each in _both(ours, theirs)]),
        ("CPU-µs a sample", [f"{each.cpu_us:,.1f}" for each in _both(ours, theirs)]),
        ("wait p50 / p99", [f"{_ms(each.wait_p50)} / {_ms(each.wait_p99)} ms" for each in _both(ours, theirs)]),
        ("first batch", [f"{each.first_batch:.2f} s" for each in _both(ours, theirs)]),
        ("peak memory", [f"{each.peak_mb:,.0f} MB" for each in _both(ours, theirs)]),
    ]
    if theirs is None:
        return [_row("", ["ours"]), *(_row(*row) for row in rows)]
    ratios = [
        ours.rate / theirs.rate,
        theirs.cpu_us / ours.cpu_us,
        theirs.wait_p50 / ours.wait_p50,
        theirs.first_batch / ours.first_batch,
        theirs.peak_mb / ours.peak_mb,
    ]
    lines = [_row("", ["ours", "tutorial", "ratio"])]
    return lines + [_row(name, [*cells, f"{ratio:.1f}x"]) for (name, cells), ratio in zip(rows, ratios, strict=True)]


def _stages(found: Result) -> list[str]:
    shares = diagnosis.shares_of(found.stages)
    lines = [_row("stage", ["CPU-µs a sample", "share"])]
    return lines + [
        _row(stage.name, [f"{stage.cpu_us:,.1f}", _percent(shares.get(stage.name, 0.0))]) for stage in found.stages
    ]


def _both(ours: Figures, theirs: Figures | None) -> list[Figures]:
    return [ours, theirs] if theirs else [ours]


def _device(found: Result) -> str:
    ours = found.ours
    name = f"{found.device.name} ({found.device.rate:,.0f}/s)" if found.device else f"{SIMULATED_AT:g} of our rate"
    return (
        f"{name}: utilisation {_percent(ours.utilisation)}, "
        f"stall p50 {_ms(ours.stall_p50)} ms, p99 {_ms(ours.stall_p99)} ms"
    )


def _row(name: str, cells: Sequence[str]) -> str:
    *first, last = cells
    return f"{name:<{_HEAD}}{''.join(f'{cell:<{_CELL}}' for cell in first)}{last}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"
