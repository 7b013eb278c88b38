"""Ingest of CSV on Flink against Beam's direct runner with two worker processes: what a million rows more take.

    rows     2 and 10 million: the slope between them leaves out what a job costs once
    direct   penstock ingest … -- --direct_num_workers=2 --direct_running_mode=multi_processing
    Flink    penstock ingest … --runner flink, on a running engine with two task managers of one slot each
    target   Flink at most 1.25 of direct; the largest worker grows by at most 1.2

penstock engine start flink --task-managers 2 --slots 1
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

_FLAGS = {
    "direct": ["--", "--direct_num_workers=2", "--direct_running_mode=multi_processing"],
    "flink": ["--runner", "flink"],
}
_WORKERS = ("sdk_worker_main", "pipelines.engine.boot")  # in the command lines of Beam's Python workers
_MILLION, _LOOK = 1_000_000, 0.25
_RATIO, _GROWTH = 1.25, 1.2
_FILES = 20  # per million rows


@dataclass(frozen=True)
class Run:
    """One ingest."""

    millions: float
    seconds: float
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
    done, peaks = threading.Event(), [0.0]
    watcher = threading.Thread(target=_watch, args=(done, peaks), daemon=True)
    with tempfile.TemporaryDirectory(dir=data.parent) as home:
        penstock = str(Path(sys.executable).with_name("penstock"))
        command = [penstock, "ingest", str(data), "--out", f"{home}/out", "--label", "kind", *_FLAGS[runner]]
        watcher.start()
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begun
        done.set()
        watcher.join()
    return Run(millions, seconds, peaks[0])


def _watch(done: threading.Event, peaks: list[float]) -> None:
    while not done.wait(_LOOK):
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(name in part for part in process.cmdline() for name in _WORKERS):
                    peaks[0] = max(peaks[0], process.memory_info().rss / 1e6)


def slope(runs: list[Run]) -> float:
    """Returns the seconds that a million rows more take."""
    first, *_, last = runs
    return (last.seconds - first.seconds) / (last.millions - first.millions)


def main() -> None:
    """Measures the named runners, or both, and prints the slopes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runners", nargs="*", choices=[*_FLAGS, []], help="none named: both")
    parser.add_argument("--millions", nargs=2, type=float, default=[2, 10], help="rows of the two tables")
    parser.add_argument("--folder", help="where the tables are kept, or taken from; 2 GB for 10 million rows")
    asked = parser.parse_args()
    slopes: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folders = write(Path(asked.folder or temporary), asked.millions)
        for runner in asked.runners or _FLAGS:
            runs = [measure(*each, runner) for each in zip(folders, asked.millions, strict=True)]
            slopes[runner] = slope(runs)
            growth = runs[-1].worker_mb / max(1.0, runs[0].worker_mb)
            for run in runs:
                print(
                    f"{runner:<8}{run.millions:>6g} million {run.seconds:>8.1f} s {run.worker_mb:>8,.0f} MB per worker"
                )
            print(f"{runner:<8}{slopes[runner]:.2f} s per million rows; largest worker {_said(growth, _GROWTH)}")
    if len(slopes) == len(_FLAGS):
        print(f"Flink / direct: {_said(slopes['flink'] / slopes['direct'], _RATIO)}")


def _said(value: float, most: float) -> str:
    return f"{value:.2f}, at most {most}: {'reached' if value <= most else 'MISSED'}"


if __name__ == "__main__":
    main()
