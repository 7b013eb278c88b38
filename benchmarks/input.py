"""Benchmark of the input pipeline: one fresh process per contender, in turn; medians, ratios, targets.

    round 1: tutorial, torch, ours …    round 2: tutorial, torch, ours …    ─► medians ─► table, targets, JSON

python -m benchmarks.input image --rounds 5 --peers       one modality, with all installed peers
python -m benchmarks.input all --json results.json        without peers; a second call adds its rounds to the file,
                                                          --rounds 0 only shows it

Other processes on the machine distort a rate. A run during which they used more than 5 % of the CPU is repeated, twice
at most. Medians are taken over the five calmest runs, or over all calm ones; if those were not calm either, targets are
compared by CPU-µs per sample, which is valid on a busy machine too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import data, peers
from benchmarks.consume import MARK
from benchmarks.workloads import GROUPS, WORKLOADS, Contender, Target, Workload

_OTHERS, _TRIES, _ENOUGH = 0.05, 3, 5
_LIMIT_SECONDS = 300
_HEAD = [
    "contender",
    "samples/s",
    "ratio",
    "CPU-µs",
    "ratio",
    "first batch",
    "peak MB",
    "p50 / p99 ms",
    "others",
    "note",
]
_UTILISATION = 0.95
Run = dict[str, Any]


def measure(workload: Workload, rounds: int, seconds: float, with_peers: bool) -> dict[str, list[Run]]:
    """Runs every contender `rounds` times, one after another within each round."""
    contenders = [each for each in workload.contenders if with_peers or not each.environment]
    found: dict[str, list[Run]] = {each.name: [] for each in contenders}
    for number in range(rounds):
        for each in contenders:
            run = _calm(workload, each, seconds)
            if run is None:
                continue
            found[each.name].append(run)
            figures = f"{run['rate']:,.0f}/s, {run['cpu_us']:,.1f} CPU-µs, others {run['others']:.0%}"
            print(f"round {number + 1} {each.name}: {figures}", file=sys.stderr)
    return {name: runs for name, runs in found.items() if runs}


def medians(runs: Sequence[Run]) -> dict[str, float]:
    """Returns the median of each figure over the calmest runs, those of a simulated device included."""
    ranked = sorted(runs, key=lambda run: run["others"])
    calm = [run for run in ranked if run["others"] < _OTHERS]
    flat = [_flat(run) for run in (calm if len(calm) >= _ENOUGH else ranked[:_ENOUGH])]
    return {key: statistics.median(each[key] for each in flat) for key in flat[0]}


@dataclass(frozen=True)
class Outcome:
    """The result of comparing with a target."""

    figure: str  # the figure that was compared
    ratio: float
    reached: bool


def judge(target: Target, found: Mapping[str, Mapping[str, float]]) -> Outcome | None:
    """Compares with a target; None if a contender was not measured."""
    if target.one not in found or (target.other and target.other not in found):
        return None
    one, other = found[target.one], found.get(target.other)
    if other is None:
        return Outcome(target.figure, one[target.figure], _reached(target, one[target.figure]))
    busy = max(one["others"], other["others"]) >= _OTHERS
    if busy and target.figure in {"rate", "filled"}:
        # The cost of a token is that of its sample divided by the sample's tokens.
        tokens = (one["filled"] / one["rate"]) / (other["filled"] / other["rate"]) if target.figure == "filled" else 1.0
        ratio = tokens * other["cpu_us"] / one["cpu_us"]
        return Outcome("CPU", ratio, _reached(target, ratio))
    ratio = one[target.figure] / other[target.figure]
    return Outcome(target.figure, ratio, _reached(target, ratio))


def _reached(target: Target, value: float) -> bool:
    return value <= target.limit if target.at_most else value >= target.limit


def table(workload: Workload, found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns the table of one workload, as Markdown."""
    base = next(iter(found.values()))
    head = [*_HEAD]
    if workload.tokens:
        head[3:3] = ["tokens/s", "ratio", "padding"]
    lines = [f"### {workload.title}", "", _row(head), _row(["---"] * len(head))]
    present = [each for each in workload.contenders if each.name in found]
    lines += [_row(_cells(each, workload, found[each.name], base)) for each in present]
    lines += ["", *_verdicts(workload, found), *_devices(found)]
    return [*lines, ""]


