"""The exported model predicts like the Keras model, and needs only TensorFlow."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import orjson
import pytest
import tensorflow as tf
from PIL import Image

from components import features as modalities
from components.features.image import ImageFeature
from components.features.tensor import TensorFeature
from components.ingest.write.encode_record import example_parts
from components.models import image, joined
from components.models.heads import Classification
from components.serving import export

FEATURE = ImageFeature(32)
CLASSES = ["chat\nnoir", "dög", "猫 🐈", "\r\n", "plain"]
KINDS = ("PNG", "JPEG", "JPEG", "PNG", "PNG", "JPEG")
OUTPUTS = {
    "label": tf.TensorSpec([None], tf.string, name="label"),
    "all_classes": tf.TensorSpec([None, len(CLASSES)], tf.string, name="all_classes"),
    "probabilities": tf.TensorSpec([None, len(CLASSES)], tf.float32, name="probabilities"),
}


def encoded(number: int, kind: str) -> bytes:
    """Returns noise as an encoded image; size and brightness depend on the number, every other image is gray."""
    shape = (20 + 9 * number, 64 - 7 * number, 3)[: 2 + number % 2]
    pixels = np.random.default_rng(number).integers(30 * number, 30 * number + 60, shape, dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


IMAGES = [encoded(number, kind) for number, kind in enumerate(KINDS)]
EXAMPLES = [b"".join(example_parts({"image": content, "label": b"?", "id": 1})) for content in IMAGES]


@pytest.fixture(scope="module")
def model() -> Any:
    """An untrained model with large differences between its probabilities."""
    keras.utils.set_random_seed(1)
    pixels = FEATURE.keras_input("image")
    built = joined.build({"image": pixels}, [image.encode(pixels)], Classification(len(CLASSES)))
    kernel, bias = built.layers[-1].get_weights()
    built.layers[-1].set_weights([40 * kernel, bias])
    return built


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported model."""
    target = tmp_path_factory.mktemp("serving") / "model"
    export.export(model, {"image": FEATURE}, CLASSES, str(target))
    return target


@pytest.fixture(scope="module")
def served(folder: Path) -> Any:
    """The loaded SavedModel."""
    return tf.saved_model.load(str(folder))


@pytest.fixture(scope="module")
def expected(model: Any) -> Any:
    """The Keras model's probabilities for the decoded images."""
    decoded = FEATURE.decode(tf.constant(IMAGES)).numpy()
    return model({"image": decoded}, training=False).numpy()


class TestSignatures:
    """The signatures that clients call."""

    def test_there_are_three(self, served: Any) -> None:
        """Predictions for serialized examples and for raw values, and features."""
        assert set(served.signatures) == {"serving_default", "raw", "features"}

    @pytest.mark.parametrize(
        ("name", "key"), [("serving_default", "examples"), ("raw", "image"), ("features", "image")]
    )
    def test_all_take_a_batch_of_strings(self, served: Any, name: str, key: str) -> None:
        """Of any batch size."""
        arguments = served.signatures[name].structured_input_signature

        assert arguments == ((), {key: tf.TensorSpec([None], tf.string, name=key)})

    @pytest.mark.parametrize("name", ["serving_default", "raw"])
    def test_both_return_classes_and_probabilities(self, served: Any, name: str) -> None:
        """One row per image, one column per class."""
        assert served.signatures[name].structured_outputs == OUTPUTS

    def test_features_are_floats(self, served: Any, model: Any) -> None:
        """As wide as the layer before the head."""
        width = joined.extractor(model).output_shape[1]

        assert served.signatures["features"].structured_outputs == {
            "features": tf.TensorSpec([None, width], tf.float32, name="features")
        }


