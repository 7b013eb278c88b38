"""Promises that every task keeps, tested on the first records of its sample data.

    raw files ─► ingest ─► Transform's fit ─► Trainer's run_fn ─► SavedModel

This runs the code of the nodes with the arguments from `build.py`, once per task.
"""

import csv
import io
import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import apache_beam as beam
import keras
import numpy as np
import orjson
import pytest
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from apache_beam.options.pipeline_options import PipelineOptions
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import schema_utils
from tfx.components.trainer.fn_args_utils import FnArgs
from tfx_bsl.tfxio import tf_example_record

from components import features as modalities
from components import refs, tasks
from components.fitting import preprocessing
from components.fitting.analysis import run as analysis
from components.fitting.analysis import trace
from components.fitting.analysis.run import AnalysisJob
from components.fitting.analysis.shards import ShardAnalyzer
from components.fitting.fitted import Fitted
from components.ingest import run
from components.ingest.survey import survey
from components.ingest.units import Output
from components.input_pipeline import Position, Reader, RecordFile, artifacts
from components.input_pipeline.artifacts import ColumnFeature
from components.models.heads import Classification
from components.records import manifest, roles
from components.settings.input import Input
from components.settings.transform import Transform
from components.storage.hashing import HashCache
from components.tasks import NAMES, assign
from components.tasks import parts as shipped
from components.training import checkpoint, trainer
from data.__main__ import generators
from pipelines import config as run_config
from pipelines.orchestration import build
from pipelines.orchestration import schema as curated

RECORDS = 150  # of the sample data
FEW = 16
THREADS = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")
LABEL = "label"
EVERY_PART = ("multimodal", "tensor")  # tasks that together have every part
MOMENTS = ["step", "evaluation", "write", "rename", "renamed"]  # see killed_training.py
Rows = list[tuple[str, list[tuple[str, str]]]]

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class TaskRun:
    """The artifacts of one task: records, Transform graph and served model."""

    home: Path
    config: run_config.RunConfig
    table: survey.Table | None
    fitting: dict[str, Any]  # custom_config of Transform
    custom: Mapping[str, Any]  # custom_config of the Trainer

    @property
    def examples(self) -> Path:
        """The artifact of Ingest."""
        return self.home / "examples"

    @cached_property
    def schema(self) -> Any:
        """The schema in force."""
        return text_format.Parse(self.config.schema_input.read_bytes(), schema_pb2.Schema())

    @cached_property
    def files(self) -> list[RecordFile]:
        """All shards of all splits."""
        return [RecordFile(self.examples / s.name, s.records, s.bytes) for s in manifest.read(self.examples).shards]

    @cached_property
    def records(self) -> list[bytes]:
        """All records, serialized, in the reader's order."""
        own, found = self.reader.record_id, tf.data.TFRecordDataset([str(file.path) for file in self.files])
        by_id = {_id_of(record, own): record for record in found.as_numpy_iterator()}
        values, _ = next(iter(replace(self.reader, features={own: ColumnFeature("int64")}).evaluation(self.files)))
        return [by_id[number] for number in values[own].numpy()]

    @cached_property
    def fitted(self) -> Fitted:
        """The fitted Transform graph."""
        return self.fitted_in("graph")

    def fitted_in(self, folder: str) -> Fitted:
        """Returns the Transform graph in a folder."""
        return Fitted(str(self.home / folder), Transform.model_validate(self.custom["transform"]))

    @cached_property
    def raw(self) -> dict[str, Any]:
        """All columns of all records, parsed by the schema in force."""
        return dict(tf.io.parse_example(self.records, schema_utils.schema_as_feature_spec(self.schema).feature_spec))

    @cached_property
    def reader(self) -> Reader:
        """The Trainer's reader, with a batch size larger than the number of records."""
        fitted, settings = self.fitted, Input.model_validate({**self.custom["input"], "batch_size": 4 * RECORDS})
        wanted = assign.read(self.custom["parts"])
        return Reader(
            features=assign.features(wanted, fitted, settings, manifest.read(self.examples)),
            label=LABEL,
            label_number=lambda labels: fitted.apply({LABEL: labels})[LABEL],
            settings=settings,
            seed=17,
            record_id=artifacts.record_id(self.examples),
        )

    @cached_property
    def columns(self) -> dict[str, Any]:
        """All columns that the features read, parsed."""
        return dict(tf.io.parse_example(self.records, modalities.spec(self.reader.features)))

    @cached_property
    def labels(self) -> list[str]:
        """The label of every record."""
        found = tf.io.parse_example(self.records, {LABEL: tf.io.FixedLenFeature([], tf.string)})[LABEL].numpy()
        return [label.decode() for label in found]

    @cached_property
    def served(self) -> Any:
        """The exported model."""
        return tf.saved_model.load(str(self.home / "model"))

    def model(self) -> Any:
        """Returns an untrained model, built as the Trainer builds it."""
        keras.utils.set_random_seed(3)
        inputs = modalities.keras_inputs(self.reader.features)
        encodings = assign.encodings(assign.read(self.custom["parts"]), inputs, self.fitted)
        return refs.load(self.custom["model"])(inputs, encodings, Classification(len(self.fitted.classes())))

    def with_batch(self, size: int, **settings: Any) -> Reader:
        """Returns the reader with other settings."""
        return replace(self.reader, settings=self.reader.settings.model_copy(update={"batch_size": size, **settings}))


