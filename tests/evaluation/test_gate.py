"""Promise A8: an anomaly, an empty split or a missing class is found before training, with the table of classes."""

from pathlib import Path
from typing import Any

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2

from components.evaluation.gate import anomaly_lines, class_problems, class_table

ADVICE = (
    "  (add data for these classes, change the fractions, e.g. --set ingest.splits.train=0.6 "
    "--set ingest.splits.eval=0.2 --set ingest.splits.test=0.2, or lower gate.min_per_class)"
)
Counts = dict[str, dict[str, int]]


def write(folder: Path, split: str, anomalies: anomalies_pb2.Anomalies) -> None:
    """Stores findings as ExampleValidator does."""
    (folder / f"Split-{split}").mkdir()
    (folder / f"Split-{split}" / "SchemaDiff.pb").write_bytes(anomalies.SerializeToString())


class TestClasses:
    """What can be learned and measured."""

    def test_every_class_in_every_split_passes(self) -> None:
        """Nothing is said about data that is as it should be."""
        assert class_problems({"train": {"cat": 8, "dog": 9}, "eval": {"cat": 1, "dog": 1}}, 1) == []

    @pytest.mark.parametrize(
        ("counts", "problem"),
        [
            (
                {"train": {"cat": 8, "dog": 9}, "eval": {"cat": 0, "dog": 0}},
                "  split 'eval' is empty",
            ),
            (
                {"train": {"cat": 8, "dog": 0}, "eval": {"cat": 1, "dog": 1}},
                "  split 'train' has fewer than 1 of: dog",
            ),
            (
                {"train": {"cat": 8}, "eval": {"cat": 1, "dog": 1}},
                "  split 'train' has fewer than 1 of: dog",
            ),
            (
                {"train": {"ant": 0, "cat": 8, "dog": 9, "emu": 0}, "eval": {"ant": 1, "cat": 1, "dog": 1, "emu": 1}},
                "  split 'train' has fewer than 1 of: ant, emu",
            ),
            (
                {"train": {"cat": 8}, "eval": {"cat": 1}},
                "  1 class found (cat), 2 or more are needed to tell apart",
            ),
        ],
        ids=["empty split", "missing in train", "only in eval", "two missing", "one class"],
    )
    def test_a_problem_is_named_with_what_helps(self, counts: Counts, problem: str) -> None:
        """One line for the problem, one for the way out."""
        assert class_problems(counts, 1) == [problem, ADVICE]

    def test_the_least_number_is_a_setting(self) -> None:
        """Fewer records of a class than asked for are named with that number."""
        counts = {"train": {"cat": 8, "dog": 9}, "eval": {"cat": 2, "dog": 3}}

        assert class_problems(counts, 3) == ["  split 'eval' has fewer than 3 of: cat", ADVICE]

    def test_a_class_without_training_records_stops_whatever_the_setting(self) -> None:
        """A label that training has never seen would become -1."""
        counts = {"train": {"cat": 8, "dog": 9, "emu": 0}, "eval": {"cat": 1, "dog": 1, "emu": 1}}

        assert class_problems(counts, 0) != []

    @pytest.mark.parametrize(
        ("names", "is_told"),
        [(range(-5, 35), True), (range(5), False), ([f"n{number}" for number in range(40)], False)],
    )
    def test_many_whole_numbers_may_be_a_quantity(self, names: Any, is_told: bool) -> None:
        """A price is taken for a class as any other whole number is; the flag that says otherwise is told."""
        problems = class_problems({"train": dict.fromkeys(map(str, names), 1), "eval": {}}, 1)

        assert any("--set ingest.columns.LABEL=float" in problem for problem in problems) == is_told


def test_the_table_has_a_row_a_class_and_a_column_a_split() -> None:
    """Aligned, with thousands set apart and zero written as zero."""
    counts = {"train": {"cat": 8, "guinea pig": 12_345}, "eval": {"cat": 1}}

    assert class_table(counts).split("\n") == [
        "  class          train      eval",
        "  cat                8         1",
        "  guinea pig    12,345         0",
    ]


def test_a_long_table_is_cut() -> None:
    """Thirty classes are shown, the others are counted."""
    counts = {"train": {f"c{index:02d}": 1 for index in range(33)}}
    rows = class_table(counts).split("\n")

    assert (len(rows), rows[1], rows[30], rows[31]) == (
        32,
        "  c00           1",
        "  c29           1",
        "  … 3 more classes",
    )


class TestAnomalies:
    """What ExampleValidator found."""

    def test_no_findings_are_no_lines(self, tmp_path: Path) -> None:
        """An empty proto is written for a split without anomalies."""
        write(tmp_path, "train", anomalies_pb2.Anomalies())

        assert anomaly_lines(tmp_path) == []

    def test_findings_are_told_by_split_and_feature(self, tmp_path: Path) -> None:
        """In order, with the advice after them."""
        found = anomalies_pb2.Anomalies()
        found.anomaly_info["label"].description = "Expected bytes but got float."
        found.anomaly_info["image"].description = "Column dropped."
        write(tmp_path, "train", found)
        write(tmp_path, "eval", anomalies_pb2.Anomalies())

        assert anomaly_lines(tmp_path) == [
            "  train: feature 'image': Column dropped.",
            "  train: feature 'label': Expected bytes but got float.",
            "  (mend the data, or the curated schema if the data is right)",
        ]

    def test_findings_about_a_whole_split_are_told(self, tmp_path: Path) -> None:
        """Such as too few examples."""
        found = anomalies_pb2.Anomalies()
        found.dataset_anomaly_info.description = "Low num examples in dataset."
        write(tmp_path, "eval", found)

        assert anomaly_lines(tmp_path) == [
            "  eval: Low num examples in dataset.",
            "  (mend the data, or the curated schema if the data is right)",
        ]