def _cells(each: Contender, workload: Workload, mine: Mapping[str, float], base: Mapping[str, float]) -> list[str]:
    cells = [
        f"{each.name}",
        f"{mine['rate']:,.0f}",
        f"{mine['rate'] / base['rate']:.2f}x",
        f"{mine['cpu_us']:,.1f}",
        f"{base['cpu_us'] / mine['cpu_us']:.2f}x",
        f"{mine['first_batch']:.2f} s",
        f"{mine['peak_mb']:,.0f}",
        f"{1e3 * mine['wait_p50']:.1f} / {1e3 * mine['wait_p99']:.1f}",
        f"{mine['others']:.0%}",
        each.note,
    ]
    if workload.tokens:
        cells[3:3] = [f"{mine['filled']:,.0f}", f"{mine['filled'] / base['filled']:.2f}x", f"{mine['padding']:.0%}"]
    return cells


def _verdicts(workload: Workload, found: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [_said(target, outcome) for target in workload.targets if (outcome := judge(target, found))]


def _said(target: Target, outcome: Outcome) -> str:
    against = f" / {target.other}" if target.other else ""
    sign, word = "≤" if target.at_most else "≥", "reached" if outcome.reached else "**missed**"
    return f"- {target.one}{against}, {outcome.figure}: {outcome.ratio:.2f} ({sign} {target.limit:g}: {word})"


def _devices(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        f"- {name}, simulated device at 0.9 of its rate: utilisation {mine['utilisation']:.1%}, "
        f"stall p50 {1e3 * mine['stall_p50']:.2f} ms, p99 {1e3 * mine['stall_p99']:.2f} ms "
        f"(≥ {_UTILISATION:.0%}: {'reached' if mine['utilisation'] >= _UTILISATION else '**missed**'})"
        for name, mine in found.items()
        if "utilisation" in mine
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _flat(run: Run) -> dict[str, float]:
    figures = {key: value for key, value in run.items() if key not in ("look", "simulated")}
    return figures | {key: value for key, value in run.get("simulated", {}).items() if key not in ("rate", "steps")}


def _calm(workload: Workload, each: Contender, seconds: float) -> Run | None:
    """Runs one contender again while other processes use the machine, at most three times."""
    python = Path(sys.executable) if not each.environment else peers.python_of(each.environment)
    if python is None:
        print(f"{each.name}: no environment; run `python -m benchmarks.peers {each.environment}`", file=sys.stderr)
        return None
    runs = []
    for _ in range(_TRIES):
        runs.append(_run(workload, each, seconds, python))
        if runs[-1]["others"] < _OTHERS:
            break
    return min(runs, key=lambda run: run["others"])


def _run(workload: Workload, each: Contender, seconds: float, python: Path) -> Run:
    raw, artifact = data.raw(workload.data), data.shards(workload.data, each.stored)
    command = [str(python), "-m", "benchmarks.consume", each.reference]
    command += ["--raw", str(raw), "--artifact", str(artifact), "--batch", str(each.batch), "--seconds", str(seconds)]
    command += ["--tokens"] * workload.tokens + ["--simulate"] * each.simulate
    environment = os.environ | {"PYTHONPATH": str(data.HOME), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        command, env=environment, cwd=data.HOME, capture_output=True, text=True, check=False, timeout=_LIMIT_SECONDS
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    run: Run = json.loads(lines[-1].removeprefix(MARK))
    return run


def main() -> None:
    """Measures and prints tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*GROUPS, *WORKLOADS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8, help="per run, after a warm-up")
    parser.add_argument("--peers", action="store_true", help="include torch, webdataset and grain")
    parser.add_argument("--json", type=Path, help="file for every figure of every run")
    arguments = parser.parse_args()
    everything: dict[str, dict[str, list[Run]]] = {}
    if arguments.json and arguments.json.exists():
        everything = json.loads(arguments.json.read_text())
    for name in GROUPS.get(arguments.what, (arguments.what,)):
        runs = everything.setdefault(name, {})
        for contender, new in measure(WORKLOADS[name], arguments.rounds, arguments.seconds, arguments.peers).items():
            runs.setdefault(contender, []).extend(new)
        found = {contender: medians(each) for contender, each in runs.items()}
        print("\n".join(table(WORKLOADS[name], found)), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