def _id_of(record: bytes, column: str) -> int:
    return int(tf.train.Example.FromString(record).features.feature[column].int64_list.value[0])


def run_task(name: str, home: Path) -> TaskRun:
    """Runs the pipeline's code on the first records of the sample data."""
    data = home / "data"
    generators()[name].main(["--out", str(data), "--limit", str(RECORDS)])
    config = run_config.make(
        name,
        data=str(data),
        root=str(home / "root"),
        # Fitted moments are one more thing that could differ between runs.
        flags=["train.epochs=1", "gate.min_per_class=0", "transform.tensor_zscore=element"],
    )
    config.notes.mkdir(parents=True)
    found = survey.take(config.data, config.settings.ingest, HashCache(None), config.needs)
    schema = curated.find(config, found)
    curated.write_input(config, schema)
    ingest(config, found, home / "examples")
    nodes = {node.id: node for node in build.build(config, curated.in_force(config, schema), schema.file).components}
    configs = {node: orjson.loads(nodes[node].exec_properties["custom_config"]) for node in ("Transform", "Trainer")}
    task_run = TaskRun(home, config, found.table, configs["Transform"], configs["Trainer"])
    fit({name: task_run}, "graph")
    train(task_run)
    return task_run


def ingest(config: run_config.RunConfig, found: survey.Survey, artifact: Path, *beam_args: str) -> None:
    """Writes records, as the Ingest node does."""
    artifact.mkdir()
    job = run.IngestJob(found, Output(artifact, config.settings.ingest), artifact.with_suffix(".quarantine"))
    run.run(job, lambda: beam.Pipeline(options=PipelineOptions(list(beam_args))), lambda: found)


def analyzed(task_run: TaskRun, folder: str, *beam_args: str) -> Path:
    """Returns the folder with the results of the analyses of a task's train split."""
    work, schema = task_run.home / folder, text_format.MessageToString(task_run.schema)
    work.mkdir()
    job = AnalysisJob(task_run.examples, work, schema, partial(preprocessing.fit_all, custom_config=task_run.fitting))
    analyzer = ShardAnalyzer(schema, job.fit)
    found = analysis.run(job, analyzer, None, lambda: beam.Pipeline(options=PipelineOptions(list(beam_args))))
    trace.write(work, analyzer.analyses, found.total)
    return work


