"""A few lines return batches of artifacts, TFRecord files, arrays and class folders, for any training loop."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components import input_pipeline
from components.errors import BadInput, SettingsError
from components.features.image import ImageFeature
from components.features.tensor import TensorFeature
from components.input_pipeline import Worker
from components.settings.ingest import Ingest
from pipelines import ingest as ingest_alone

pytestmark = pytest.mark.slow

KINDS = ("bird", "cat", "dog")
EVEN = {"splits": {"train": 0.6, "eval": 0.2, "test": 0.2}}


def ingest(data: Path, out: Path, **settings: Any) -> Path:
    """Ingests data as `penstock ingest` does."""
    ingest_alone.ingest(ingest_alone.IngestRequest(str(data), out, Ingest.model_validate({**EVEN, **settings})))
    return out


def rows(data: tf.data.Dataset) -> list[tuple[dict[str, Any], Any]]:
    """Returns records one by one."""
    return [
        ({key: value[n] for key, value in values.items()}, labels[n])
        for values, labels in data.as_numpy_iterator()
        for n in range(len(labels))
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Class folders of images; red encodes the class, green the number."""
    home = tmp_path_factory.mktemp("folders")
    for number in range(60):
        kind = number % 3
        (home / KINDS[kind]).mkdir(exist_ok=True)
        image = Image.new("RGB", (40, 50), (kind * 100, number, 0))
        image.save(home / KINDS[kind] / f"{number:02d}.{'png' if number % 2 else 'bmp'}")
    return home


@pytest.fixture(scope="module")
def images(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same images, ingested."""
    return ingest(folders, tmp_path_factory.mktemp("images") / "artifact")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with columns of several types, ingested."""
    home = tmp_path_factory.mktemp("table")
    lines = [f"{n},{n / 2},{'' if n % 5 == 0 else f'w{n % 4}'},{KINDS[n % 3]}" for n in range(300)]
    (home / "table.csv").write_text("\n".join(["size,half,word,label", *lines]) + "\n")
    return ingest(home / "table.csv", home / "artifact", label="label")


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays of shape [3, 2], ingested."""
    home = tmp_path_factory.mktemp("arrays")
    spells = np.arange(100, dtype=np.float32)[:, None, None] * np.ones((1, 3, 2), np.float32)
    np.savez(home / "arrays.npz", x=spells, label=np.arange(100) % 7)
    return ingest(home / "arrays.npz", home / "artifact", label="label")


class TestRead:
    """Artifacts of ingest."""

    def test_images_come_with_their_class_indices(self, images: Path) -> None:
        """Indices are in the order of the class names, and a batch holds nothing else."""
        data = input_pipeline.read(images, "test", batch_size=4)
        found = rows(data)

        assert input_pipeline.classes(images) == KINDS
        assert all(set(values) == {"image"} for values, _ in found)
        assert all(values["image"][0, 0, 0] == 100 * label for values, label in found)
        assert data.element_spec[0]["image"] == tf.TensorSpec([None, 40, 40, 3], tf.uint8)

    def test_the_splits_together_hold_every_record(self, images: Path) -> None:
        """Each record once."""
        greens = [
            int(values["image"][0, 0, 1])
            for split in ("train", "eval", "test")
            for values, _ in rows(input_pipeline.read(images, split, augment=False))
        ]

        assert sorted(greens) == list(range(60))

    def test_the_train_split_is_shuffled_in_every_pass(self, images: Path) -> None:
        """Unless `training=False`."""
        data = input_pipeline.read(images, "train", augment=False)
        stored = input_pipeline.read(images, "train", training=False)
        orders = [[int(v["image"][0, 0, 1]) for v, _ in rows(each)] for each in (data, data, stored, stored)]

        assert orders[0] != orders[1]
        assert orders[2] == orders[3]
        assert all(sorted(order) == sorted(orders[0]) for order in orders)

    def test_table_columns_come_by_name(self, table: Path) -> None:
        """A missing string is empty; the id column is left out."""
        data = input_pipeline.read(table, "test")
        found = rows(data)

        assert {key: spec.dtype for key, spec in data.element_spec[0].items()} == {
            "size": tf.int64, "half": tf.float32, "word": tf.string,
        }  # fmt: skip
        for values, label in found:
            n = int(values["size"])
            assert (values["half"], values["word"], label) == (n / 2, b"" if n % 5 == 0 else b"w%d" % (n % 4), n % 3)

    def test_arrays_keep_their_shape(self, arrays: Path) -> None:
        """Shape and type come from the artifact's schema; numeric labels are unchanged."""
        found = rows(input_pipeline.read(arrays, "train"))

        assert {values["x"].shape for values, _ in found} == {(3, 2)}
        assert all((values["x"] == values["x"][0, 0]).all() for values, _ in found)
        assert all(label == values["x"][0, 0] % 7 for values, label in found)

    def test_features_can_be_chosen(self, images: Path) -> None:
        """A batch then holds these features."""
        data = input_pipeline.read(images, "eval", features={"image": ImageFeature(8, normalise="unit")})

        assert data.element_spec[0] == {"image": tf.TensorSpec([None, 8, 8, 3], tf.float32)}

    def test_the_label_is_that_of_the_ingest(self, tmp_path: Path) -> None:
        """Whatever its column is called, it is not an input."""
        lines = "".join(f"{number},{'yes' if number % 2 else 'no'}\n" for number in range(100))
        (tmp_path / "table.csv").write_text("size,churned\n" + lines)
        artifact = ingest(tmp_path / "table.csv", tmp_path / "artifact", label="churned")
        found = rows(input_pipeline.read(artifact, "train"))

        assert all(set(values) == {"size"} and label == values["size"] % 2 for values, label in found)

    def test_without_the_label_column_batches_are_values_alone(self, table: Path) -> None:
        """The column `label` is then a value."""
        values = next(iter(input_pipeline.read(table, "test", label="nothing", batch_size=3)))

        assert {key: value.shape for key, value in values.items()} == dict.fromkeys(
            ["size", "half", "word", "label"], (3,)
        )

    def test_workers_share_the_records(self, table: Path) -> None:
        """Each record is read once."""
        seen = [
            int(values["size"])
            for index in range(3)
            for values, _ in rows(input_pipeline.read(table, "train", worker=Worker(index, 3)))
        ]

        assert sorted(seen) == sorted(int(v["size"]) for v, _ in rows(input_pipeline.read(table, "train")))

    @pytest.mark.slow
    def test_keras_fits_on_the_dataset(self, images: Path) -> None:
        """Its length is known, so Keras knows where an epoch ends."""
        import keras

        image = keras.Input([40, 40, 3], dtype="uint8", name="image")
        scaled = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(image))
        model = keras.Model({"image": image}, keras.layers.Dense(3)(scaled))
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        data = input_pipeline.read(images, "train", batch_size=8)

        assert len(model.fit(data, epochs=2, verbose=0).history["loss"]) == 2

    def test_an_unknown_setting_is_rejected_with_a_suggestion(self, images: Path) -> None:
        """As on the command line."""
        with pytest.raises(SettingsError, match=r"unknown setting 'input\.batchsize': did you mean 'batch_size'"):
            input_pipeline.read(images, "train", batchsize=3)

    def test_a_folder_without_a_manifest_is_rejected(self, tmp_path: Path) -> None:
        """The message says what was expected."""
        with pytest.raises(BadInput, match=r"no manifest\.json; expected an artifact that `penstock ingest`"):
            input_pipeline.read(tmp_path, "train")

    def test_an_unknown_split_is_rejected(self, images: Path) -> None:
        """The message lists the splits."""
        with pytest.raises(BadInput, match="0 records in split 'training'; splits with records: train, eval, test"):
            input_pipeline.read(images, "training")


