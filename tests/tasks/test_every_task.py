"""What every task must hold, on the first records of its sample: one suite, no task is special.

    raw files ─► ingest ─► Transform's fit ─► Trainer's run_fn ─► SavedModel

All of it is the code of the nodes, with what `build.py` hands to them; each task goes through it once.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
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
from components.fitting.fitted import Fitted
from components.ingest import run
from components.ingest.survey import survey
from components.ingest.work.units import Output
from components.input_pipeline import Position, Reader, RecordFile, artifacts
from components.input_pipeline.artifacts import ColumnFeature
from components.models.heads import Classification
from components.records import manifest, roles
from components.settings.input import Input
from components.settings.transform import Transform
from components.storage.hashing import HashCache
from components.tasks import NAMES, assign
from components.tasks import parts as shipped
from components.training import trainer
from data.__main__ import generators
from pipelines import config as run_config
from pipelines.orchestration import build
from pipelines.orchestration import schema as curated

RECORDS = 150  # of the raw files
FEW = 16
WAYS = {
    "threads": ("--direct_num_workers=2", "--direct_running_mode=multi_threading"),
    "processes": ("--direct_num_workers=2", "--direct_running_mode=multi_processing"),
}
LABEL = "label"
Rows = list[tuple[str, list[tuple[str, str]]]]


@dataclass(frozen=True)
class Made:
    """A task's data on its way to a served model."""

    home: Path
    config: run_config.RunConfig
    table: survey.Table | None
    fitting: dict[str, Any]  # what build hands to Transform
    custom: Mapping[str, Any]  # and to the trainer

    @property
    def examples(self) -> Path:
        """What ingest wrote."""
        return self.home / "examples"

    @cached_property
    def schema(self) -> Any:
        """The schema in force."""
        return text_format.Parse(self.config.schema_in_force.read_bytes(), schema_pb2.Schema())

    @cached_property
    def files(self) -> list[RecordFile]:
        """All shards of all splits."""
        return [RecordFile(self.examples / s.name, s.records, s.bytes) for s in manifest.read(self.examples).shards]

    @cached_property
    def records(self) -> list[bytes]:
        """All records, serialized, in the order in which a reader takes them."""
        own, found = self.reader.record_id, tf.data.TFRecordDataset([str(file.path) for file in self.files])
        by_id = {_id_of(record, own): record for record in found.as_numpy_iterator()}
        values, _ = next(iter(replace(self.reader, features={own: ColumnFeature("int64")}).evaluation(self.files)))
        return [by_id[number] for number in values[own].numpy()]

    @cached_property
    def fitted(self) -> Fitted:
        """What Transform fitted."""
        return self.fitted_in("graph")

    def fitted_in(self, folder: str) -> Fitted:
        """Returns what it fitted into a folder."""
        return Fitted(str(self.home / folder), Transform.model_validate(self.custom["transform"]))

    @cached_property
    def raw(self) -> dict[str, Any]:
        """All columns of all records, as the schema in force reads them."""
        return dict(tf.io.parse_example(self.records, schema_utils.schema_as_feature_spec(self.schema).feature_spec))

    @cached_property
    def reader(self) -> Reader:
        """The trainer's reader; of more records than there are in a batch."""
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
        """All columns that the features stand in, parsed."""
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
        """Returns a model as the trainer builds it, with weights of its own."""
        keras.utils.set_random_seed(3)
        inputs = modalities.keras_inputs(self.reader.features)
        encodings = assign.encodings(assign.read(self.custom["parts"]), inputs, self.fitted)
        return refs.load(self.custom["model"])(inputs, encodings, Classification(len(self.fitted.classes())))

    def with_batch(self, size: int, **settings: Any) -> Reader:
        """Returns the reader with other settings."""
        return replace(self.reader, settings=self.reader.settings.model_copy(update={"batch_size": size, **settings}))


def _id_of(record: bytes, column: str) -> int:
    return int(tf.train.Example.FromString(record).features.feature[column].int64_list.value[0])