def fit(wanted: Mapping[str, TaskRun], folder: str, *beam_args: str) -> None:
    """Fits on the train splits of several tasks, as Transform does."""
    with beam.Pipeline(options=PipelineOptions(list(beam_args))) as pipeline:
        for name, task_run in wanted.items():
            shards = [
                str(task_run.examples / shard.name) for shard in manifest.read(task_run.examples).shards_of("train")
            ]
            columns = [LABEL, *(column["name"] for _, columns in task_run.fitting["parts"] for column in columns)]
            source = tf_example_record.TFExampleRecord(shards, schema=task_run.schema).Project(columns)
            work = analyzed(task_run, f"{folder}-analysis", *beam_args)
            config = {**task_run.fitting, preprocessing.RESULTS: str(work)}
            preprocess = partial(preprocessing.preprocessing_fn, custom_config=config)
            with tft_beam.Context(temp_dir=str(task_run.home / f"{folder}-temporary")):
                read = pipeline | f"read {name}" >> source.BeamSource(), source.TensorAdapterConfig()
                fitted = read | f"fit {name}" >> tft_beam.AnalyzeDataset(preprocess)
                _ = fitted | f"write {name}" >> tft_beam.WriteTransformFn(str(task_run.home / folder))


def train(task_run: TaskRun, out: str = "", graph: str = "graph") -> None:
    """Trains for one epoch and exports, as the Trainer does."""
    trainer.run_fn(
        FnArgs(
            train_files=[str(task_run.examples / "Split-train" / "*")],
            eval_files=[str(task_run.examples / "Split-eval" / "*")],
            transform_graph_path=str(task_run.home / graph),
            serving_model_dir=str(task_run.home / out / "model"),
            model_run_dir=str(task_run.home / out / "run"),
            custom_config={**task_run.custom, "checkpoints": str(task_run.home / out / "checkpoints")},
        )
    )


def train_killed(task_run: TaskRun, out: Path, moments: list[Any]) -> tuple[list[int], Any, list[Any]]:
    """Trains once per moment, and is killed at it; returns the exit codes, the result, and the resumes."""
    custom = {
        **task_run.custom,
        "input": {**task_run.custom["input"], "batch_size": 32},
        "train": {**task_run.custom["train"], "epochs": 12, "steps_per_call": 1, "checkpoint_seconds": 0},
        "checkpoints": str(out / "checkpoints"),
    }
    arguments = {
        "train_files": [str(task_run.examples / "Split-train" / "*")],
        "transform_graph_path": str(task_run.home / "graph"),
        "model_run_dir": str(out / "run"),
        "custom_config": custom,
    }
    out.mkdir()
    (out / "arguments.json").write_text(json.dumps(arguments))
    command = [sys.executable, "-m", "tests.tasks.killed_training", str(out / "arguments.json"), json.dumps(moments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=run_config.HOME)
    history = orjson.loads((out / "run" / trainer.HISTORY).read_bytes())
    arrays = [array.tobytes() for array in checkpoint.read(out / "checkpoints" / checkpoint.FILE).arrays]
    learned = {key: history[key] for key in ("epochs", "best_epoch", "learning_rate", "unread")}
    return json.loads(done.stdout), (arrays, learned), history["resumed"]


@pytest.fixture(scope="module")
def task_runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TaskRun]:
    """Runs each task once."""
    known: dict[str, TaskRun] = {}

    def get(name: str) -> TaskRun:
        if name not in known:
            known[name] = run_task(name, tmp_path_factory.mktemp(name))
        return known[name]

    return get


@pytest.fixture
def task_run(task_runs: Callable[[str], TaskRun], name: str) -> TaskRun:
    """The run of a test's task."""
    return task_runs(name)


@pytest.fixture(scope="module")
def refitted(task_runs: Callable[[str], TaskRun]) -> str:
    """Fits tasks again, on two processes, in one pipeline because workers start slowly; returns the folder name."""
    fit({name: task_runs(name) for name in EVERY_PART}, "refitted", *PROCESSES)
    return "refitted"


def each(names: Iterable[str]) -> Any:
    """Parametrizes a test with tasks; those whose parts other tasks have run only in `make test-all`."""
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=() if name in EVERY_PART else pytest.mark.all) for name in names]
    )


every_task = each(NAMES)


def having(part: tasks.Part) -> Any:
    """Parametrizes a test with all tasks that have a part."""
    return each(name for name in NAMES if part in tasks.get(name).parts)


