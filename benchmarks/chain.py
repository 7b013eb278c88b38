"""The whole chain, from raw data to the pushed model: ours against TFX's penguin template, per node.

    table      200,000 rows of 19 numbers and a label, one epoch      ours, stock
    penguins   344 rows of 4 numbers and a label                      ours, stock
    image      the sample of the image task                           ours
    text       the sample of the text task                            ours

python -m benchmarks.chain table penguins --rounds 3
python -m benchmarks.chain image text --before ../older       ours against an older checkout

Every run is a process of its own with a fresh root. Times include imports. CPU time is user + system.
The checkouts are compiled to bytecode first, as set-up does.
"""

import argparse
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[1]
_STOCK = "benchmarks.stock_chain"
_PACKAGES = ("components", "pipelines", "schemas", "data", "benchmarks")
_PENGUINS = ("culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g")
# Means of the species in the order of the columns, and their common deviations.
_SPECIES = ((38.8, 18.3, 190.0, 3700.0), (48.8, 18.4, 196.0, 3733.0), (47.5, 15.0, 217.0, 5076.0))
_DEVIATIONS = (2.7, 1.1, 6.6, 460.0)
_FLOATS, _INTS = 13, 6
_REST, _WHOLE, _CPU = "imports and between nodes", "whole", "whole, CPU"
_NODES = """
SELECT Context.name, Execution.create_time_since_epoch, Execution.last_update_time_since_epoch
FROM Execution JOIN Association ON Association.execution_id = Execution.id
JOIN Context ON Context.id = Association.context_id JOIN Type ON Type.id = Context.type_id
WHERE Type.name = 'node' ORDER BY Execution.id
"""


@dataclass(frozen=True)
class Case:
    """A data set, and how it is trained."""

    task: str
    rows: int = 0  # of a table; 0: the task's sample
    label: str = ""
    batch: int = 0  # 0: the task's default
    epochs: int = 0  # 0: the default

    @property
    def is_against_stock(self) -> bool:
        """Whether the template can be run on the data."""
        return bool(self.rows)


CASES = {
    "table": Case("tabular", 200_000, "label", batch=32, epochs=1),
    "penguins": Case("tabular", 344, "species", batch=20),
    "image": Case("image"),
    "text": Case("text"),
}
_TEMPLATE_STEPS = 100  # of the penguin template


@dataclass(frozen=True)
class Run:
    """Seconds of one run: of each node by name, and of the whole process."""

    nodes: Mapping[str, float]
    seconds: float
    cpu: float

    def times(self) -> dict[str, float]:
        """Returns all times by the name of their row."""
        between = self.seconds - sum(self.nodes.values())
        return {**self.nodes, _REST: between, _WHOLE: self.seconds, _CPU: self.cpu}


def write(case: Case, folder: Path) -> None:
    """Writes the data of a case, the same in every run."""
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]

    folder.mkdir(parents=True)
    if not case.rows:
        command = [sys.executable, "-m", "data", case.task, "--out", str(folder / "sample")]
        subprocess.run(command, cwd=_PROJECT, check=True, capture_output=True)
        return
    random = np.random.default_rng(5)
    if case.label == "species":
        label = random.choice(3, case.rows, p=[0.44, 0.2, 0.36])
        values = np.array(_SPECIES)[label] + random.normal(size=(case.rows, 4)) * _DEVIATIONS
        table = pd.DataFrame(dict(zip(_PENGUINS, values.round(1).T, strict=True)))
    else:
        floats = random.normal(size=(case.rows, _FLOATS)).round(6)
        table = pd.DataFrame({f"f{index:02d}": floats[:, index] for index in range(_FLOATS)})
        for index in range(_INTS):
            table[f"i{index:02d}"] = random.integers(0, 1000, case.rows)
        label = (floats.sum(axis=1) > 0).astype(int)
    table[case.label] = label
    table.to_csv(folder / "table.csv", index=False)