class TestRecords:
    """TFRecord files of another program."""

    def write(self, path: Path, numbers: range, compression: str | None = None) -> Path:
        """Writes records as tutorials do."""
        with tf.io.TFRecordWriter(str(path), compression) as writer:
            for n in numbers:
                example = tf.train.Example()
                example.features.feature["raw"].bytes_list.value.append(np.full((2, 2), n, "<u2").tobytes())
                example.features.feature["kind"].int64_list.value.append(n % 5)
                writer.write(example.SerializeToString())
        return path

    @pytest.mark.parametrize("training", [True, False])
    def test_records_are_read_by_one_feature_per_column(self, tmp_path: Path, training: bool) -> None:
        """Plain and gzip files together; records are counted first."""
        paths = [
            self.write(tmp_path / "a.tfrecord", range(30)),
            self.write(tmp_path / "b.gz", range(30, 50), "GZIP"),
        ]
        data = input_pipeline.from_records(
            paths, {"raw": TensorFeature((2, 2), "uint16")}, label="kind", training=training, batch_size=8
        )
        found = rows(data)
        numbers = [int(values["raw"][0, 0]) for values, _ in found]

        assert sorted(numbers) == list(range(50))
        assert (numbers == list(range(50))) is not training
        assert all(label == values["raw"][1, 1] % 5 for values, label in found)

    @pytest.mark.slow
    def test_augmentation_needs_no_id_column(self, folders: Path, tmp_path: Path) -> None:
        """A hash of the record is its id: the same in every run, another one for every record."""
        with tf.io.TFRecordWriter(str(tmp_path / "images")) as writer:
            for path in sorted(folders.rglob("*.png")):
                example = tf.train.Example()
                example.features.feature["image"].bytes_list.value.append(path.read_bytes())
                writer.write(example.SerializeToString())
        features = {"image": ImageFeature(32)}
        one, other = (
            [v["image"].numpy() for v in input_pipeline.from_records([tmp_path / "images"], features, batch_size=30)]
            for _ in range(2)
        )
        offsets = {tuple(image[0, 0].astype(int) - image[0, 0, 1]) for image in one[0]}

        np.testing.assert_array_equal(one, other)
        assert len(offsets) > 5

    def test_files_without_records_are_rejected(self, tmp_path: Path) -> None:
        """Training on them would never end."""
        with pytest.raises(BadInput, match="0 records in 1 files"):
            input_pipeline.from_records([self.write(tmp_path / "none", range(0))], {})

    def test_a_file_that_is_not_tfrecord_is_rejected_by_name(self, tmp_path: Path) -> None:
        """Before training starts."""
        (tmp_path / "page.html").write_text("<html>" * 10)

        with pytest.raises(BadInput, match=r"page\.html: the record header at byte offset 0 is damaged"):
            input_pipeline.from_records([tmp_path / "page.html"], {})


