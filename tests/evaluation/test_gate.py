"""Promise A8: anomalies, empty splits and missing classes stop the run before training."""

from pathlib import Path
from typing import Any

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2

from components.evaluation.gate import anomaly_lines, class_problems, class_table, empty_splits

STRATIFY = (
    "  (give every class its share of each split, --set ingest.splits.stratify=true, "
    "or add data for these classes, or lower gate.min_per_class)"
)
RARE = (
    "  (add data: 2 classes have fewer than 2 records, too few for 2 splits, such as ant with 1; or let rare classes "
    "be missing in eval and test: --set gate.min_per_class=0 --set ingest.splits.stratify=true)"
)
FEW_CONTENTS = (
    "  (equal records are in one split: add data, or for a table name a column that differs: "
    "--set ingest.split_by=COLUMN)"
)
ADD = "  (add data for these classes)"
Counts = dict[str, dict[str, int]]


def write(folder: Path, split: str, anomalies: anomalies_pb2.Anomalies) -> None:
    """Writes anomalies as ExampleValidator does."""
    (folder / f"Split-{split}").mkdir()
    (folder / f"Split-{split}" / "SchemaDiff.pb").write_bytes(anomalies.SerializeToString())


class TestClasses:
    """Classes that are missing or too small."""

    def test_every_class_in_every_split_passes(self) -> None:
        """Complete data has no problems."""
        assert class_problems({"train": {"cat": 8, "dog": 9}, "eval": {"cat": 1, "dog": 1}}, 1) == []

    @pytest.mark.parametrize(
        ("counts", "problem", "advice"),
        [
            (
                {"train": {"cat": 8, "dog": 9}, "eval": {"cat": 0, "dog": 0}},
                "  split 'eval' is empty",
                STRATIFY,
            ),
            (
                {"train": {"cat": 8, "dog": 0}, "eval": {"cat": 1, "dog": 2}},
                "  split 'train' has too few records (expected at least 1) of: dog",
                STRATIFY,
            ),
            (
                {"train": {"cat": 8}, "eval": {"cat": 1, "dog": 2}},
                "  split 'train' has too few records (expected at least 1) of: dog",
                STRATIFY,
            ),
            (
                {"train": {"ant": 0, "cat": 8, "dog": 9, "emu": 0}, "eval": {"ant": 1, "cat": 1, "dog": 1, "emu": 1}},
                "  split 'train' has too few records (expected at least 1) of: ant, emu",
                RARE,
            ),
            (
                {"train": {"cat": 8}, "eval": {"cat": 1}},
                "  1 class found (cat); at least 2 classes are required",
                ADD,
            ),
            (
                {"train": {"cat": 8, "dog": 8, "emu": 0}, "eval": {"cat": 1, "dog": 1, "emu": 0}},
                "  split 'train' has too few records (expected at least 1) of: emu",
                ADD,
            ),
        ],
        ids=["empty split", "missing in train", "only in eval", "two missing", "one class", "all quarantined"],
    )
    def test_a_problem_is_reported_with_advice(self, counts: Counts, problem: str, advice: str) -> None:
        """A8, A17: stratified splits are proposed where they help."""
        found = class_problems(counts, 1)

        assert (found[0], found[-1]) == (problem, advice)

    def test_the_minimum_per_class_is_a_setting(self) -> None:
        """The message has the number."""
        counts = {"train": {"cat": 8, "dog": 9}, "eval": {"cat": 2, "dog": 3}}
        problem = "  split 'eval' has too few records (expected at least 3) of: cat"

        assert class_problems(counts, 3) == [problem, STRATIFY]

    def test_a_class_without_training_records_always_stops_the_run(self) -> None:
        """Even with `gate.min_per_class = 0`: the class would have no index."""
        counts = {"train": {"cat": 8, "dog": 9, "emu": 0}, "eval": {"cat": 1, "dog": 1, "emu": 1}}

        assert class_problems(counts, 0) != []

    def test_an_empty_split_is_reported_with_the_column_that_may_decide_the_split(self) -> None:
        """A8: equal records are in one split, so few different ones may leave a split empty."""
        assert empty_splits({"train": 9, "eval": 0, "test": 0}) == [
            "  split 'eval' is empty",
            "  split 'test' is empty",
            FEW_CONTENTS,
        ]

    @pytest.mark.parametrize(
        ("names", "expected"),
        [(range(-5, 35), True), (range(5), False), ([f"n{number}" for number in range(40)], False)],
    )
    def test_many_integer_classes_may_be_a_quantity(self, names: Any, expected: bool) -> None:
        """The first line then names the setting that makes the label a quantity."""
        problems = class_problems({"train": dict.fromkeys(map(str, names), 1), "eval": {}}, 1, "price")

        assert ("--set ingest.columns.price=float" in problems[0]) == expected


def test_the_table_has_one_row_per_class_and_one_column_per_split() -> None:
    """Aligned, with thousands separators."""
    counts = {"train": {"cat": 8, "guinea pig": 12_345}, "eval": {"cat": 1}}

    assert class_table(counts).split("\n") == [
        "  class          train      eval",
        "  cat                8         1",
        "  guinea pig    12,345         0",
    ]


def test_the_table_shows_thirty_classes() -> None:
    """The others are counted."""
    counts = {"train": {f"c{index:02d}": 1 for index in range(33)}}
    rows = class_table(counts).split("\n")

    assert (len(rows), rows[1], rows[30], rows[31]) == (
        32,
        "  c00           1",
        "  c29           1",
        "  … 3 more classes",
    )


class TestAnomalies:
    """Anomalies that ExampleValidator found."""

    def test_a_split_without_anomalies_passes(self, tmp_path: Path) -> None:
        """ExampleValidator writes an empty proto for it."""
        write(tmp_path, "train", anomalies_pb2.Anomalies())

        assert anomaly_lines(tmp_path, "root/schema.pbtxt") == []

    def test_anomalies_are_listed_by_split_and_feature(self, tmp_path: Path) -> None:
        """Sorted, followed by the advice."""
        found = anomalies_pb2.Anomalies()
        found.anomaly_info["label"].description = "Expected bytes but got float."
        found.anomaly_info["image"].description = "Column dropped."
        write(tmp_path, "train", found)
        write(tmp_path, "eval", anomalies_pb2.Anomalies())

        assert anomaly_lines(tmp_path, "root/schema.pbtxt") == [
            "  train: feature 'image': Column dropped.",
            "  train: feature 'label': Expected bytes but got float.",
            "  (correct the data; or, if it is right, edit the schema root/schema.pbtxt, or a copy of it for --schema)",
        ]

    def test_anomalies_of_a_whole_split_are_listed(self, tmp_path: Path) -> None:
        """Such as too few examples."""
        found = anomalies_pb2.Anomalies()
        found.dataset_anomaly_info.description = "Low num examples in dataset."
        write(tmp_path, "eval", found)

        assert anomaly_lines(tmp_path, "root/schema.pbtxt") == [
            "  eval: Low num examples in dataset.",
            "  (correct the data; or, if it is right, edit the schema root/schema.pbtxt, or a copy of it for --schema)",
        ]
