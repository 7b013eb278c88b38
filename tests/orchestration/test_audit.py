"""Shards are compared with the manifest before a node reads them; the records in its outputs are counted after it.

Outputs are written here as the nodes write them, with correct and with wrong counts (A16).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pandas as pd  # type: ignore[import-untyped]
import pytest
import tensorflow_model_analysis as tfma
from tensorflow_metadata.proto.v0 import statistics_pb2

from components.errors import BadInput, LedgerMismatch
from components.evaluation import results, thresholds
from components.ingest.write.encode_record import example_parts
from components.pretrained.artifacts import LABELS, SERVING
from components.records import manifest
from components.records.ledger import Entry
from components.records.roles import Layout
from components.records.tfrecord.framing import TFRecordWriter
from components.settings.evaluate import Evaluate
from components.settings.transform import Fit
from pipelines.orchestration.audit import Audit, ShardCheck, audit

SPANS = ("s00000", "s00001", "s00002", "s00003")
CLASSES = {"train": {"cat": 5, "dog": 3}, "eval": {"cat": 2, "dog": 1}, "test": {"cat": 2, "dog": 2}}


def write_examples(folder: Path, quarantined: int = 0, written: int = 15) -> Path:
    """Writes the manifest of fifteen records."""
    counts = [8, 3, written - 11]
    shards = [manifest.Shard(split, split, count, 1, "") for split, count in zip(CLASSES, counts, strict=True)]
    folder.mkdir(parents=True)
    manifest.write(
        folder,
        manifest.Manifest(
            data_digest="", found=15, sources=manifest.SourceTotals(), shards=tuple(shards), classes=CLASSES,
            quarantined=quarantined, changed={}, median_side=32, warnings=(),
        ),
        (),
    )  # fmt: skip
    return folder


@pytest.fixture
def examples(tmp_path: Path) -> dict[str, Path]:
    """What every node reads: 8 train, 3 eval and 4 test records."""
    return {"examples": write_examples(tmp_path / "examples")}


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Examples with one real shard per split, of two records."""
    shards = []
    for split in CLASSES:
        (tmp_path / split).mkdir()
        with TFRecordWriter(tmp_path / split / "shard") as file:
            file.write([example_parts({"text": f"{split} {word}".encode()}) for word in ("one", "two")])
        shards.append(manifest.Shard(split, f"{split}/shard", 2, file.size, file.checksum))
    empty = manifest.Manifest(
        "", 6, manifest.SourceTotals(), tuple(shards), {split: {} for split in CLASSES}, 0, {}, 0, ()
    )
    manifest.write(tmp_path, empty, ())
    return tmp_path


def flip(shard: Path) -> None:
    """Flips one bit of the last record."""
    content = bytearray(shard.read_bytes())
    content[-6] ^= 1
    shard.write_bytes(content)