def make(name: str, home: Path) -> Made:
    """Takes the first records of a sample through the chain."""
    data = home / "data"
    generators()[name].main(["--out", str(data), "--limit", str(RECORDS)])
    config = run_config.make(
        name,
        data=str(data),
        root=str(home / "root"),
        # With moments there is more that could differ.
        flags=["train.epochs=1", "gate.min_per_class=0", "transform.tensor_zscore=element"],
    )
    config.notes.mkdir(parents=True)
    found = survey.take(config.data, config.settings.ingest, HashCache(None), config.needs)
    schema = curated.find(config, found)
    curated.bring_into_force(config, schema)
    ingest(config, found, home / "examples")
    nodes = {node.id: node for node in build.build(config, curated.in_force(config, schema)).components}
    told = {node: orjson.loads(nodes[node].exec_properties["custom_config"]) for node in ("Transform", "Trainer")}
    made = Made(home, config, found.table, told["Transform"], told["Trainer"])
    fit({name: made}, "graph")
    train(made)
    return made


def ingest(config: run_config.RunConfig, found: survey.Survey, artifact: Path, *beam_args: str) -> None:
    """Writes records, as the ingest node does."""
    artifact.mkdir()
    job = run.Job(found, Output(artifact, config.settings.ingest), artifact.with_suffix(".quarantine"))
    run.run(job, lambda: beam.Pipeline(options=PipelineOptions(list(beam_args))), lambda: found)


def fit(wanted: Mapping[str, Made], folder: str, *beam_args: str) -> None:
    """Fits on the train splits, as Transform does: columns as the schemas in force read them."""
    with beam.Pipeline(options=PipelineOptions(list(beam_args))) as pipeline:
        for name, made in wanted.items():
            shards = [str(made.examples / shard.name) for shard in manifest.read(made.examples).shards_of("train")]
            columns = [LABEL, *(column["name"] for _, columns in made.fitting["parts"] for column in columns)]
            source = tf_example_record.TFExampleRecord(shards, schema=made.schema).Project(columns)
            preprocess = partial(preprocessing.preprocessing_fn, custom_config=made.fitting)
            with tft_beam.Context(temp_dir=str(made.home / f"{folder}-temporary")):
                read = pipeline | f"read {name}" >> source.BeamSource(), source.TensorAdapterConfig()
                fitted = read | f"fit {name}" >> tft_beam.AnalyzeDataset(preprocess)
                _ = fitted | f"write {name}" >> tft_beam.WriteTransformFn(str(made.home / folder))


def train(made: Made, out: str = "", graph: str = "graph") -> None:
    """Trains for an epoch and exports, as the Trainer does."""
    trainer.run_fn(
        FnArgs(
            train_files=[str(made.examples / "Split-train" / "*")],
            eval_files=[str(made.examples / "Split-eval" / "*")],
            transform_graph_path=str(made.home / graph),
            serving_model_dir=str(made.home / out / "model"),
            model_run_dir=str(made.home / out / "run"),
            custom_config=dict(made.custom),
        )
    )


