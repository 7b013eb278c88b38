"""D1: an export is proven on held-out records, in this process and in one with plain TensorFlow."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components import features as modalities
from components.errors import PenstockError
from components.features.tensor import TensorFeature
from components.ingest.write.encode_record import example_parts
from components.input_pipeline import Reader
from components.models import joined
from components.models.heads import Classification, Regression
from components.records.manifest import Shard
from components.records.verify import Verified
from components.serving import export, proof
from components.settings.input import Input

COLUMN = "size (cm)"
CLASSES = ["chat\nnoir", "dög", "plain"]
SHARDS = (150, 80)  # records
FEATURE = TensorFeature((4,), "float32")


@dataclass(frozen=True)
class Halved(TensorFeature):
    """A feature that decodes other values than the one that training uses."""

    def decode(self, stored: tf.Tensor) -> tf.Tensor:
        """Returns half of each value."""
        return super().decode(stored) / 2


@dataclass(frozen=True)
class InPython(TensorFeature):
    """A feature that decodes by a Python function, which a model server does not have."""

    def decode(self, stored: tf.Tensor) -> tf.Tensor:
        """Returns the values unchanged."""
        return tf.ensure_shape(tf.numpy_function(np.copy, [super().decode(stored)], tf.float32), [None, *self.shape])


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Verified:
    """An eval split of two shards, 230 records."""
    random, folder = np.random.default_rng(5), tmp_path_factory.mktemp("records")
    shards = []
    for number, records in enumerate(SHARDS):
        path = folder / str(number)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for place in range(records):
                values = random.normal(size=4).astype(np.float32).tobytes()
                record: dict[str, bytes | int] = {
                    COLUMN: values,
                    "label": CLASSES[place % 3].encode(),
                    "id": 1000 * number + place,
                }
                writer.write(b"".join(example_parts(record)))
        shards.append(Shard("eval", str(path), records, path.stat().st_size, ""))
    return Verified(tuple(shards))


@pytest.fixture(scope="module")
def model() -> Any:
    """An untrained model with large differences between its probabilities."""
    keras.utils.set_random_seed(1)
    inputs = modalities.keras_inputs({COLUMN: FEATURE})
    encoding = keras.layers.Dense(8, name="encoding")(inputs[COLUMN])
    built = joined.build(inputs, [encoding], Classification(len(CLASSES)))
    kernel, bias = built.layers[-1].get_weights()
    built.layers[-1].set_weights([4 * kernel, bias])
    return built


@pytest.fixture
def prove(model: Any, evaluation: Verified, tmp_path: Path) -> Any:
    """Exports the model with a feature and proves it."""

    def run(feature: TensorFeature, *, holds_raw: bool = True) -> dict[str, Any]:
        target, features = str(tmp_path / "model"), {COLUMN: feature}
        reader = Reader({COLUMN: FEATURE}, "label", tf.strings.length, Input(), 0, record_id="id")
        with proof.fresh_process() as alone:
            export.export(model, features, CLASSES, target)
            raw = export.raw_columns(features, None) if holds_raw else {}
            return proof.prove(model, reader, evaluation, CLASSES, None, target, raw, alone)

    return run


@pytest.mark.slow
class TestProof:
    """The whole proof, with its real process."""

    def test_an_export_that_agrees_is_proven(self, prove: Any) -> None:
        """D1: 200 of 230 records, through the evaluation path and both signatures."""
        proven = prove(FEATURE)
        largest = proven.pop("largest_difference")

        assert proven.pop("seconds") > 0
        assert proven == {
            "records": 200,
            "split": "eval",
            "compared": "probability of each class",
            "tolerance": 1e-5,
            "unproven": {},
        }
        assert [name for name, value in largest.items() if value <= 1e-5] == ["evaluation", "serving_default", "raw"]

    def test_a_feature_that_decodes_otherwise_fails_the_export(self, prove: Any) -> None:
        """D1: the message has the worst record, both answers and the figures of all ways."""
        message = (
            r"^proof of the exported model: evaluation does not predict as training does; record \d+ of 200 "
            r"\(id \[\d+\]\): training '.+' with 0\.\d{7}, evaluation '.+' with 0\.\d{7}\. "
            r"Largest differences: evaluation (\S+), serving_default \1, raw \1 \(inf: another class\); "
            r"expected at most 1e-05\. "
        )
        with pytest.raises(PenstockError, match=message):
            prove(Halved(FEATURE.shape, FEATURE.dtype))

    def test_a_model_that_needs_our_process_fails_the_export(self, prove: Any) -> None:
        """D1: it predicts in this process, and not in one with plain TensorFlow, whose error is shown."""
        with pytest.raises(PenstockError, match=r"(?s)the process with plain TensorFlow ended with code 1;.*pyfunc"):
            prove(InPython(FEATURE.shape, FEATURE.dtype))

    def test_raw_values_that_the_records_do_not_hold_are_unproven(self, prove: Any) -> None:
        """Models trained on embeddings: the figures say so."""
        proven = prove(FEATURE, holds_raw=False)

        assert [*proven["largest_difference"]] == ["evaluation", "serving_default"]
        assert proven["unproven"] == {"raw": "the records hold embeddings and not the images that clients send"}


class TestComparison:
    """Which differences are too large."""

    @pytest.mark.parametrize(
        ("label", "probabilities", "largest"),
        [
            (b"dog", [0.3, 0.7], 0.0),
            (b"dog", [0.3 + 4e-6, 0.7 - 4e-6], 4e-6),
            (b"dog", [0.4, 0.6], 0.1),
            (b"dog", [np.nan, np.nan], np.nan),
            (b"cat", [0.3, 0.7], np.inf),
            (b"cow", [0.3, 0.7], np.inf),
        ],
        ids=["equal", "close", "far", "not a number", "other class", "unknown class"],
    )
    def test_classes(self, label: bytes, probabilities: list[float], largest: float) -> None:
        """Probabilities may differ by 1e-5, classes not at all."""
        comparison = proof._Comparison(np.array([[0.3, 0.7]]), ["cat", "dog"])
        names = np.array([[b"cat", b"dog"]], object)
        found = {"label": [label], "all_classes": names, "probabilities": np.array([probabilities])}
        figures = comparison.figures(found)

        assert figures == {
            "largest": pytest.approx(largest, nan_ok=True),
            "worst": 0,
            "passed": bool(largest <= 1e-5),
        }

    def test_either_of_two_equally_probable_classes_is_right(self) -> None:
        """Rounding decides between them."""
        comparison = proof._Comparison(np.array([[0.5 - 1e-6, 0.5 + 1e-6]]), ["cat", "dog"])
        names = np.array([[b"cat", b"dog"]], object)
        found = {"label": [b"cat"], "all_classes": names, "probabilities": np.array([[0.5 + 1e-6, 0.5 - 1e-6]])}

        assert comparison.figures(found)["passed"]

    @pytest.mark.parametrize(
        ("labels", "expected", "found", "largest"),
        [
            (Regression(100, 10), [100, 90], [100, 90.00001], 0),
            (Regression(100, 10), [100, 90], [100.0005, 90], 5e-5),
            (Regression(0, 1), [1e6, 0], [1e6 + 8, 0], 8e-6),
            (Regression(1.7e9, 3456), [1.7e9, 1.7e9 + 3456], [1.7e9 + 128, 1.7e9 + 3456 + 256], 0),
            (Regression(1.7e9, 3456), [1.7e9, 1.7e9 + 3456], [1.7e9, 1.7e9], 0.93),
            (Regression(0, 1), [3e38, 1], [3e38, 2], 1),
            (Regression(2e36, 1e36), [2e36, 3e36], [2.2e36, 3e36], 0.2),
            (Regression(0, 1), [1, 2], [1, np.nan], np.nan),
            (Regression(0, 1), [1, 2], [1, np.inf], np.inf),
        ],
        ids=[
            "rounded", "far", "relative to the distance", "rounded and large", "the mean, large",
            "beside a huge one", "larger than a sum of float32 can be", "not a number", "infinite",
        ],
    )  # fmt: skip
    def test_a_quantity_is_compared_in_standard_deviations(
        self, labels: Regression, expected: list[float], found: list[float], largest: float
    ) -> None:
        """D1: also where float32 cannot represent 1e-5 standard deviations, or not the sum of the values."""
        comparison = proof._Comparison(np.array(expected, np.float32)[:, np.newaxis], [], labels)
        figures = comparison.figures({"value": np.array(found, np.float32)})

        assert figures["largest"] == pytest.approx(largest, rel=0.05, abs=1e-6, nan_ok=True)
        assert figures["passed"] == (largest <= 1e-5)