class TestShardCheck:
    """Before a node."""

    @pytest.mark.parametrize(
        ("node", "split"),
        [
            ("Extract", "test"),
            ("StatisticsGen", "eval"),
            ("Transform", "train"),
            ("Transform", "test"),
            ("Evaluator", "test"),
        ],
    )
    def test_a_flipped_bit_stops_every_node_that_reads_the_split(self, shards: Path, node: str, split: str) -> None:
        """A1: the error names the shard and the byte offset of the record."""
        flip(shards / split / "shard")

        with pytest.raises(
            BadInput, match=r"^.*: the checksum of a record does not match its data at byte offset "
        ) as stop:
            ShardCheck().before(node, {"examples": shards})
        assert str(stop.value).startswith(f"{shards}/{split}/shard: ")

    @pytest.mark.parametrize("node", ["StatisticsGen", "Evaluator"])
    def test_a_shard_cut_between_records_is_found(self, shards: Path, node: str) -> None:
        """A2: TensorFlow and Beam would read it without an error."""
        shard = shards / "test" / "shard"
        whole = shard.read_bytes()
        shard.write_bytes(whole[: len(whole) // 2])

        with pytest.raises(
            BadInput, match=f"ends between two records at byte offset {len(whole) // 2}; 1 of 2 records"
        ):
            ShardCheck().before(node, {"examples": shards})

    @pytest.mark.parametrize("node", ["Evaluator", "Trainer", "Gate"])
    def test_other_splits_are_not_read(self, shards: Path, node: str) -> None:
        """The Trainer may have skipped damaged records of its splits; the Gate reads no records."""
        flip(shards / "eval" / "shard")

        ShardCheck().before(node, {"examples": shards})

    def test_a_shard_is_read_once_per_run(self, shards: Path) -> None:
        """A later node does not read it again."""
        check = ShardCheck()
        check.before("StatisticsGen", {"examples": shards})
        flip(shards / "test" / "shard")

        check.before("Evaluator", {"examples": shards})


class TestIngest:
    """Files found, records written, files quarantined."""

    def test_records_and_quarantined_files_add_up(self, tmp_path: Path) -> None:
        """One of fifteen files is bad."""
        outputs = {"examples": write_examples(tmp_path / "examples", quarantined=1, written=14)}

        assert audit("Ingest", {}, outputs) == Audit(Entry("Ingest", 15, 14, 1))

    def test_a_record_that_is_in_no_shard_stops_the_run(self, tmp_path: Path) -> None:
        """And not in quarantine."""
        outputs = {"examples": write_examples(tmp_path / "examples", written=14)}

        with pytest.raises(LedgerMismatch, match=r"^Ingest: 1 records lost\n"):
            audit("Ingest", {}, outputs)


def write_statistics(folder: Path, **counts: int) -> dict[str, Path]:
    """Writes statistics as StatisticsGen does."""
    for split, count in counts.items():
        stats = statistics_pb2.DatasetFeatureStatisticsList()
        stats.datasets.add(num_examples=count)
        (folder / f"Split-{split}").mkdir(parents=True)
        (folder / f"Split-{split}" / "FeatureStats.pb").write_bytes(stats.SerializeToString())
    return {"statistics": folder}


class TestStatisticsGen:
    """Records that the statistics count."""

    def test_all_splits_add_up(self, examples: dict[str, Path], tmp_path: Path) -> None:
        """Fifteen in, fifteen counted."""
        outputs = write_statistics(tmp_path / "statistics", train=8, eval=3, test=4)

        assert audit("StatisticsGen", examples, outputs) == Audit(Entry("StatisticsGen", 15, 15))

    @pytest.mark.parametrize(("train", "lost"), [(4, False), (2, True), (8, True)])
    def test_the_records_of_the_new_spans_add_up(self, tmp_path: Path, train: int, *, lost: bool) -> None:
        """A16: as many as the spans have that the live model's records lack, not one span's, and not those of all."""
        shards = [
            manifest.Shard("train", f"Split-train/data_tfrecord-{each}-00000-of-00001", 2, 1, "") for each in SPANS
        ]
        for folder, held in (("examples", shards), ("live", shards[:2])):
            stored = manifest.read(write_examples(tmp_path / folder))
            manifest.write(tmp_path / folder, replace(stored, shards=tuple(held)), ())
        parameters = {"live": str(tmp_path / "live")}
        outputs = write_statistics(tmp_path / "statistics", train=train)
        inputs = {"examples": tmp_path / "examples"}

        if lost:
            with pytest.raises(LedgerMismatch, match=r"^StatisticsGen, split train"):
                audit("StatisticsGen", inputs, outputs, parameters)
        else:
            audited = audit("StatisticsGen", inputs, outputs, parameters)
            assert audited == Audit(Entry("StatisticsGen", 4, 4), {"note": "statistics of new spans 2, 3 alone"})

    @pytest.mark.parametrize(
        "counts",
        [
            {"train": 7, "eval": 3, "test": 4},
            {"train": 8, "eval": 3, "test": 5},
            {"train": 8, "eval": 3},
            {},
            {"train": 7, "eval": 4, "test": 4},
        ],
        ids=["lost", "invented", "a split without statistics", "none at all", "moved to another split"],
    )
    def test_other_counts_stop_the_run(self, examples: dict[str, Path], tmp_path: Path, counts: dict[str, int]) -> None:
        """Split by split: one that gains what another loses is no comfort."""
        outputs = {"statistics": tmp_path / "statistics"} | write_statistics(tmp_path / "statistics", **counts)

        with pytest.raises(LedgerMismatch, match=r"^StatisticsGen"):
            audit("StatisticsGen", examples, outputs)


def write_graph(folder: Path, cats: int, dogs: int) -> dict[str, Path]:
    """Writes the vocabularies of a transform graph."""
    assets = folder / "transform_fn" / "assets"
    assets.mkdir(parents=True)
    (assets / "labels").write_text("cat\ndog\n")
    (assets / "label_counts").write_text(f"{cats} cat\n{dogs} dog\n")
    return {"transform_graph": folder}


class TestTransform:
    """Records that the vocabulary was fitted on."""

    def test_the_train_split_adds_up(self, examples: dict[str, Path], tmp_path: Path) -> None:
        """The classes are facts of the node."""
        outputs = write_graph(tmp_path / "graph", cats=5, dogs=3)

        assert audit("Transform", examples, outputs) == Audit(Entry("Transform", 8, 8), {"classes": ["cat", "dog"]})

    def test_truncated_texts_are_noted(self, shards: Path, tmp_path: Path) -> None:
        """A11: per split, and in the node's line; every text here has two words, one more than allowed."""
        outputs = write_graph(tmp_path / "graph", cats=1, dogs=1)
        config = {"parts": [["ref", [{"name": "text", "role": "text"}]]], "settings": Fit(max_tokens=1).model_dump()}
        audited = audit("Transform", {"examples": shards}, outputs, {"custom_config": orjson.dumps(config).decode()})

        assert audited.facts["truncated"] == {"train": 2, "eval": 2, "test": 2}
        assert audited.facts["note"] == "6 texts cut to input.max_tokens = 1 (train 2, eval 2, test 2)"

    @pytest.mark.parametrize("dogs", [2, 4])
    def test_other_counts_stop_the_run(self, examples: dict[str, Path], tmp_path: Path, dogs: int) -> None:
        """One record too few or too many."""
        with pytest.raises(LedgerMismatch, match=r"^Transform: 1 records (lost|too many)\n"):
            audit("Transform", examples, write_graph(tmp_path / "graph", cats=5, dogs=dogs))


def write_history(
    folder: Path, train: list[float], held_out: list[float], warm_start: dict[str, Any] | None = None
) -> dict[str, Path]:
    """Writes the history as the Trainer does."""
    folder.mkdir()
    history = {
        "best_epoch": 0,
        "epochs": {"records": train, "val_records": held_out},
        "unread": {"train": 0, "eval": 0},
        "input": {"seconds": [1.5, 0.5]},
        "batch": {"size": 4, "replica": 2, "scale": 1, "accumulate": 2, "effective": 8, "chosen": True},
        "devices": {"names": ["CPU:0"], "workers": 2, "replicas": 2},
        "warm_start": warm_start,
        "resumed": [{"epoch": 1, "step": 1, "note": "resumed at epoch 2, step 1 (stopped by SIGTERM at 10:42:07)"}],
    }
    (folder / "history.json").write_bytes(orjson.dumps(history))
    return {"model_run": folder}


class TestTrainer:
    """Records that each epoch read."""

    def test_every_epoch_adds_up(self, examples: dict[str, Path], tmp_path: Path) -> None:
        """Eight train and three eval records, in two epochs; 16 samples were trained in two seconds."""
        outputs = write_history(tmp_path / "run", [8.0, 8.0], [3.0, 3.0])

        batches = "batches of 4, chosen from the data, 2 on each of 2 devices of 2 workers, 8 records per update"
        note = f"{batches}; resumed at epoch 2, step 1 (stopped by SIGTERM at 10:42:07)"
        facts = {"epochs": 2, "samples_per_second": 8.0, "note": note}
        assert audit("Trainer", examples, outputs) == Audit(Entry("Trainer", 11, 11), facts)

    @pytest.mark.parametrize(
        ("done", "note"),
        [
            ({"base": ""}, "no base model yet: started from random weights"),
            (
                {"base": "serving/1", "copied": ["a", "b"], "mapped": {"c": [2, 4], "d": [5, 6]}, "fresh": ["e"]},
                "warm start from serving/1: weights 2 copied, 2 mapped (7 of 10 rows), 1 fresh",
            ),
        ],
        ids=["cold", "warm"],
    )
    def test_a_warm_start_is_noted(
        self, examples: dict[str, Path], tmp_path: Path, done: dict[str, Any], note: str
    ) -> None:
        """How many weights came from the base model."""
        outputs = write_history(tmp_path / "run", [8.0], [3.0], done)

        assert audit("Trainer", examples, outputs).facts["note"].endswith(f"; {note}")

    @pytest.mark.parametrize(
        ("train", "held_out"),
        [
            ([7.0, 8.0], [3.0, 3.0]),
            ([8.0, 9.0], [3.0, 3.0]),
            ([8.0, 8.0], [3.0, 2.0]),
            ([7.0, 9.0], [3.0, 3.0]),
            ([7.0, 8.0], [4.0, 3.0]),
            ([], []),
        ],
        ids=["lost", "added", "eval lost", "lost, then added", "in the other split", "no epoch"],
    )
    def test_other_counts_stop_the_run(
        self, examples: dict[str, Path], tmp_path: Path, train: list[float], held_out: list[float]
    ) -> None:
        """Per epoch and split."""
        with pytest.raises(LedgerMismatch, match=r"^Trainer"):
            audit("Trainer", examples, write_history(tmp_path / "run", train, held_out))


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation of four records by TFMA, one of them wrong."""
    folder = tmp_path_factory.mktemp("evaluated") / "evaluation"
    config = tfma.utils.update_eval_config_with_defaults(
        thresholds.eval_config(Layout("label", "class", ()), Evaluate()), has_baseline=False, rubber_stamp=True
    )
    config.model_specs[0].prediction_key = "probabilities"
    answers = pd.DataFrame(
        {"label": [0, 0, 1, 1], "probabilities": [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]}
    )  # fmt: skip
    tfma.analyze_raw_data(answers, config, output_path=str(folder))
    return folder


@pytest.mark.slow  # runs TFMA
class TestEvaluator:
    """Records that the model was evaluated on."""

    def test_the_test_split_adds_up(self, examples: dict[str, Path], evaluated: Path, tmp_path: Path) -> None:
        """The metrics are facts of the node, those of classes by the names that the model's vocabulary holds."""
        labels = tmp_path / "model" / SERVING / LABELS
        labels.parent.mkdir(parents=True)
        labels.write_text("no\nof\\ncourse\n")
        looked = audit("Evaluator", {**examples, "model": tmp_path / "model"}, {"evaluation": evaluated})

        assert looked == Audit(Entry("Evaluator", 4, 4), results.read_result(str(evaluated), ["no", "of\ncourse"]))
        assert looked.facts["by_class"] == {"no": 1.0, "of\ncourse": 0.5}
        assert looked.facts["metrics"] == {
            "accuracy": 0.75, "macro_f1": (0.8 + 2 / 3) / 2, "auc": 1.0, "trivial_accuracy": 0.5, "examples": 4.0,
        }  # fmt: skip

    def test_a_record_that_was_not_evaluated_stops_the_run(self, tmp_path: Path, evaluated: Path) -> None:
        """Five in the test split, four in the evaluation."""
        folder = write_examples(tmp_path / "examples")
        stored = orjson.loads((folder / manifest.MANIFEST).read_bytes())
        next(shard for shard in stored["shards"] if shard["split"] == "test")["records"] += 1
        (folder / manifest.MANIFEST).write_bytes(orjson.dumps(stored))

        with pytest.raises(LedgerMismatch, match=r"^Evaluator: 1 records lost\n"):
            audit("Evaluator", {"examples": folder, "model": tmp_path / "model"}, {"evaluation": evaluated})


class TestOthers:
    """Nodes that write no records."""

    @pytest.mark.parametrize(
        "note", [{"pushed": True, "destination": "serving/3", "version": "3"}, {"pushed": False}], ids=["yes", "no"]
    )
    def test_the_pusher_reports_what_it_did(self, tmp_path: Path, note: dict[str, Any]) -> None:
        """Without an entry in the ledger."""
        (tmp_path / "pushed.json").write_bytes(orjson.dumps(note))

        assert audit("Pusher", {}, {"pushed_model": tmp_path}) == Audit(None, note)

    @pytest.mark.parametrize("drift", [None, {"spans": ["s00003"], "measures": []}], ids=["alone", "compared"])
    def test_the_gate_reports_what_is_new(self, tmp_path: Path, drift: dict[str, Any] | None) -> None:
        """How the newest span was compared, if it was."""
        (tmp_path / "verdict.json").write_bytes(orjson.dumps({"passed": True, "classes": {}, "drift": drift}))

        assert audit("Gate", {}, {"verdict": tmp_path}) == Audit(facts={"drift": drift} if drift else {})

    @pytest.mark.parametrize("node", ["Schema", "ExampleValidator", "Baseline"])
    def test_other_nodes_have_no_counts(self, node: str) -> None:
        """Their outputs are not read."""
        assert audit(node, {}, {}) == Audit()