@pytest.fixture(scope="module")
def makers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Makes each task once."""
    known: dict[str, Made] = {}

    def get(name: str) -> Made:
        if name not in known:
            known[name] = make(name, tmp_path_factory.mktemp(name))
        return known[name]

    return get


@pytest.fixture
def made(makers: Callable[[str], Made], name: str) -> Made:
    """The task of a test."""
    return makers(name)


@pytest.fixture(scope="module")
def refitted(makers: Callable[[str], Made]) -> Callable[[str], str]:
    """Fits all tasks in one of WAYS, once: starting the workers is what takes time. Gives the folder of the graphs."""

    @cache
    def get(way: str) -> str:
        fit({name: makers(name) for name in NAMES}, way, *WAYS[way])
        return way

    return get


every_task = pytest.mark.parametrize("name", NAMES)


def having(part: tasks.Part) -> Any:
    """Marks tests for all tasks with a part."""
    return pytest.mark.parametrize("name", [name for name in NAMES if part in tasks.get(name).parts])


class TestRecords:
    """Raw files to records."""

    @every_task
    def test_what_was_in_the_raw_files_comes_out_of_the_records(self, made: Made, name: str) -> None:
        """Every record, every column, by the task's own features; gaps are gaps."""
        found = [
            (label, sorted((column, plain(values[place])) for column, values in stored(made).items()))
            for place, label in enumerate(made.labels)
        ]

        assert sorted(found) == sorted(RAW[name](Path(made.config.data)))

    @every_task
    def test_the_shipped_schema_is_what_ingest_infers(self, made: Made, name: str) -> None:
        """Names, types, and dtype and shape of arrays; so the sample is held against it."""
        shipped_one = (run_config.HOME / tasks.get(name).schema).read_bytes()

        assert curated.find(made.config, survey_of(made)).file == run_config.HOME / tasks.get(name).schema
        if made.table is not None:  # class folders have no columns to infer
            assert curated._columns(shipped_one) == curated._columns(curated._inferred(made.table))

    @every_task
    def test_records_are_as_the_schema_says(self, made: Made, name: str) -> None:
        """No column but those, each of its type, and all that must be there."""
        kinds = {schema_pb2.BYTES: "bytes_list", schema_pb2.INT: "int64_list", schema_pb2.FLOAT: "float_list"}
        known = {feature.name: kinds[feature.type] for feature in made.schema.feature}
        always = {feature.name for feature in made.schema.feature if feature.HasField("shape")}
        for record in made.records:
            held = tf.train.Example.FromString(record).features.feature
            assert {
                key: value.WhichOneof("kind") for key, value in held.items() if value.WhichOneof("kind")
            }.items() <= (known.items())
            assert always <= {key for key, value in held.items() if getattr(value, known[key]).value}, name

    @every_task
    def test_records_are_the_same_bytes_on_two_workers(self, made: Made, tmp_path: Path, name: str) -> None:
        """D2: shards, splits and order."""
        ingest(made.config, survey_of(made), tmp_path / "again", *WAYS["threads"])

        def shards(folder: Path) -> dict[str, bytes]:
            return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("Split-*/*")}

        assert shards(tmp_path / "again") == shards(made.examples), name


class TestFitting:
    """Records to Transform's graph."""

    @every_task
    @pytest.mark.parametrize("way", WAYS)
    def test_every_runner_fits_the_same(self, made: Made, refitted: Callable[[str], str], name: str, way: str) -> None:
        """D2: vocabularies by their bytes, and all that the graph makes of the records, bit by bit."""
        folder = refitted(way)
        once, again = (applied(made.fitted_in(each), made.raw) for each in ("graph", folder))

        assert assets(made.home / folder) == assets(made.home / "graph")
        assert again.keys() == once.keys()
        assert [key for key in once if not np.array_equal(once[key], again[key])] == [], name


class TestTraining:
    """Records to weights."""

    @every_task
    def test_every_weight_learns_and_a_few_records_are_learned_by_heart(self, made: Made, name: str) -> None:
        """One step changes each weight, so no part is cut off; sixteen records are then known without a mistake."""
        values, labels = next(iter(made.with_batch(FEW).evaluation(made.files)))
        model, head = made.model(), Classification(len(made.fitted.classes()))
        model.compile(keras.optimizers.Adam(3e-3), head.loss(), metrics=head.metrics(), jit_compile=False)
        before = {weight.path: weight.numpy() for weight in model.trainable_weights}
        first = model.evaluate(values, labels, verbose=0, return_dict=True)["loss"]
        model.train_on_batch(values, labels)
        unmoved = [w.path for w in model.trainable_weights if np.array_equal(w.numpy(), before[w.path])]
        for _ in range(60):
            model.train_on_batch(values, labels)
        last = model.evaluate(values, labels, verbose=0, return_dict=True)

        assert unmoved == [], name
        assert last["accuracy"] == 1.0
        assert last["loss"] < first / 2

    @every_task
    def test_training_goes_on_exactly_where_it_stopped(self, made: Made, name: str) -> None:
        """B3: from a position in the midst of an epoch, the batches are those that would have come, bit by bit."""
        reader = made.with_batch(FEW)
        whole = list(islice(batches(reader.training(made.files)), 14))
        steps = reader.steps(made.files)
        gone_on = list(islice(batches(reader.training(made.files, Position(0, 5))), 9))

        assert 5 < steps < 14, name  # an epoch ends in between
        assert gone_on == whole[5:]

    @every_task
    def test_one_seed_gives_equal_weights(self, made: Made, refitted: Callable[[str], str], name: str) -> None:
        """D2: a second training ends with the same model, bit by bit, though others have fitted for it."""
        train(made, "again", refitted("processes"))
        first, second = (weights(made.home / out / "model") for out in ("", "again"))

        assert first.keys() == second.keys()
        assert [key for key in first if not np.array_equal(first[key], second[key])] == [], name

    @every_task
    def test_a_label_that_was_not_seen_stops_the_reader(self, made: Made, tmp_path: Path, name: str) -> None:
        """A8: it never becomes -1."""
        record = tf.train.Example.FromString(made.records[0])
        record.features.feature[LABEL].bytes_list.value[0] = b"never seen"
        with tf.io.TFRecordWriter(str(tmp_path / "records")) as writer:
            writer.write(record.SerializeToString())
        file = RecordFile(tmp_path / "records", 1, (tmp_path / "records").stat().st_size)

        with pytest.raises(tf.errors.InvalidArgumentError, match="label"):
            list(made.reader.evaluation([file]))
        assert "never seen" not in made.fitted.classes(), name


