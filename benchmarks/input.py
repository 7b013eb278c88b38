"""The input pipeline against everyone: a fresh process a contender, in turn, medians, ratios, bars.

    round 1: tutorial, torch, ours …    round 2: tutorial, torch, ours …    ─► medians ─► table, bars, JSON

python -m benchmarks.input image --rounds 5 --peers       one modality, with the peers that are installed
python -m benchmarks.input all --json results.json        without peers: needs nothing but the product

Others on the machine spoil a rate: a run beside which they used more than a twentieth of it is done again, twice at
most. CPU-µs a sample hold on a busy machine too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import data, peers
from benchmarks.consume import MARK
from benchmarks.workloads import GROUPS, WORKLOADS, Bar, Contender, Workload

_OTHERS, _TRIES = 0.05, 3
_LIMIT_SECONDS = 300
_HEAD = ("contender", "samples/s", "ratio", "CPU-µs", "CPU ratio", "first batch", "peak MB", "wait p50 / p99", "note")
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
            told = f"{run['rate']:,.0f}/s, {run['cpu_us']:,.1f} CPU-µs, others {run['others']:.0%}"
            print(f"round {number + 1} {each.name}: {told}", file=sys.stderr)
    return {name: runs for name, runs in found.items() if runs}


def medians(runs: Sequence[Run]) -> dict[str, float]:
    """Returns the median of each figure, of a simulated device as well."""
    flat = [_flat(run) for run in runs]
    return {key: statistics.median(each[key] for each in flat) for key in flat[0]}


def judge(bar: Bar, found: Mapping[str, Mapping[str, float]]) -> tuple[float, bool] | None:
    """Returns the ratio of a bar and whether it is reached; nothing if one of the two was not measured."""
    if bar.one not in found or (bar.other and bar.other not in found):
        return None
    ratio = found[bar.one][bar.figure] / (found[bar.other][bar.figure] if bar.other else 1)
    return ratio, ratio <= bar.limit if bar.at_most else ratio >= bar.limit


def table(workload: Workload, found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns the table of one workload, as Markdown."""
    base = next(iter(found.values()))
    head = [
        "contender",
        "samples/s",
        "ratio",
        "CPU-µs",
        "CPU ratio",
        "first batch",
        "peak MB",
        "wait p50 / p99",
        "note",
    ]
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
        f"{1e3 * mine['wait_p50']:.1f} / {1e3 * mine['wait_p99']:.1f} ms",
        each.note,
    ]
    if workload.tokens:
        cells[3:3] = [f"{mine['filled']:,.0f}", f"{mine['filled'] / base['filled']:.2f}x", f"{mine['padding']:.0%}"]
    return cells


def _verdicts(workload: Workload, found: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [_said(bar, *judged) for bar in workload.bars if (judged := judge(bar, found))]


def _said(bar: Bar, ratio: float, reached: bool) -> str:
    against = f" / {bar.other}" if bar.other else ""
    sign, word = "≤" if bar.at_most else "≥", "reached" if reached else "**missed**"
    return f"- {bar.one}{against}, {bar.figure}: {ratio:.2f} ({sign} {bar.limit:g}: {word})"


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
    """Runs one contender until the others on the machine leave it alone."""
    python = Path(sys.executable) if not each.environment else peers.python_of(each.environment)
    if python is None:
        print(f"{each.name}: no environment; `python -m benchmarks.peers {each.environment}` makes it", file=sys.stderr)
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
    told = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not told:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    run: Run = json.loads(told[-1].removeprefix(MARK))
    return run


def main() -> None:
    """Measures, and prints tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*GROUPS, *WORKLOADS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8, help="measured a run, after a warm-up")
    parser.add_argument("--peers", action="store_true", help="torch, webdataset and grain too")
    parser.add_argument("--json", type=Path, help="every figure of every run")
    arguments = parser.parse_args()
    everything = {}
    for name in GROUPS.get(arguments.what, (arguments.what,)):
        everything[name] = measure(WORKLOADS[name], arguments.rounds, arguments.seconds, arguments.peers)
        found = {contender: medians(runs) for contender, runs in everything[name].items()}
        print("\n".join(table(WORKLOADS[name], found)), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
