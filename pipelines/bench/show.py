"""The results of `bench input`, `bench train` and `tune input` as lines of text."""

from collections.abc import Callable, Sequence

from components import diagnosis
from pipelines.bench.bench import SIMULATED_SHARE, BenchResult
from pipelines.bench.measurements import Measurement, RecordFacts, TrainMeasurement
from pipelines.bench.train import TrainBench
from pipelines.bench.tune import TuneResult

_QUIET = 0.1  # share of the machine that other processes may use before rates become unreliable
_NAME_WIDTH, _CELL_WIDTH = 18, 20


def benched(result: BenchResult) -> str:
    """Returns the comparison with the tutorial, the cost of each stage, the device and the verdict."""
    lines = [
        _data(result.facts, result.cores),
        "",
        *_comparison(result.ours, result.tutorial),
        "",
        *_stages(result),
        "",
        _row("device", [_device(result)]),
        _row("verdict", [result.verdict]),
    ]
    if result.ours.others > _QUIET:
        busy = f"other processes used {_percent(result.ours.others)} of the machine: trust only the CPU-µs"
        lines.append(_row("warning", [busy]))
    return "\n".join(lines)


def trained(result: TrainBench) -> str:
    """Returns the rates of input, model and both per device, and the verdict."""
    rows: list[tuple[str, Callable[[TrainMeasurement], str]]] = [
        ("", lambda each: each.device),
        ("input alone", lambda each: _rate(each.input_rate)),
        ("model alone", lambda each: _rate(each.model_rate)),
        ("together", lambda each: _rate(each.rate)),
        ("waiting for input", lambda each: _percent(each.waiting)),
    ]
    return "\n".join(
        [
            _data(result.facts, result.cores),
            "",
            *(_row(name, [text(each) for each in result.devices]) for name, text in rows),
            "",
            _row("verdict", [result.verdict]),
        ]
    )


def tuned(result: TuneResult) -> str:
    """Returns all candidates, the fastest first, and the verdict."""
    width = max(len(each.name) for each in result.candidates)
    lines = [f"{'':{width}}  {'samples/s':>12}  {'CPU-µs':>10}  {'gain':>7}"]
    for each in sorted(result.candidates, key=lambda each: -each.rate):
        gain = each.rate / result.current.rate
        lines.append(f"{each.name:{width}}  {each.rate:>12,.0f}  {each.cpu_us:>10,.1f}  {gain:>6.2f}x")
    return "\n".join([*lines, "", result.verdict])


def _comparison(ours: Measurement, tutorial: Measurement | None) -> list[str]:
    """Returns one row per figure, with the tutorial's and the ratio if it was measured; of most, less is better."""
    rows: list[tuple[str, Callable[[Measurement], str], Callable[[Measurement], float]]] = [
        ("samples/s", lambda each: f"{each.rate:,.0f}", lambda each: 1 / each.rate),
        ("CPU-µs per sample", lambda each: f"{each.cpu_us:,.1f}", lambda each: each.cpu_us),
        ("wait p50 / p99", lambda each: f"{_ms(each.wait_p50)} / {_ms(each.wait_p99)} ms", lambda each: each.wait_p50),
        ("first batch", lambda each: f"{each.first_batch:.2f} s", lambda each: each.first_batch),
        ("peak memory", lambda each: f"{each.peak_mb:,.0f} MB", lambda each: each.peak_mb),
    ]
    if tutorial is None:
        return [_row("", ["Penstock"]), *(_row(name, [text(ours)]) for name, text, _ in rows)]
    return [
        _row("", ["Penstock", "tutorial", "ratio"]),
        *(_row(name, [text(ours), text(tutorial), f"{cost(tutorial) / cost(ours):.1f}x"]) for name, text, cost in rows),
    ]


def _stages(result: BenchResult) -> list[str]:
    shares = diagnosis.shares_of(result.stages)
    lines = [_row("stage", ["CPU-µs per sample", "share"])]
    return lines + [
        _row(stage.name, [f"{stage.cpu_us:,.1f}", _percent(shares.get(stage.name, 0.0))]) for stage in result.stages
    ]


def _device(result: BenchResult) -> str:
    ours, device = result.ours, result.device
    name = f"{device.name} ({device.rate:,.0f}/s)" if device else f"simulated at {SIMULATED_SHARE:g} of Penstock's rate"
    return (
        f"{name}: utilisation {_percent(ours.utilisation)}, "
        f"stall p50 {_ms(ours.stall_p50)} ms, p99 {_ms(ours.stall_p99)} ms"
    )


def _row(name: str, cells: Sequence[str]) -> str:
    *first, last = cells
    return f"{name:<{_NAME_WIDTH}}{''.join(f'{cell:<{_CELL_WIDTH}}' for cell in first)}{last}"


def _data(facts: RecordFacts, cores: int) -> str:
    size = f"{facts.records:,} records of {facts.bytes / facts.records / 1e3:,.1f} KB"
    return f"{size}, batches of {facts.batch_size}, {cores} cores, decoder {', '.join(facts.decoders)}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f} samples/s"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"