def commands(case: Case, data: Path, home: Path, before: Path | None) -> dict[str, tuple[list[str], Path]]:
    """Returns the command and the folder of each contender."""
    rows = ["--label", case.label] if case.label else []
    source = data if case.rows else data / "sample"
    ours = ["run", case.task, "--data", str(source), "--root", str(home), *rows]
    given = {"input.batch_size": case.batch, "train.epochs": case.epochs}
    ours += [word for name, value in given.items() if value for word in ("--set", f"{name}={value}")]
    start = ["-c", "from pipelines.cli import main; main()", *ours]
    made = {"ours": ([sys.executable, *start], _PROJECT)}
    if before is not None:
        made["before"] = ([sys.executable, *start], before)
    if case.is_against_stock:
        steps = round(0.8 * case.rows / case.batch) if case.epochs else _TEMPLATE_STEPS
        options = {"home": home, "data": data, "label": case.label, "batch": case.batch, "steps": steps}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        made["stock"] = ([sys.executable, "-m", _STOCK, *words], _PROJECT)
    return made


def compiled(folder: Path) -> None:
    """Writes the bytecode of a checkout, even if the environment keeps Python from it."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", *_PACKAGES], cwd=folder, check=False)


def measure(command: Sequence[str], folder: Path, home: Path) -> Run:
    """Runs a command in a fresh home and reads the times of its nodes from the metadata."""
    home.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    used, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-3000:]}")
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return Run(nodes(next(home.rglob("metadata.db"))), seconds, cpu)


def nodes(metadata: Path) -> dict[str, float]:
    """Returns the seconds of each node, by its name."""
    with sqlite3.connect(metadata) as connection:
        found = connection.execute(_NODES).fetchall()
    return {name.rpartition(".")[2]: (ended - begun) / 1000 for name, begun, ended in found}


def lines(found: Mapping[str, Sequence[Run]]) -> list[str]:
    """Returns the medians of all contenders as a table, one row per node."""
    rows = list(dict.fromkeys(name for runs in found.values() for run in runs for name in run.times()))
    wholes = [name for name in rows if name in (_REST, _WHOLE, _CPU)]
    heading = f"{'seconds':<32}" + "".join(f"{name:>10}" for name in found)
    ordered = [*(name for name in rows if name not in wholes), *wholes]
    return [
        heading,
        *(f"{name:<32}" + "".join(f"{_median(runs, name):>10.1f}" for runs in found.values()) for name in ordered),
    ]


def _median(runs: Sequence[Run], name: str) -> float:
    return statistics.median(run.times().get(name, 0.0) for run in runs)


def contest(name: str, case: Case, rounds: int, before: Path | None, *, with_stock: bool) -> None:
    """Runs the contenders of a case in turn, and prints their times and ratios."""
    found: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary, "data")
        write(case, data)
        for number in range(rounds):
            for contender, made in commands(case, data, Path(temporary, "home"), before).items():
                if with_stock or contender != "stock":
                    found.setdefault(contender, []).append(measure(*made, Path(temporary, "home")))
                    shutil.rmtree(Path(temporary, "home"))
                    print(
                        f"{name}, round {number + 1}, {contender}: {found[contender][-1].seconds:.1f} s",
                        file=sys.stderr,
                    )
    print(name, *lines(found), sep="\n")
    for other in found.keys() - {"ours"}:
        ratio, cpu = (_median(found["ours"], each) / _median(found[other], each) for each in (_WHOLE, _CPU))
        print(f"ratio {ratio:.2f} of the time of {other}, {cpu:.2f} of its CPU time")
    print()


def main() -> None:
    """Measures the named cases, or those with stock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--rows", type=int, help="rows of the table, 200,000 by default")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-stock", action="store_true", help="leave stock out")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="another checkout to compare with")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(CASES):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    for folder in filter(None, (_PROJECT, arguments.before)):
        compiled(folder)
    for name in arguments.names or [name for name, case in CASES.items() if case.is_against_stock]:
        case = CASES[name]
        if name == "table" and arguments.rows:
            case = replace(case, rows=arguments.rows)
        contest(name, case, arguments.rounds, arguments.before, with_stock=not arguments.no_stock)


if __name__ == "__main__":
    main()