class TestServing:
    """D1: the exported model answers as the trained one does."""

    @every_task
    def test_the_export_agrees_with_training(self, made: Made, name: str) -> None:
        """All records by training's path, as serialized examples, and as values that a client has."""
        values, _ = next(iter(made.reader.evaluation(made.files)))
        model = made.model()
        model.load_weights(str(made.home / "run" / "best.weights.h5"))
        expected = model(values, training=False).numpy()
        by_examples = made.served.signatures["serving_default"](examples=tf.constant(made.records))
        by_raw = made.served.signatures["raw"](**made.columns)

        assert len(expected) >= RECORDS, name
        np.testing.assert_allclose(by_examples["probabilities"], expected, atol=1e-5)
        np.testing.assert_allclose(by_raw["probabilities"], expected, atol=1e-5)
        assert [n.decode() for n in by_raw["all_classes"][0].numpy()] == made.fitted.classes()

    @every_task
    def test_a_record_alone_is_answered_as_in_a_batch(self, made: Made, name: str) -> None:
        """Neighbours, and how far they make texts be padded, do not matter."""
        together = made.served.signatures["raw"](**made.columns)["probabilities"].numpy()
        for place in range(3):
            alone = made.served.signatures["raw"](**{key: v[place : place + 1] for key, v in made.columns.items()})
            np.testing.assert_allclose(alone["probabilities"][0], together[place], atol=1e-5, err_msg=name)

    @having(shipped.TABLE)
    def test_numbers_that_are_none_are_answered(self, made: Made, name: str) -> None:
        """A9: not a number, infinite, the largest, and none at all; the answer is probabilities all the same."""
        odd = {
            "float32": [np.nan, np.inf, -np.inf, 3e38, -3e38],
            "int64": [roles.MISSING["int64"], 2**63 - 1, 0, -1, 1],
        }
        given = {
            key: tf.constant(odd[values.dtype.name], values.dtype) if values.dtype.name in odd else values[:5]
            for key, values in made.columns.items()
        }
        found = made.served.signatures["raw"](**given)["probabilities"].numpy()

        np.testing.assert_allclose(found.sum(axis=1), np.ones(5), rtol=1e-5, err_msg=name)

    @having(shipped.TEXT)
    def test_texts_of_every_kind_are_answered_alike(self, made: Made, name: str) -> None:
        """A10: as an example and as a value, alone and together: the same answer, whatever is in the text."""
        (column,) = (c.name for c in roles.read(made.schema, LABEL).of(["text"]))
        given = {key: tf.repeat(values[:1], len(ODD_TEXTS), axis=0) for key, values in made.columns.items()}
        given[column] = tf.constant(ODD_TEXTS)
        by_raw = made.served.signatures["raw"](**given)["probabilities"].numpy()
        examples = [with_text(made.records[0], column, each) for each in ODD_TEXTS]
        by_examples = made.served.signatures["serving_default"](examples=tf.constant(examples))["probabilities"]

        np.testing.assert_allclose(by_examples, by_raw, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(by_raw.sum(axis=1), np.ones(len(ODD_TEXTS)), rtol=1e-5)

    @having(shipped.TEXT)
    def test_a_text_of_millions_of_words_is_answered_by_its_beginning(self, made: Made, name: str) -> None:
        """A11: no more of it is looked at than the settings say."""
        (column,) = (c.name for c in roles.read(made.schema, LABEL).of(["text"]))
        limit = made.reader.settings.max_tokens
        words = " ".join(["is it a value of the number"] * limit).split()
        given = {key: tf.repeat(values[:1], 2, axis=0) for key, values in made.columns.items()}
        given[column] = tf.constant([" ".join(words[:limit]), " ".join(words[:limit]) + " odd" * 5_000_000])
        short, long = made.served.signatures["raw"](**given)["probabilities"].numpy()

        np.testing.assert_allclose(long, short, atol=1e-5, err_msg=name)


ODD_TEXTS = [
    b"", b" \t\n", b"...", "naïve café".encode(), "nai\u0308ve".encode(), "🐈 cat 🐈".encode(), b"left\0right",
    b"not \xff\xfe text", "שלום עולם".encode(), b"line\r\nbreak", "猫".encode() * 700,
    "word\u3000word\u2028word".encode(),
]  # fmt: skip


def with_text(record: bytes, column: str, text: bytes) -> bytes:
    """Returns a record with another text."""
    made = tf.train.Example.FromString(record)
    made.features.feature[column].bytes_list.value[0] = text
    return bytes(made.SerializeToString())


def assets(graph: Path) -> dict[str, bytes]:
    """Returns the vocabularies of a fitted graph by name."""
    return {path.name: path.read_bytes() for path in (graph / "transform_fn" / "assets").iterdir()}


def applied(fitted: Fitted, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a fitted graph makes of columns, texts of any length as their numbers in a row."""
    found = fitted.apply(columns)
    return {key: getattr(value, "flat_values", value).numpy() for key, value in found.items()}


def weights(model: Path) -> dict[str, Any]:
    """Returns every variable of an exported model by name."""
    reader = tf.train.load_checkpoint(str(model / "variables" / "variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name}


def survey_of(made: Made) -> survey.Survey:
    """Looks at the data once more."""
    return survey.take(made.config.data, made.config.settings.ingest, HashCache(None), made.config.needs)


def batches(data: Any) -> Iterator[list[bytes]]:
    """Yields batches as bytes that can be compared, with their shapes."""
    for values, labels in data.as_numpy_iterator():
        yield [
            part
            for value in (*(values[key] for key in sorted(values)), labels)
            for part in (str(value.shape).encode(), value.tobytes())
        ]


def stored(made: Made) -> dict[str, Any]:
    """Returns the columns of the features as they come out of records: arrays decoded, all else as it stands."""
    arrays = {c.name for c in roles.read(made.schema, LABEL).of(["tensor"])}
    return {
        key: (made.reader.features[key].decode(values) if key in arrays else values).numpy()
        for key, values in made.columns.items()
    }


def plain(value: Any) -> str:
    """Returns a value as text that can be compared; what is missing is "missing"."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.tolist()}"
    if isinstance(value, bytes):
        return value.hex() or "missing"
    if np.isnan(value) or value == roles.MISSING["int64"]:
        return "missing"
    return f"{np.float32(value)}" if isinstance(value, float | np.floating) else str(int(value))


def images(data: Path) -> Rows:
    """Returns images in class folders: their folder and their bytes."""
    return [(path.parent.name, [("image", path.read_bytes().hex())]) for path in data.glob("*/*")]


def docstrings(data: Path) -> Rows:
    """Returns lines of JSON: a text and a label."""
    rows = [json.loads(line) for line in (data / "docstrings.jsonl").read_text().splitlines()]
    return [(row["label"], [("text", row["text"].encode().hex())]) for row in rows]


def arrays(data: Path) -> Rows:
    """Returns arrays of an archive, row by row."""
    with np.load(io.BytesIO((data / "digits.npz").read_bytes())) as held:
        return [(str(y), [("pixels", plain(x))]) for x, y in zip(held["pixels"], held["label"], strict=True)]


def table(data: Path) -> Rows:
    """Returns cells of a table; three columns are no numbers."""
    with (data / "tumours.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [(row.pop(LABEL), sorted((column, cell(column, value)) for column, value in row.items())) for row in rows]


def cell(column: str, value: str) -> str:
    """Returns a cell as a record has it."""
    if not value:
        return "missing"
    if column == "symmetric":
        return {"true": "1", "false": "0"}[value]
    return value.encode().hex() if column in {"size", "entered"} else plain(float(value))


def questions(data: Path) -> Rows:
    """Returns lines of JSON with the images that they name."""
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