class TestRecords:
    """Raw files to records."""

    @every_task
    def test_records_have_the_values_of_the_raw_files(self, task_run: TaskRun, name: str) -> None:
        """Every record and every column, missing values included."""
        found = [
            (label, sorted((column, plain(values[place])) for column, values in stored(task_run).items()))
            for place, label in enumerate(task_run.labels)
        ]

        assert sorted(found) == sorted(RAW[name](Path(task_run.config.data)))

    @every_task
    def test_the_shipped_schema_is_what_ingest_infers(self, task_run: TaskRun, name: str) -> None:
        """Names, types, and dtype and shape of arrays."""
        shipped_one = (run_config.HOME / tasks.get(name).schema).read_bytes()

        assert curated.find(task_run.config, survey_of(task_run)).file == run_config.HOME / tasks.get(name).schema
        if task_run.table is not None:  # class folders have no columns to infer
            assert curated._columns(shipped_one) == curated._columns(curated._inferred(task_run.table))

    @every_task
    def test_records_conform_to_the_schema(self, task_run: TaskRun, name: str) -> None:
        """No other columns, each of its type, and all required ones."""
        kinds = {schema_pb2.BYTES: "bytes_list", schema_pb2.INT: "int64_list", schema_pb2.FLOAT: "float_list"}
        known = {feature.name: kinds[feature.type] for feature in task_run.schema.feature}
        always = {feature.name for feature in task_run.schema.feature if feature.HasField("shape")}
        for record in task_run.records:
            columns = tf.train.Example.FromString(record).features.feature
            assert {
                key: value.WhichOneof("kind") for key, value in columns.items() if value.WhichOneof("kind")
            }.items() <= (known.items())
            assert always <= {key for key, value in columns.items() if getattr(value, known[key]).value}, name

    @every_task
    def test_records_are_the_same_bytes_on_two_workers(self, task_run: TaskRun, tmp_path: Path, name: str) -> None:
        """D2: the same shards, splits and order."""
        ingest(task_run.config, survey_of(task_run), tmp_path / "again", *THREADS)

        def shards(folder: Path) -> dict[str, bytes]:
            return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("Split-*/*")}

        assert shards(tmp_path / "again") == shards(task_run.examples), name


class TestFitting:
    """Records to Transform's graph."""

    def test_every_part_is_fitted_on_two_processes(self) -> None:
        """A new part needs an entry in EVERY_PART."""
        parts = {name: {part.fit for part in tasks.get(name).parts} for name in NAMES}

        assert set().union(*(parts[name] for name in EVERY_PART)) == set().union(*parts.values())

    @pytest.mark.all
    @pytest.mark.parametrize("name", EVERY_PART)
    def test_two_processes_fit_the_same(self, task_run: TaskRun, refitted: str, name: str) -> None:
        """D2: the same vocabularies, and bit-identical outputs for all records."""
        once, again = (applied(task_run.fitted_in(folder), task_run.raw) for folder in ("graph", refitted))

        assert assets(task_run.home / refitted) == assets(task_run.home / "graph")
        assert again.keys() == once.keys()
        assert [key for key in once if not np.array_equal(once[key], again[key])] == [], name


class TestTraining:
    """Records to weights."""

    @every_task
    def test_one_step_changes_each_weight(self, task_run: TaskRun, name: str) -> None:
        """No column, encoder or layer is left out of the training."""
        values, labels = next(iter(task_run.with_batch(FEW).evaluation(task_run.files)))
        model, head = task_run.model(), Classification(len(task_run.fitted.classes()))
        model.compile(keras.optimizers.Adam(3e-3), head.loss(), run_eagerly=True)
        before = {weight.path: weight.numpy() for weight in model.trainable_weights}
        model.train_on_batch(values, labels)

        assert [w.path for w in model.trainable_weights if np.array_equal(w.numpy(), before[w.path])] == [], name

    @every_task
    def test_training_resumes_exactly_where_it_stopped(self, task_run: TaskRun, name: str) -> None:
        """B3: from a position within an epoch, the batches are bit-identical to those of an uninterrupted run."""
        reader = task_run.with_batch(FEW)
        whole = list(islice(batches(reader.training(task_run.files)), 14))
        steps = reader.steps(task_run.files)
        resumed = list(islice(batches(reader.training(task_run.files, Position(0, 5))), 9))

        assert 5 < steps < 14, name  # an epoch ends in between
        assert resumed == whole[5:]

    @pytest.mark.all
    @pytest.mark.parametrize("name", EVERY_PART)
    def test_one_seed_gives_equal_weights(self, task_run: TaskRun, refitted: str, name: str) -> None:
        """D2: a second training, on the graph that was fitted again, gives bit-identical weights."""
        train(task_run, "again", refitted)
        first, second = (weights(task_run.home / out / "model") for out in ("", "again"))

        assert first.keys() == second.keys()
        assert [key for key in first if not np.array_equal(first[key], second[key])] == [], name

    @every_task
    def test_an_unknown_label_stops_the_reader(self, task_run: TaskRun, tmp_path: Path, name: str) -> None:
        """A8: the model never sees a class index of -1."""
        record = tf.train.Example.FromString(task_run.records[0])
        record.features.feature[LABEL].bytes_list.value[0] = b"never seen"
        with tf.io.TFRecordWriter(str(tmp_path / "records")) as writer:
            writer.write(record.SerializeToString())
        file = RecordFile(tmp_path / "records", 1, (tmp_path / "records").stat().st_size)

        with pytest.raises(tf.errors.InvalidArgumentError, match="label"):
            list(task_run.reader.evaluation([file]))
        assert "never seen" not in task_run.fitted.classes(), name