class TestPredictions:
    """D1: no skew between training and serving."""

    def test_examples_are_predicted_as_by_the_keras_model(self, served: Any, expected: Any) -> None:
        """Other columns of the example are ignored."""
        answer = served.signatures["serving_default"](examples=tf.constant(EXAMPLES))

        np.testing.assert_allclose(answer["probabilities"].numpy(), expected, atol=1e-5)

    def test_raw_files_are_predicted_as_by_the_keras_model(self, served: Any, expected: Any) -> None:
        """JPEG and PNG, gray and colour, of any size, in one batch."""
        answer = served.signatures["raw"](image=tf.constant(IMAGES))

        np.testing.assert_allclose(answer["probabilities"].numpy(), expected, atol=1e-5)

    def test_features_are_the_input_of_the_head(self, served: Any, model: Any, expected: Any) -> None:
        """The head computes the probabilities from them."""
        features = served.signatures["features"](image=tf.constant(IMAGES))["features"]
        decoded = FEATURE.decode(tf.constant(IMAGES)).numpy()

        np.testing.assert_allclose(features, joined.extractor(model)({"image": decoded}, training=False), atol=1e-5)
        np.testing.assert_allclose(model.layers[-1](features), expected, atol=1e-5)

    def test_a_single_image_is_predicted_as_in_a_batch(self, served: Any, expected: Any) -> None:
        """The other images of a batch do not matter."""
        alone = [served.signatures["raw"](image=tf.constant([each]))["probabilities"].numpy()[0] for each in IMAGES]

        np.testing.assert_allclose(alone, expected, atol=1e-5)

    def test_every_class_is_named_in_the_order_of_the_probabilities(self, served: Any) -> None:
        """Line breaks, accents and emoji are unchanged."""
        answer = served.signatures["raw"](image=tf.constant(IMAGES[:2]))

        assert [[name.decode() for name in row] for row in answer["all_classes"].numpy()] == [CLASSES, CLASSES]

    def test_the_label_is_the_most_probable_class(self, served: Any, expected: Any) -> None:
        """As a class name; not all images have the same."""
        answer = served.signatures["raw"](image=tf.constant(IMAGES))
        best = [CLASSES[number] for number in expected.argmax(axis=1)]

        assert len(set(best)) > 1
        assert [name.decode() for name in answer["label"].numpy()] == best

    def test_bytes_that_are_no_image_are_an_error(self, served: Any) -> None:
        """The whole request fails: a prediction for them would look like any other."""
        with pytest.raises(tf.errors.InvalidArgumentError, match="Unknown image file format"):
            served.signatures["raw"](image=tf.constant([IMAGES[0], b"<html>"]))


@pytest.mark.slow
def test_a_fresh_process_needs_plain_tensorflow_only(folder: Path, expected: Any, tmp_path: Path) -> None:
    """It imports neither Keras nor Penstock, TFX or Transform."""
    (tmp_path / "image").write_bytes(IMAGES[0])
    script = (
        "import json, sys\n"
        "sys.modules['keras'] = sys.modules['tf_keras'] = None\n"
        "import tensorflow as tf\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "answer = model.signatures['raw'](image=tf.constant([open('image', 'rb').read()]))\n"
        "foreign = {'components', 'pipelines', 'tfx', 'tensorflow_transform', 'keras.src'} & set(sys.modules)\n"
        "print(json.dumps([sorted(foreign), answer['label'].numpy()[0].decode(),\n"
        "                  answer['probabilities'].numpy()[0].tolist()]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(folder)],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    foreign, label, probabilities = orjson.loads(done.stdout)

    assert (foreign, label) == ([], CLASSES[expected[0].argmax()])
    np.testing.assert_allclose(probabilities, expected[0], atol=1e-5)


class TestArgumentNames:
    """Columns can have any name; arguments of a signature cannot."""

    @pytest.mark.parametrize(
        ("columns", "expected"),
        [
            (["image", "said_2"], ["image", "said_2"]),
            (["petal length (cm)", "a.x", "image/encoded"], ["petal_length__cm_", "a_x", "image_encoded"]),
            (["größe", "1st", "_own", "猫"], ["gr__e", "column_1st", "column__own", "column__"]),
            (["a b", "a.b", "a_b", "a_b_2"], ["a_b", "a_b_2", "a_b_3", "a_b_2_2"]),
        ],
        ids=["plain", "spaces and dots", "other letters", "same after replacement"],
    )
    def test_argument_names_are_unique_identifiers(self, columns: list[str], expected: list[str]) -> None:
        """Of letters, digits and underscores."""
        assert export.arguments(columns) == dict(zip(expected, columns, strict=True))

    def test_columns_of_any_name_are_served(self, tmp_path: Path) -> None:
        """Serialized examples keep the column name."""
        feature, name = TensorFeature((2,), "float32"), "petal size (cm)/raw"
        inputs = modalities.keras_inputs({name: feature})
        model = joined.build(inputs, [inputs[name] * 1.0], Classification(2))
        export.export(model, {name: feature}, ["x", "y"], str(tmp_path / "model"))
        served, value = tf.saved_model.load(str(tmp_path / "model")), np.ones(2, np.float32).tobytes()
        by_raw = served.signatures["raw"](petal_size__cm__raw=tf.constant([value]))
        example = b"".join(example_parts({name: value, "id": 1}))
        by_examples = served.signatures["serving_default"](examples=tf.constant([example]))

        np.testing.assert_array_equal(by_raw["probabilities"], by_examples["probabilities"])