class TestArrays:
    """Arrays in memory."""

    @pytest.mark.parametrize("training", [True, False])
    def test_rows_stay_together(self, training: bool) -> None:
        """Every row comes once, with its label, shuffled or not."""
        columns = {"x": np.arange(50)[:, None] * [1.0, 2.0], "y": np.arange(50, dtype=np.uint8)}
        found = rows(input_pipeline.from_arrays(columns, np.arange(50) % 3, training=training, batch_size=7))
        numbers = [int(values["y"]) for values, _ in found]

        assert sorted(numbers) == list(range(50))
        assert (numbers == list(range(50))) is not training
        assert all(values["x"].tolist() == [n, 2 * n] for (values, _), n in zip(found, numbers, strict=True))
        assert all(label == n % 3 for (_, label), n in zip(found, numbers, strict=True))

    def test_class_names_become_indices_in_sorted_order(self) -> None:
        """As for an artifact."""
        found = rows(input_pipeline.from_arrays({"x": np.arange(4)}, ["b", "a", "c", "a"], training=False))

        assert [int(label) for _, label in found] == [1, 0, 2, 0]

    def test_labels_may_be_quantities(self) -> None:
        """Floats stay floats."""
        _, labels = next(iter(input_pipeline.from_arrays({"x": np.arange(4)}, [0.5, -1.0, 2.0, 0.0], training=False)))

        assert labels.numpy().tolist() == [0.5, -1.0, 2.0, 0.0]

    def test_without_labels_there_are_values_alone(self) -> None:
        """As many as there are rows."""
        batches = list(input_pipeline.from_arrays({"x": np.arange(10)}, batch_size=4))

        assert sorted(n for values in batches for n in values["x"].numpy().tolist()) == list(range(10))

    def test_the_batch_size_is_chosen_from_the_records(self) -> None:
        """All records together decide, for every worker."""
        data = [
            input_pipeline.from_arrays({"x": np.arange(1000)}, training=training, worker=Worker(1, 2))
            for training in (True, False)
        ]

        assert [len(next(iter(each))["x"]) for each in data] == [64, 64]

    def test_images_are_varied_by_their_feature(self) -> None:
        """Cut, mirrored and resized, in training only."""
        images = np.random.default_rng(1).integers(0, 256, (20, 40, 40, 3), dtype=np.uint8)
        settings: dict[str, Any] = {"augmentation": {"crop": "resized", "flip": 0.5, "mixup": 0.2}, "batch_size": 10}
        feature = {"image": ImageFeature(16, augmentation=input_pipeline.api._settings(settings).augmentation)}
        values, labels = next(
            iter(input_pipeline.from_arrays({"image": images}, [0, 1] * 10, features=feature, **settings))
        )

        assert (values["image"].shape, values["image"].dtype) == ((10, 16, 16, 3), tf.uint8)
        assert labels.shape == (10, 2)

    def test_arrays_of_different_lengths_are_rejected(self) -> None:
        """The message gives the lengths."""
        with pytest.raises(BadInput, match=r"arrays of \{'x': 3, 'label': 2\} rows; expected the same length for all"):
            input_pipeline.from_arrays({"x": [1, 2, 3]}, [0, 1])


class TestFolders:
    """Class folders, read in place."""

    def test_every_image_comes_with_its_class_index(self, folders: Path) -> None:
        """PNG and BMP; indices are in the order of the folder names."""
        data = input_pipeline.from_folders(folders, batch_size=7, training=False)
        found = rows(data)

        assert [int(values["image"][0, 0, 1]) for values, _ in found] == [n for k in range(3) for n in range(k, 60, 3)]
        assert all(values["image"][0, 0, 0] == 100 * label for values, label in found)
        assert data.element_spec[0]["image"].shape == [None, 40, 40, 3]

    def test_training_shuffles_and_augments(self, folders: Path) -> None:
        """Every pass is the next epoch."""
        data = input_pipeline.from_folders(folders, batch_size=60, image_size=16)
        (first, one), (second, other) = next(iter(data)), next(iter(data))

        assert (one.numpy() != other.numpy()).any()
        assert sorted(one.numpy()) == sorted(other.numpy()) == [0] * 20 + [1] * 20 + [2] * 20
        assert (first["image"].numpy() != second["image"].numpy()).any()

    def test_a_folder_without_images_is_rejected(self, tmp_path: Path) -> None:
        """The message says what was expected."""
        with pytest.raises(BadInput, match="0 images; expected one folder per class"):
            input_pipeline.from_folders(tmp_path)