class TestKills:
    """B3, B4: a training that is killed and run again, many times."""

    @every_task
    @pytest.mark.all
    def test_two_straight_trainings_are_equal(self, task_run: TaskRun, tmp_path: Path, name: str) -> None:
        """D2: in two processes, weights, optimizer, metrics and history are bit-identical."""
        first, second = (train_killed(task_run, tmp_path / out, [None]) for out in ("first", "second"))

        assert first == second, name

    @pytest.mark.parametrize(
        ("name", "kills"),
        [("tensor", 3), *(pytest.param(name, 20, marks=pytest.mark.all) for name in ("image", "text"))],
    )
    def test_kills_at_any_moment_change_nothing(self, task_run: TaskRun, tmp_path: Path, name: str, kills: int) -> None:
        """B3, B4: weights, optimizer, metrics, best epoch, history and counts of records are bit-identical."""
        draw = random.Random(name)
        moments = [[kind, draw.randint(1, 3) if kind == "step" else 1] for kind in MOMENTS * 4]
        draw.shuffle(moments)
        del moments[kills:]
        _, straight, never = train_killed(task_run, tmp_path / "straight", [None])
        codes, after_kills, resumed = train_killed(task_run, tmp_path / "killed", [*moments, None])

        assert codes == [-signal.SIGKILL] * len(moments) + [0], moments
        assert after_kills == straight, moments
        assert (never, len(resumed) > kills // 5) == ([], True)
        assert [path.name for path in (tmp_path / "killed" / "checkpoints").iterdir()] == [checkpoint.FILE]


class TestServing:
    """D1: the exported model predicts as the trained one does."""

    @every_task
    def test_the_exported_model_predicts_as_the_trained_one(self, task_run: TaskRun, name: str) -> None:
        """For records read as in training, for serialized examples, and for raw values."""
        values, _ = next(iter(task_run.reader.evaluation(task_run.files)))
        model = task_run.model()
        trained = checkpoint.read(task_run.home / "checkpoints" / checkpoint.FILE)
        for variable, value in zip(model.variables, trained.arrays[-len(model.variables) :], strict=True):
            variable.assign(value)
        expected = model(values, training=False).numpy()
        by_examples = task_run.served.signatures["serving_default"](examples=tf.constant(task_run.records))
        by_raw = task_run.served.signatures["raw"](**task_run.columns)

        assert len(expected) >= RECORDS, name
        np.testing.assert_allclose(by_examples["probabilities"], expected, atol=1e-5)
        np.testing.assert_allclose(by_raw["probabilities"], expected, atol=1e-5)
        assert [n.decode() for n in by_raw["all_classes"][0].numpy()] == task_run.fitted.classes()

    @every_task
    def test_the_export_is_proven(self, task_run: TaskRun, name: str) -> None:
        """With the held-out records, for the evaluation path and both signatures in a new process."""
        proven = orjson.loads((task_run.home / "run" / "proof.json").read_bytes())

        assert (proven["records"], proven["unproven"]) == (manifest.read(task_run.examples).records["eval"], {}), name
        assert [way for way, largest in proven["largest_difference"].items() if largest <= 1e-5] == [
            "evaluation", "serving_default", "raw",
        ]  # fmt: skip

    @every_task
    def test_the_exported_model_contains_every_vocabulary(self, task_run: TaskRun, name: str) -> None:
        """It needs no file of the Transform graph, and the classes of two models can be compared."""
        copied = {path.name: path.read_bytes() for path in (task_run.home / "model" / "assets").iterdir()}
        fitted = assets(task_run.home / "graph")
        has_graph = any(each.part.fit for each in assign.read(task_run.custom["parts"]))

        assert copied == (fitted if has_graph else {"labels": fitted["labels"]}), name

    @every_task
    def test_a_single_record_is_predicted_as_in_a_batch(self, task_run: TaskRun, name: str) -> None:
        """The other records, and the padding of their texts, do not matter."""
        together = task_run.served.signatures["raw"](**task_run.columns)["probabilities"].numpy()
        for place in range(3):
            alone = task_run.served.signatures["raw"](
                **{key: v[place : place + 1] for key, v in task_run.columns.items()}
            )
            np.testing.assert_allclose(alone["probabilities"][0], together[place], atol=1e-5, err_msg=name)

    @having(shipped.TABLE)
    def test_extreme_numbers_are_predicted(self, task_run: TaskRun, name: str) -> None:
        """A9: NaN, infinity, the largest numbers and missing ones give probabilities."""
        odd = {
            "float32": [np.nan, np.inf, -np.inf, 3e38, -3e38],
            "int64": [roles.MISSING["int64"], 2**63 - 1, 0, -1, 1],
        }
        given = {
            key: tf.constant(odd[values.dtype.name], values.dtype) if values.dtype.name in odd else values[:5]
            for key, values in task_run.columns.items()
        }
        found = task_run.served.signatures["raw"](**given)["probabilities"].numpy()

        np.testing.assert_allclose(found.sum(axis=1), np.ones(5), rtol=1e-5, err_msg=name)

    @having(shipped.TEXT)
    def test_unusual_texts_are_predicted(self, task_run: TaskRun, name: str) -> None:
        """A10: the same as a serialized example and as a raw value."""
        (column,) = (c.name for c in roles.read(task_run.schema, LABEL).of(["text"]))
        given = {key: tf.repeat(values[:1], len(ODD_TEXTS), axis=0) for key, values in task_run.columns.items()}
        given[column] = tf.constant(ODD_TEXTS)
        by_raw = task_run.served.signatures["raw"](**given)["probabilities"].numpy()
        examples = [with_text(task_run.records[0], column, each) for each in ODD_TEXTS]
        by_examples = task_run.served.signatures["serving_default"](examples=tf.constant(examples))["probabilities"]

        np.testing.assert_allclose(by_examples, by_raw, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(by_raw.sum(axis=1), np.ones(len(ODD_TEXTS)), rtol=1e-5)

    @having(shipped.TEXT)
    def test_a_text_of_millions_of_words_is_truncated(self, task_run: TaskRun, name: str) -> None:
        """A11: only its first `input.max_tokens` tokens count."""
        (column,) = (c.name for c in roles.read(task_run.schema, LABEL).of(["text"]))
        limit = task_run.reader.settings.max_tokens
        words = " ".join(["is it a value of the number"] * limit).split()
        given = {key: tf.repeat(values[:1], 2, axis=0) for key, values in task_run.columns.items()}
        given[column] = tf.constant([" ".join(words[:limit]), " ".join(words[:limit]) + " odd" * 5_000_000])
        short, long = task_run.served.signatures["raw"](**given)["probabilities"].numpy()

        np.testing.assert_allclose(long, short, atol=1e-5, err_msg=name)


ODD_TEXTS = [
    b"", b" \t\n", b"...", "naïve café".encode(), "nai\u0308ve".encode(), "🐈 cat 🐈".encode(), b"left\0right",
    b"not \xff\xfe text", "שלום עולם".encode(), b"line\r\nbreak", "猫".encode() * 700,
    "word\u3000word\u2028word".encode(),
]  # fmt: skip


def with_text(record: bytes, column: str, text: bytes) -> bytes:
    """Returns the record with another text."""
    example = tf.train.Example.FromString(record)
    example.features.feature[column].bytes_list.value[0] = text
    return bytes(example.SerializeToString())


def assets(graph: Path) -> dict[str, bytes]:
    """Returns the vocabularies of a fitted graph by name."""
    return {path.name: path.read_bytes() for path in (graph / "transform_fn" / "assets").iterdir()}


def applied(fitted: Fitted, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the transformed columns; token ids of all texts in one row."""
    found = fitted.apply(columns)
    return {key: getattr(value, "flat_values", value).numpy() for key, value in found.items()}


def weights(model: Path) -> dict[str, Any]:
    """Returns every variable of an exported model by name."""
    reader = tf.train.load_checkpoint(str(model / "variables" / "variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name}


def survey_of(task_run: TaskRun) -> survey.Survey:
    """Surveys the data again."""
    return survey.take(task_run.config.data, task_run.config.settings.ingest, HashCache(None), task_run.config.needs)


def batches(data: Any) -> Iterator[list[bytes]]:
    """Yields batches as comparable bytes, with their shapes."""
    for values, labels in data.as_numpy_iterator():
        yield [
            part
            for value in (*(values[key] for key in sorted(values)), labels)
            for part in (str(value.shape).encode(), value.tobytes())
        ]


def stored(task_run: TaskRun) -> dict[str, Any]:
    """Returns the columns of the records, with arrays decoded."""
    arrays = {c.name for c in roles.read(task_run.schema, LABEL).of(["tensor"])}
    return {
        key: (task_run.reader.features[key].decode(values) if key in arrays else values).numpy()
        for key, values in task_run.columns.items()
    }


def plain(value: Any) -> str:
    """Returns a value as comparable text; "missing" for missing values."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.tolist()}"
    if isinstance(value, bytes):
        return value.hex() or "missing"
    if np.isnan(value) or value == roles.MISSING["int64"]:
        return "missing"
    return f"{np.float32(value)}" if isinstance(value, float | np.floating) else str(int(value))


def images(data: Path) -> Rows:
    """Returns the images in class folders: folder name and file content."""
    return [(path.parent.name, [("image", path.read_bytes().hex())]) for path in data.glob("*/*")]


def docstrings(data: Path) -> Rows:
    """Returns the rows of the JSON Lines file: label and text."""
    rows = [json.loads(line) for line in (data / "docstrings.jsonl").read_text().splitlines()]
    return [(row["label"], [("text", row["text"].encode().hex())]) for row in rows]


def arrays(data: Path) -> Rows:
    """Returns the rows of the arrays: label and pixels."""
    with np.load(io.BytesIO((data / "digits.npz").read_bytes())) as loaded:
        return [(str(y), [("pixels", plain(x))]) for x, y in zip(loaded["pixels"], loaded["label"], strict=True)]


def table(data: Path) -> Rows:
    """Returns the rows of the table; three columns are not numbers."""
    with (data / "tumours.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [(row.pop(LABEL), sorted((column, cell(column, value)) for column, value in row.items())) for row in rows]


def cell(column: str, value: str) -> str:
    """Returns a cell as comparable text."""
    if not value:
        return "missing"
    if column == "symmetric":
        return {"true": "1", "false": "0"}[value]
    return value.encode().hex() if column in {"size", "entered"} else plain(float(value))


def questions(data: Path) -> Rows:
    """Returns the rows of the JSON Lines file, with the content of their images."""
    rows = [json.loads(line) for line in (data / "questions.jsonl").read_text().splitlines()]
    return [
        (
            row["label"],
            [
                ("image", (data / row["image"]).read_bytes().hex()),
                ("ink", plain(row["ink"])),
                ("number", str(row["number"])),
                ("question", row["question"].encode().hex()),
            ],
        )
        for row in rows
    ]


RAW: dict[str, Callable[[Path], Rows]] = {
    "image": images,
    "text": docstrings,
    "tensor": arrays,
    "tabular": table,
    "multimodal": questions,
}
