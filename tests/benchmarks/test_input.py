"""Medians, ratios and targets; and one real measurement."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import consume
from benchmarks import input as harness
from benchmarks.input import Outcome
from benchmarks.workloads import GROUPS, WORKLOADS, Contender, Target, Workload

HOME = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.all


def run(rate: float, **more: Any) -> dict[str, Any]:
    """Returns the figures of one run."""
    figures = {
        "rate": rate,
        "cpu_us": 1e6 / rate,
        "others": 0.0,
        "first_batch": 0.5,
        "peak_mb": 700.0,
        "wait_p50": 0.01,
        "wait_p99": 0.02,
        "filled": 0.0,
        "padding": 0.0,
        "look": {"dtype": "uint8"},
    }
    return figures | more


class TestFigures:
    """From runs to a table."""

    def test_there_is_a_median_of_each_figure(self) -> None:
        """Those of a simulated device included; the description of batches is not a figure."""
        simulated = {"rate": 90.0, "utilisation": 0.96, "stall_p50": 0.001, "stall_p99": 0.002, "steps": 9}
        found = harness.medians([run(rate, simulated=simulated) for rate in (100, 300, 200)])

        assert found == {
            **{key: value for key, value in run(200).items() if key != "look"},
            "cpu_us": 5000.0,
            "utilisation": 0.96,
            "stall_p50": 0.001,
            "stall_p99": 0.002,
        }

    def test_the_calmest_runs_count(self) -> None:
        """Five of them, or all calm ones."""
        busy = [run(rate, others=0.5) for rate in (10, 20, 30)]

        assert harness.medians([*busy, *(run(100 + number) for number in range(7))])["rate"] == 103
        assert harness.medians([*busy, *(run(100 + number) for number in range(3))])["rate"] == 100

    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            (Target("ours", "torch", 1.25), Outcome("rate", 2.0, True)),
            (Target("ours", "torch", 2.5), Outcome("rate", 2.0, False)),
            (Target("ours", "torch", 0.7, "peak_mb", at_most=True), Outcome("peak_mb", 0.5, True)),
            (Target("ours", "torch", 0.4, "peak_mb", at_most=True), Outcome("peak_mb", 0.5, False)),
            (Target("ours", "", 400, "peak_mb", at_most=True), Outcome("peak_mb", 350.0, True)),
            (Target("ours", "busy", 3.0), Outcome("CPU", 3.0, True)),
            (Target("ours", "busy", 3.0, "filled"), Outcome("CPU", 6.0, True)),
            (Target("ours", "grain", 1.0), None),
        ],
        ids=["reached", "missed", "memory", "too much memory", "by itself", "busy", "busy, tokens", "not measured"],
    )
    def test_a_target(self, target: Target, expected: Outcome | None) -> None:
        """A ratio and whether it suffices; on a busy machine by CPU time."""
        found = {
            "ours": {"rate": 200, "peak_mb": 350, "cpu_us": 10, "filled": 1200, "others": 0.0},
            "torch": {"rate": 100, "peak_mb": 700, "cpu_us": 25, "filled": 300, "others": 0.01},
            "busy": {"rate": 20, "peak_mb": 700, "cpu_us": 30, "filled": 60, "others": 0.5},
        }

        assert harness.judge(target, found) == expected

    def test_a_table(self) -> None:
        """Ratios are relative to the first line."""
        workload = Workload(
            "Work",
            "table",
            (Contender("tutorial", "tutorial:table", 8, note="as found"), Contender("ours", "ours:table", 8)),
            (Target("ours", "tutorial", 3.0), Target("ours", "torch", 3.0)),
        )
        found = {"tutorial": harness.medians([run(100)]), "ours": harness.medians([run(250)])}

        assert harness.table(workload, found) == [
            "### Work",
            "",
            "| contender | samples/s | ratio | CPU-µs | ratio | first batch | peak MB | p50 / p99 ms | others | note |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            "| tutorial | 100 | 1.00x | 10,000.0 | 1.00x | 0.50 s | 700 | 10.0 / 20.0 | 0% | as found |",
            "| ours | 250 | 2.50x | 4,000.0 | 2.50x | 0.50 s | 700 | 10.0 / 20.0 | 0% |  |",
            "",
            "- ours / tutorial, rate: 2.50 (≥ 3: **missed**)",
            "",
        ]


class TestWorkloads:
    """The table of workloads."""

    @pytest.mark.parametrize("name", WORKLOADS)
    def test_targets_name_existing_contenders(self, name: str) -> None:
        """And names are unique."""
        names = [each.name for each in WORKLOADS[name].contenders]

        assert len(set(names)) == len(names)
        assert {name for target in WORKLOADS[name].targets for name in (target.one, target.other)} <= {*names, ""}

    def test_every_workload_is_in_a_group(self) -> None:
        """So that `all` measures it."""
        assert sorted(name for group, names in GROUPS.items() if group != "all" for name in names) == sorted(WORKLOADS)


class TestConsume:
    """One contender."""

    def test_tokens_are_nonzero(self) -> None:
        """In the first array of a batch."""
        tokens = consume.Tokens()

        assert tokens.read((np.array([[3, 2, 0], [1, 0, 0]]), np.array([0, 0]))) == 2
        assert (tokens.filled, tokens.cells) == (3, 6)

    @pytest.mark.slow
    def test_a_contender_is_measured(self, tmp_path: Path) -> None:
        """In its own process, from shards, with all figures."""
        shards = tmp_path / "artifact" / "Split-train"
        shards.mkdir(parents=True)
        value = tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes(range(196)) * 4]))
        label = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
        example = tf.train.Example(features=tf.train.Features(feature={"image": value, "label": label}))
        with tf.io.TFRecordWriter(str(shards / "data_tfrecord-00000-of-00001")) as writer:
            for _ in range(100):
                writer.write(example.SerializeToString())
        command = [sys.executable, "-m", "benchmarks.consume", "benchmarks.contenders.pure_tfdata:tensor_28"]
        command += ["--raw", str(tmp_path), "--artifact", str(shards.parent), "--batch", "32", "--simulate"]
        command += ["--warm-up", "0.1", "--seconds", "0.2"]
        done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=True)
        (figures,) = [
            json.loads(line.removeprefix(consume.MARK)) for line in done.stdout.splitlines() if "rate" in line
        ]

        assert set(figures) == {*run(1), "simulated"}
        assert figures["look"] == {"dtype": "uint8", "shape": [32, 28, 28], "mean": 97.5}
        assert figures["simulated"]["rate"] == pytest.approx(0.9 * figures["rate"])
