"""The Trainer's run_fn on real shards and a real Transform graph, intact and damaged.

The images of the eval split have wrong labels: validation loss rises as the model learns, so the best epoch is not the
last one, and a test can see that its weights are kept.
"""

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import orjson
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image
from tensorflow_transform import impl_helper
from tensorflow_transform.tf_metadata import schema_utils
from tfx.components.trainer.fn_args_utils import FnArgs

from components import progress
from components.errors import BadInput, Cancelled, NotFinite, PenstockError
from components.fitting import preprocessing
from components.fitting.analysis import trace
from components.fitting.analysis.shards import ShardAnalyzer
from components.ingest.close import manifest as closing
from components.ingest.sources.image_folder import SOURCE
from components.ingest.survey import listing
from components.ingest.survey.listed_files import ListedFiles
from components.ingest.write.files import UnitReader, write_unit
from components.ingest.write.shards import PlainSplits, numbered
from components.models import joined
from components.progress import Progress
from components.records import manifest
from components.records.manifest import Shard
from components.records.roles import Column, Layout
from components.settings.ingest import Ingest
from components.settings.input import Input
from components.settings.train import Train
from components.storage.hashing import HashCache
from components.tasks import assign, get
from components.training import trainer
from components.training.hardware import precision

pytestmark = pytest.mark.slow

COUNTS = {"train": 40, "eval": 10}
EPOCHS = 4
GRAYS = {"bright": 200, "dark": 50}
OPPOSITE = {"bright": "dark", "dark": "bright"}
Weights = dict[str, Any]


