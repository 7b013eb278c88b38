"""Ingest of CSV on Flink against Beam's direct runner with two worker processes: what a million rows more take.

    rows     2 and 10 million: the slope between them leaves out what a job costs once
    direct   penstock ingest … -- --direct_num_workers=2 --direct_running_mode=multi_processing
    Flink    penstock ingest … --runner flink, on a running engine with two task managers, one worker on each
    target   Flink at most 1.25 of direct; the largest worker grows by at most 1.2

penstock engine start flink --task-managers 2 --slots 2
python -m benchmarks.engine_slope                      both
python -m benchmarks.engine_slope direct               one of them
python -m benchmarks.engine_slope --millions 0.2 1     other sizes; the fixed costs differ by some seconds per run
python -m benchmarks.engine_slope --folder /data       tables are kept there for the next time: writing takes minutes
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from benchmarks.ingest import table

HOME = Path(__file__).resolve().parents[1]
_FLAGS = {
    "direct": ["--", "--direct_num_workers=2", "--direct_running_mode=multi_processing"],
    "flink": ["--runner", "flink"],
}
_WORKERS = ("sdk_worker_main", "pipelines.engine.boot")  # in the command lines of Beam's Python workers
_OURS = (*_WORKERS, "penstock ingest", "flink", "FlinkJobServer")
_MILLION, _LOOK = 1_000_000, 0.25
_RATIO, _GROWTH = 1.25, 1.2
_FILES = 20  # per million rows


@dataclass(frozen=True)
class Run:
    """One ingest."""

    millions: float
    seconds: float
    cpu: float  # seconds, of submitter, workers and engine
    worker_mb: float  # the largest worker at its peak


def write(home: Path, sizes: list[float]) -> list[Path]:
    """Writes tables in several files, and returns their folders; the smaller one has the first files of the larger."""
    folders = [home / f"{millions:g}-million" for millions in sizes]
    wanted = [round(millions * _FILES) for millions in sizes]
    if [len(list(folder.glob("*.csv"))) for folder in folders] == wanted:
        return folders
    for folder in folders:
        folder.mkdir()
    for number in range(round(max(sizes) * _FILES)):
        first, *others = [f for f, millions in zip(folders, sizes, strict=True) if number < round(millions * _FILES)]
        file = first / f"{number:05d}.csv"
        names, rows = _rows(number % _FILES)
        file.write_bytes(names + b",million\n" + rows.replace(b"\n", f",{number // _FILES}\n".encode()))
        for other in others:
            (other / file.name).hardlink_to(file)
    return folders


@cache
def _rows(number: int) -> tuple[bytes, bytes]:
    """Returns names and rows of a file of the first million rows; later millions have another value in one more column.

    Pandas takes 20 us per row.
    """
    content: str = table(_MILLION // _FILES, number * _MILLION).to_csv(index=False)
    names, _, rows = content.encode().partition(b"\n")
    return names, rows


def measure(data: Path, millions: float, runner: str) -> Run:
    """Runs `penstock ingest` and watches its workers."""
    sampler = _ProcessSampler()
    with tempfile.TemporaryDirectory(dir=data.parent) as home:
        penstock = str(Path(sys.executable).with_name("penstock"))
        command = [penstock, "ingest", str(data), "--out", f"{home}/out", "--label", "kind", *_FLAGS[runner]]
        with sampler:
            begun = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - begun
    return Run(millions, seconds, sampler.cpu, sampler.worker_mb)


class _ProcessSampler:
    """Samples the processes of this project: CPU time of all, memory of the largest worker."""

    def __init__(self) -> None:
        self._done, self._first, self._last = threading.Event(), dict[int, float](), dict[int, float]()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.worker_mb = 0.0

    def __enter__(self) -> None:
        self._look()
        self._first = dict(self._last)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def cpu(self) -> float:
        """CPU seconds since it began; what a process did after the last look is missing."""
        return sum(self._last.values()) - sum(self._first.values())

    def _run(self) -> None:
        while not self._done.wait(_LOOK):
            self._look()

    def _look(self) -> None:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if str(HOME) not in line or not any(name in line for name in _OURS):
                    continue
                times = process.cpu_times()
                self._last[process.pid] = times.user + times.system
                if any(name in line for name in _WORKERS):
                    self.worker_mb = max(self.worker_mb, process.memory_info().rss / 1e6)


def slope(runs: list[Run]) -> tuple[float, float]:
    """Returns the seconds that a million rows more take, and the CPU seconds."""
    first, *_, last = runs
    more = last.millions - first.millions
    return (last.seconds - first.seconds) / more, (last.cpu - first.cpu) / more


def main() -> None:
    """Measures the named runners, or both, and prints the slopes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runners", nargs="*", choices=[*_FLAGS, []], help="none named: both")
    parser.add_argument("--millions", nargs=2, type=float, default=[2, 10], help="rows of the two tables")
    parser.add_argument("--folder", help="where the tables are kept, or taken from; 2 GB for 10 million rows")
    asked = parser.parse_args()
    slopes: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folders = write(Path(asked.folder or temporary), asked.millions)
        for runner in asked.runners or _FLAGS:
            runs = [measure(*each, runner) for each in zip(folders, asked.millions, strict=True)]
            slopes[runner] = slope(runs)
            growth = runs[-1].worker_mb / max(1.0, runs[0].worker_mb)
            for run in runs:
                size = f"{run.millions:>6g} million {run.seconds:>8.1f} s {run.cpu:>8.1f} CPU s"
                print(f"{runner:<8}{size} {run.worker_mb:>8,.0f} MB per worker")
            seconds, cpu = slopes[runner]
            more = f"{seconds:.2f} s and {cpu:.2f} CPU s per million rows"
            print(f"{runner:<8}{more}; largest worker {_said(growth, _GROWTH)}", flush=True)
    if len(slopes) == len(_FLAGS):
        for at, unit in enumerate(("seconds", "CPU seconds")):
            print(f"Flink / direct, {unit}: {_said(slopes['flink'][at] / slopes['direct'][at], _RATIO)}")


def _said(value: float, most: float) -> str:
    return f"{value:.2f}, at most {most}: {'reached' if value <= most else 'MISSED'}"


if __name__ == "__main__":
    main()