def write_images(data: Path) -> None:
    """Writes noisy images of two grays; those of the eval split go to the other class's folder."""
    random = np.random.default_rng(1)
    for split, count in COUNTS.items():
        for number in range(count):
            shown = sorted(GRAYS)[number % 2]
            folder = data / (OPPOSITE[shown] if split == "eval" else shown)
            folder.mkdir(parents=True, exist_ok=True)
            pixels = random.normal(GRAYS[shown], 20, (12, 12)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{split}-{number:02d}.png")


def ingest(data: Path, examples: Path) -> None:
    """Writes two shards per split, and the manifest, as the Ingest node does."""
    found = listing.take(SOURCE, data, HashCache(None))
    reports = []
    for split in COUNTS:
        files = ListedFiles(item for item in found.files if f"/{split}-" in item.file.path)
        settings = Ingest().model_copy(update={"splits": PlainSplits(((split, 1.0),), "", stratify=False)})
        for index in range(2):
            mine = files.every(index, 2)
            reader = UnitReader(mine, range(len(mine)), SOURCE, data, settings)
            reports += write_unit(reader, numbered(index, 2), examples)
    manifest.write(examples, *closing.build(found, reports))


def fit_labels(folder: Path) -> None:
    """Fits the label vocabulary on three records, as Transform does."""
    custom = {"label": "label", "kind": "class", "parts": [], "settings": {}}
    spec = {"label": tf.io.FixedLenFeature([], tf.string)}
    file, results = folder / "labels", folder / "results"
    with tf.io.TFRecordWriter(str(file)) as writer:
        for label in (b"bright", b"bright", b"dark"):
            feature = {"label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[label]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    schema = text_format.MessageToString(schema_utils.schema_from_feature_spec(spec))
    analyzer = ShardAnalyzer(schema, partial(preprocessing.fit_all, custom_config=custom))
    counted = analyzer.start()
    analyzer.add(folder, [Shard("train", file.name, 3, file.stat().st_size, "")], counted)
    trace.write(results, analyzer.analyses, counted)
    with_results = {**custom, preprocessing.RESULTS: str(results)}
    preprocess = partial(preprocessing.preprocessing_fn, custom_config=with_results)
    types = {"label": tf.TensorSpec([None], tf.string)}
    impl_helper.analyze_in_place(preprocess, False, spec, types, str(folder / "graph"))


def arguments(home: Path, out: Path, batch_size: int = 16, **train: Any) -> FnArgs:
    """Returns the arguments that TFX passes to run_fn."""
    task = get("image")
    layout = Layout("label", "class", (Column("image", "image", "string"),))
    return FnArgs(
        train_files=[str(home / "examples" / "Split-train" / "*")],
        eval_files=[str(home / "examples" / "Split-eval" / "*")],
        transform_graph_path=str(home / "graph"),
        serving_model_dir=str(out / "model"),
        model_run_dir=str(out / "run"),
        custom_config={
            "parts": [each.to_dict() for each in assign.assign(task.parts, layout)],
            "label": task.label,
            "kind": layout.kind,
            "model": task.model,
            "transform": {},
            "extract": {},
            "input": Input(batch_size=batch_size).model_dump(mode="json"),
            "train": Train(**{"epochs": EPOCHS, "steps_per_call": 1, **train}).model_dump(mode="json"),
            "checkpoints": str(out / "checkpoints"),
        },
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards and Transform graph; tests must not change them."""
    folder = tmp_path_factory.mktemp("trainer")
    write_images(folder / "data")
    ingest(folder / "data", folder / "examples")
    fit_labels(folder)
    return folder


@pytest.fixture(scope="module")
def run(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Progress]]:
    """The outputs of one run, and its progress reports."""
    reports: list[Progress] = []
    out = tmp_path_factory.mktemp("run")
    progress.listen(reports.append, print)
    try:
        trainer.run_fn(arguments(home, out))
    finally:
        progress._listeners.clear()
        progress._say.clear()
    return out, reports


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(home, tmp_path / "home"))


def history(out: Path) -> Any:
    """Returns the history of a run."""
    return orjson.loads((out / "run" / "history.json").read_bytes())


def scalars(out: Path, split: str) -> dict[str, dict[int, float]]:
    """Returns the TensorBoard values of a split by name and step; a step that was written twice fails."""
    found: dict[str, dict[int, float]] = {}
    for log in (out / "run" / "tensorboard" / split).glob("events.out.tfevents.*"):
        for content in tf.data.TFRecordDataset(str(log)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(content)
            for value in event.summary.value:
                steps = found.setdefault(value.tag, {})
                assert event.step not in steps, (value.tag, event.step)
                steps[event.step] = float(tf.make_ndarray(value.tensor))
    return found


def records(home: Path, split: str) -> Iterator[bytes]:
    """Yields the serialized records of a split."""
    for shard in manifest.read(home / "examples").shards_of(split):
        yield from tf.data.TFRecordDataset(str(home / "examples" / shard.name)).as_numpy_iterator()


class TestRun:
    """A run on good data."""

    def test_every_epoch_saw_every_record(self, run: tuple[Path, list[Progress]]) -> None:
        """The ledger's line of the Trainer, for both splits."""
        epochs = history(run[0])["epochs"]

        assert (epochs["records"], epochs["val_records"]) == ([40] * EPOCHS, [10] * EPOCHS)

    def test_the_history_has_one_value_per_epoch(self, run: tuple[Path, list[Progress]]) -> None:
        """Of loss, accuracy and records, for both splits."""
        names = {f"{split}{name}" for split in ("", "val_") for name in ("loss", "accuracy", "records")}

        assert {name: len(values) for name, values in history(run[0])["epochs"].items()} == dict.fromkeys(names, EPOCHS)

    def test_the_batch_size_is_in_the_history(self, run: tuple[Path, list[Progress]]) -> None:
        """With the part of a device and the effective one, and so are the devices."""
        batch = {"size": 16, "replica": 16, "scale": 1, "accumulate": 1, "effective": 16, "chosen": False}

        assert history(run[0])["batch"] == batch
        assert history(run[0])["devices"] == {"names": ["CPU:0"], "workers": 1, "replicas": 1}

    @pytest.mark.all
    def test_two_devices_train_in_a_process_of_their_own(self, home: Path, tmp_path: Path) -> None:
        """Its history and weights come back, its progress and messages are passed on, and the model is exported."""
        reports: list[Progress] = []
        messages: list[str] = []
        progress.listen(reports.append, messages.append)
        try:
            trainer.run_fn(arguments(home, tmp_path, epochs=1, devices="cpu:2"))
        finally:
            progress._listeners.clear()
            progress._say.clear()

        assert history(tmp_path)["epochs"]["records"] == [40]
        assert history(tmp_path)["devices"] == {"names": ["CPU:0", "CPU:1"], "workers": 1, "replicas": 2}
        assert messages == ["Trainer: 2 devices (CPU:0, CPU:1); batches of 16, 8 per device"]
        assert reports[-1].done == 40
        assert (tmp_path / "model" / "saved_model.pb").exists()

    def test_the_best_epoch_has_the_lowest_validation_loss(self, run: tuple[Path, list[Progress]]) -> None:
        """Here it is not the last epoch."""
        losses = history(run[0])["epochs"]["val_loss"]

        assert history(run[0])["best_epoch"] == losses.index(min(losses)) < EPOCHS - 1

    def test_the_weights_of_the_best_epoch_are_exported(self, home: Path, run: tuple[Path, list[Progress]]) -> None:
        """On the eval split, the served model has the loss of that epoch."""
        served = tf.saved_model.load(str(run[0] / "model")).signatures["serving_default"]
        serialized = list(records(home, "eval"))
        answer = served(examples=tf.constant(serialized))
        names = [name.decode() for name in answer["all_classes"].numpy()[0]]
        labels = [tf.train.Example.FromString(r).features.feature["label"].bytes_list.value[0] for r in serialized]
        rows = answer["probabilities"].numpy()
        loss = -np.log([row[names.index(label.decode())] for row, label in zip(rows, labels, strict=True)]).mean()

        losses = history(run[0])["epochs"]["val_loss"]
        assert loss == pytest.approx(min(losses), rel=1e-4)
        assert loss < 0.9 * losses[-1]

    def test_classes_are_those_of_the_vocabulary(self, home: Path, run: tuple[Path, list[Progress]]) -> None:
        """In the order of the vocabulary."""
        served = tf.saved_model.load(str(run[0] / "model")).signatures["serving_default"]
        (row,) = served(examples=tf.constant([next(records(home, "train"))]))["all_classes"].numpy()

        assert [name.decode() for name in row] == ["bright", "dark"]

    def test_tensorboard_has_the_values_of_every_epoch(self, run: tuple[Path, list[Progress]]) -> None:
        """One log per split; of training also learning rate, samples per second and the share of waiting."""
        stored = history(run[0])
        rates, shares = stored["input"]["records_per_second"], stored["input"]["waited"]
        waiting = [waited / seconds for waited, seconds in zip(shares, stored["input"]["seconds"], strict=True)]
        names = {f"epoch_{name}": stored["epochs"][name] for name in ("loss", "accuracy")}
        measured = {"learning_rate": stored["learning_rate"], "samples_per_second": rates, "waiting": waiting}

        assert scalars(run[0], "train") == {
            name: pytest.approx(dict(enumerate(values)))
            for name, values in {**names, **{f"epoch_{name}": each for name, each in measured.items()}}.items()
        }
        assert scalars(run[0], "validation") == {
            name: pytest.approx(dict(enumerate(stored["epochs"][name.replace("epoch", "val")]))) for name in names
        }

    def test_progress_ends_at_all_records_of_all_epochs(self, run: tuple[Path, list[Progress]]) -> None:
        """It names epoch and step, in the evaluation too."""
        shown = [(each.done, each.place) for each in run[1]]
        steps = ["step 1/3", "step 2/3", "step 3/3", "evaluation 1/1"]

        assert shown == [
            (40 * epoch + done, f"epoch {epoch + 1}/4  {step}")
            for epoch in range(EPOCHS)
            for done, step in zip([16, 32, 40, 40], steps, strict=True)
        ]
        assert {each.total for each in run[1]} == {160}

    @pytest.mark.all
    def test_a_resume_is_announced_once_and_continues_everything(
        self, home: Path, run: tuple[Path, list[Progress]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """B2: SIGTERM in the second epoch; then history and TensorBoard are those of a run without it."""

        def interrupt(reported: Progress) -> None:
            if reported.place == "epoch 2/4  step 2/3":
                signal.raise_signal(signal.SIGTERM)

        said: list[str] = []
        monkeypatch.setattr(progress, "_say", [said.append])
        monkeypatch.setattr(progress, "_listeners", [interrupt])
        with pytest.raises(Cancelled):
            trainer.run_fn(arguments(home, tmp_path))
        shutil.rmtree(tmp_path / "run")  # as TFX does with the outputs of a failed node
        monkeypatch.setattr(progress, "_listeners", [])
        trainer.run_fn(arguments(home, tmp_path))
        (resumed,) = history(tmp_path)["resumed"]

        assert re.fullmatch(r"resumed at epoch 2, step 2 \(stopped by SIGTERM at \d\d:\d\d:\d\d\)", resumed["note"])
        assert said == [f"Trainer: {resumed['note']}"]
        assert {**learned(tmp_path), "resumed": []} == learned(run[0])
        for split in ("train", "validation"):
            shown, straight = scalars(tmp_path, split), scalars(run[0], split)
            assert {name: [*values] for name, values in shown.items()} == {name: [0, 1, 2, 3] for name in straight}
            assert shown["epoch_loss"] == straight["epoch_loss"]


@pytest.mark.all
@pytest.mark.usefixtures("fragile_model")
def test_mixed_precision_and_xla_train_a_model_that_is_exported_in_float32(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of the exported model are those of its weights in float32; here float16, with a scaled loss."""
    monkeypatch.setattr(precision, "policy", lambda _: "mixed_float16")
    trainer.run_fn(arguments(home, tmp_path, epochs=1, precision="mixed", xla=True))
    served = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    found = served(examples=tf.constant(list(records(home, "eval"))))["probabilities"].numpy()
    halves = sum("DT_HALF" in str(function) for function in served.graph.as_graph_def().library.function)

    assert history(tmp_path)["precision"] == "mixed_float16"
    assert (found.dtype, halves) == (np.float32, 0)
    assert keras.config.dtype_policy().name == "float32"


def learned(out: Path) -> dict[str, Any]:
    """Returns the history without measured times."""
    return {key: value for key, value in history(out).items() if key not in ("input", "memory", "steps_per_call")}


@pytest.fixture
def fragile_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the model by a small one without normalization, which would hide extreme values."""

    def build(inputs: dict[str, Any], encodings: Any, head: Any) -> Any:
        del encodings
        x = keras.layers.Flatten()(inputs["image"])
        for _ in range(3):
            x = keras.layers.Dense(4)(x)
        x = keras.layers.Activation("linear", name="features")(x)
        return keras.Model(inputs, head.output(x))

    monkeypatch.setattr(joined, "build", build)


def flip(shard: Path) -> None:
    """Flips one bit in the middle."""
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)


def cut(shard: Path) -> None:
    """Removes the last record as a whole: TensorFlow would read the rest without an error."""
    kept = list(tf.data.TFRecordDataset(str(shard)).as_numpy_iterator())[:-1]
    with tf.io.TFRecordWriter(str(shard)) as writer:
        for record in kept:
            writer.write(record)


def append(shard: Path) -> None:
    """Appends all records once more."""
    shard.write_bytes(shard.read_bytes() * 2)


class TestFaults:
    """Damaged shards are not trained on; failed models are not exported."""

    @pytest.mark.parametrize("split", ["train", "eval"])
    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            (flip, "the checksum of a record does not match its data at byte offset "),
            (cut, ""),
            (append, ""),
            (Path.unlink, ""),
        ],
        ids=["flipped", "cut", "appended", "deleted"],
    )
    def test_an_altered_shard_stops_the_run(
        self, own_home: Path, tmp_path: Path, fault: Callable[[Path], None], reason: str, split: str
    ) -> None:
        """A1, A2: the manifest shows it before training starts."""
        shard = own_home / "examples" / f"Split-{split}" / "data_tfrecord-00001-of-00002"
        fault(shard)

        with pytest.raises(BadInput) as error:
            trainer.run_fn(arguments(own_home, tmp_path / "out"))

        assert str(error.value).startswith(f"{shard}: {reason}")
        assert "run again with --force Ingest" in str(error.value)
        assert not (tmp_path / "out").exists()

    @pytest.mark.usefixtures("fragile_model")
    @pytest.mark.parametrize(
        "batch_size",
        [pytest.param(16, id="within an epoch"), pytest.param(40, id="in the last step", marks=pytest.mark.all)],
    )
    def test_a_loss_that_is_not_finite_stops_the_run(self, home: Path, tmp_path: Path, batch_size: int) -> None:
        """A9: the message gives advice, and no model is exported."""
        hot = arguments(home, tmp_path, batch_size, learning_rate=1e30, epochs=1)

        with pytest.raises(NotFinite, match=r"no model was exported.*Lower train\.learning_rate"):
            trainer.run_fn(hot)

        assert not (tmp_path / "model").exists()

    def test_keras_2_is_rejected(self, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keras 2 would train a different model without an error."""
        monkeypatch.setattr(keras, "__version__", "2.15.0")

        with pytest.raises(PenstockError, match=r"^Keras 2\.15\.0 is active, expected Keras 3"):
            trainer.run_fn(arguments(home, tmp_path))
