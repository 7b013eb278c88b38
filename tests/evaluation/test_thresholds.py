"""Metric thresholds, measured by TFX's own Evaluator on models with known mistakes.

The candidate predicts by an image's red channel and the baseline by its green channel: lighter than gray is "bright".
So accuracy, confusion matrix and change are known in advance.
"""

import io
from pathlib import Path
from typing import Any

import keras
import numpy as np
import orjson
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from PIL import Image
from tfx.components.evaluator import executor as evaluator
from tfx.components.util import examples_utils
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.artifact import Artifact
from tfx.utils import proto_utils

from components.evaluation import results, thresholds
from components.features.image import ImageFeature
from components.ingest.write.encode_record import example_parts
from components.models.joined import FEATURES
from components.records.roles import Layout
from components.serving import export as serving
from components.settings.evaluate import Evaluate

pytestmark = pytest.mark.slow

CLASSES = ("dark", "bright")
RED, GREEN = 0, 1
# True class, the candidate's prediction, the baseline's prediction.
RECORDS = [(0, 0, 0)] * 4 + [(1, 0, 1)] * 2 + [(1, 1, 1)] * 2
FEATURE = ImageFeature(8)
METRICS = {"accuracy": 0.75, "macro_f1": (0.8 + 2 / 3) / 2, "auc": 0.75, "trivial_accuracy": 0.5, "examples": 8.0}


def png(*predictions: int) -> bytes:
    """Returns a PNG of one color, from which each model makes the given prediction."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), tuple(250 * each for each in (*predictions, 0))).save(out, "PNG")
    return out.getvalue()


def write_examples(folder: Path) -> None:
    """Writes the test split."""
    (folder / "Split-test").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "Split-test" / "data_tfrecord-00000-of-00001")) as writer:
        for number, (label, *predictions) in enumerate(RECORDS):
            writer.write(
                b"".join(example_parts({"image": png(*predictions), "label": CLASSES[label].encode(), "id": number}))
            )


def export(channel: int, folder: Path, weight: float = 8) -> None:
    """Exports a model that predicts by one channel."""
    image = FEATURE.keras_input("image")
    mean = keras.layers.GlobalAveragePooling2D(name=FEATURES)(keras.layers.Rescaling(1 / 255)(image))
    head = keras.layers.Dense(2, activation="softmax")
    model = keras.Model({"image": image}, head(mean))
    kernel = np.zeros((3, 2), np.float32)
    kernel[channel] = [-weight, weight]
    head.set_weights([kernel, np.array([4, -4], np.float32)])
    serving.export(model, {"image": FEATURE}, CLASSES, str(folder / "Format-Serving"))


def artifact(kind: type[Artifact], number: int, uri: Path | str = "") -> Any:
    """Returns a TFX artifact with an id and a URI."""
    made = kind()
    made.id, made.uri = number, str(uri)
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test split and both models."""
    folder = tmp_path_factory.mktemp("evaluation")
    write_examples(folder / "examples")
    export(RED, folder / "candidate")
    export(GREEN, folder / "baseline")
    return folder


def evaluate(home: Path, out: Path, settings: Evaluate, *, baseline: bool) -> tuple[dict[str, Any], bool]:
    """Runs TFX's Evaluator; returns its result, and whether it blessed the candidate."""
    examples = artifact(standard_artifacts.Examples, 1, home / "examples")
    examples.split_names = artifact_utils.encode_split_names(["train", "eval", "test"])
    examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
    inputs = {"examples": [examples], "model": [artifact(standard_artifacts.Model, 2, home / "candidate")]}
    if baseline:
        inputs["baseline_model"] = [artifact(standard_artifacts.Model, 3, home / "baseline")]
    evaluated = artifact(standard_artifacts.ModelEvaluation, 4, out / "evaluation")
    blessing = artifact(standard_artifacts.ModelBlessing, 5, out / "blessing")
    evaluator.Executor().Do(
        inputs,
        {"evaluation": [evaluated], "blessing": [blessing]},
        {
            "eval_config": proto_utils.proto_to_json(thresholds.eval_config(Layout("label", "class", ()), settings)),
            "example_splits": orjson.dumps([thresholds.SPLIT]).decode(),
            "module_path": thresholds.EXTRACTORS,
        },
    )
    return results.read_result(evaluated.uri, CLASSES), blessing.get_int_custom_property("blessed") == 1


class TestWithoutBaseline:
    """The first model of a pipeline."""

    @pytest.fixture(scope="class")
    def measured(self, home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], bool]:
        """A candidate with an accuracy of 0.75, and a threshold of 0.75."""
        return evaluate(home, tmp_path_factory.mktemp("alone"), Evaluate(min_accuracy=0.75), baseline=False)

    def test_accuracy_and_records_are_measured(self, measured: tuple[dict[str, Any], bool]) -> None:
        """Six of eight predictions are right; half of the records are of the first class."""
        assert measured[0]["metrics"] == METRICS

    def test_every_class_has_its_accuracy(self, measured: tuple[dict[str, Any], bool]) -> None:
        """By class name."""
        assert measured[0]["by_class"] == {"dark": 1.0, "bright": 0.5}

    def test_the_confusion_matrix_holds_every_record(self, measured: tuple[dict[str, Any], bool]) -> None:
        """As true class, predicted class, records."""
        assert sorted(measured[0]["confusion"]) == [[0, 0, 4], [1, 0, 2], [1, 1, 2]]

    def test_a_model_exactly_at_the_threshold_passes(self, measured: tuple[dict[str, Any], bool]) -> None:
        """Without a baseline, there is no threshold on the change."""
        result, _ = measured

        assert result["thresholds"] == [("accuracy", 0.75, "at least 0.75 (evaluate.min_accuracy)", True)]
        assert (result["failures"], result["tfma_failures"]) == ([], [])

    def test_by_default_it_must_beat_the_most_frequent_class(self, home: Path, tmp_path: Path) -> None:
        """Two records more than the trivial model are too few of eight: TFMA does not bless the candidate."""
        result, blessed = evaluate(home, tmp_path, Evaluate(), baseline=False)
        threshold = "at least 0.9158 (always the most frequent class: 0.5000, margin 0.4158)"

        assert result["thresholds"] == [("accuracy", 0.75, threshold, False)]
        assert result["failures"] == [f"accuracy is 0.7500, expected {threshold}"]
        assert not blessed

    def test_a_model_that_answers_nan_is_not_blessed(self, tmp_path: Path) -> None:
        """C6: whatever the threshold; NaN is not the most frequent class, whose number is that of the first NaN."""
        write_examples(tmp_path / "examples")
        export(RED, tmp_path / "candidate", np.nan)
        result, blessed = evaluate(tmp_path, tmp_path, Evaluate(min_accuracy=0), baseline=False)

        assert not blessed
        assert result["failures"] == ["number of predictions that are not finite is 8.0000, expected 0"]
        assert (result["metrics"]["accuracy"], sorted(result["confusion"])) == (0, [[0, -2, 4], [1, -2, 4]])

    def test_the_threshold_holds_for_the_whole_split(self, measured: tuple[dict[str, Any], bool]) -> None:
        """A class below it does not prevent the blessing."""
        assert measured[1] is True


class TestWithBaseline:
    """A candidate that is worse than the live model."""

    @pytest.fixture(scope="class")
    def measured(self, home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], bool]:
        """A candidate that misses both thresholds, and a baseline without mistakes."""
        settings = Evaluate(min_accuracy=0.8, max_drop=0.1)
        return evaluate(home, tmp_path_factory.mktemp("compared"), settings, baseline=True)

    def test_the_metrics_are_the_candidates(self, measured: tuple[dict[str, Any], bool]) -> None:
        """The same as without a baseline."""
        result, _ = measured

        assert result["metrics"] == METRICS
        assert result["by_class"] == {"dark": 1.0, "bright": 0.5}
        assert sorted(result["confusion"]) == [[0, 0, 4], [1, 0, 2], [1, 1, 2]]

    def test_both_thresholds_are_reported(self, measured: tuple[dict[str, Any], bool]) -> None:
        """The change is the candidate's accuracy minus the baseline's."""
        assert measured[0]["thresholds"] == [
            ("accuracy", 0.75, "at least 0.8 (evaluate.min_accuracy)", False),
            ("accuracy change against the baseline", -0.25, "at least -0.1", False),
        ]

    def test_every_missed_threshold_is_a_failure(self, measured: tuple[dict[str, Any], bool]) -> None:
        """With the value and the threshold."""
        assert measured[0]["failures"] == [
            "accuracy is 0.7500, expected at least 0.8 (evaluate.min_accuracy)",
            "accuracy change against the baseline is -0.2500, expected at least -0.1",
        ]

    def test_the_evaluator_does_not_bless_it(self, measured: tuple[dict[str, Any], bool]) -> None:
        """TFMA's verdict decides, and its messages are reported."""
        result, blessed = measured

        assert not blessed
        assert len(result["tfma_failures"]) == 2


class TestEvalConfig:
    """The settings as TFMA's configuration."""

    @staticmethod
    def threshold(settings: Evaluate) -> tfma.MetricThreshold:
        """Returns the threshold of a configuration, and asserts that the only other one is that of NaN."""
        (spec,) = thresholds.eval_config(Layout("label", "class", ()), settings).metrics_specs
        (metric, finite) = [each for each in spec.metrics if each.per_slice_thresholds]
        (overall,) = metric.per_slice_thresholds
        assert list(overall.slicing_specs) == [tfma.SlicingSpec()]
        assert finite.config == '"name": "predictions_not_finite"'
        return overall.threshold

    def test_max_drop_limits_a_negative_change(self) -> None:
        """Higher is better."""
        change = self.threshold(Evaluate(min_accuracy=0.5, max_drop=0.25)).change_threshold

        assert change.direction == tfma.MetricDirection.HIGHER_IS_BETTER
        assert change.absolute.value == pytest.approx(-0.25, abs=1e-6)
        assert not change.HasField("relative")

    @pytest.mark.parametrize("accuracy", [0.0, 0.1, 0.7, 1.0])
    def test_the_threshold_allows_for_32_bit_rounding(self, accuracy: float) -> None:
        """A value that TFMA stores in 32 bits may be slightly less than the threshold."""
        least = self.threshold(Evaluate(min_accuracy=accuracy)).value_threshold.lower_bound.value

        assert float(np.float32(accuracy)) >= least
        assert least == pytest.approx(accuracy, abs=1e-6)

    def test_classes_are_no_slices(self) -> None:
        """Their accuracy is read from the confusion matrix."""
        config = thresholds.eval_config(Layout("kind", "class", ()), Evaluate())

        assert list(config.slicing_specs) == [tfma.SlicingSpec()]
        assert list(config.model_specs) == [tfma.ModelSpec(label_key="kind", signature_name="serving_default")]

    def test_a_quantity_has_a_threshold_without_a_unit(self) -> None:
        """On R²; errors in the label's unit are measured without thresholds."""
        config = thresholds.eval_config(Layout("price", "quantity", ()), Evaluate(min_r2=0.4))
        (r2, *others, finite, _) = config.metrics_specs[0].metrics
        (overall,) = r2.per_slice_thresholds

        assert (r2.class_name, r2.config) == ("OfQuantities", '"name": "r2"')
        assert overall.threshold.value_threshold.lower_bound.value == pytest.approx(0.4, abs=1e-6)
        assert [metric.class_name for metric in others] == [
            "OfQuantities", "OfQuantities", "OfQuantities", "OfQuantities",
        ]  # fmt: skip
        assert finite.config == '"name": "predictions_not_finite"'
        assert not any(metric.per_slice_thresholds for metric in others)

    @pytest.mark.parametrize("kind", ["class", "quantity"])
    def test_without_a_minimum_the_trivial_model_is_the_threshold(self, kind: Any) -> None:
        """The change against the baseline has its own threshold."""
        config = thresholds.eval_config(Layout("label", kind, ()), Evaluate())
        (metric, above, _) = [each for each in config.metrics_specs[0].metrics if each.per_slice_thresholds]
        change, value = (each.per_slice_thresholds[0].threshold for each in (metric, above))

        assert (change.HasField("change_threshold"), change.HasField("value_threshold")) == (True, False)
        assert (value.HasField("change_threshold"), value.HasField("value_threshold")) == (False, True)
        assert above.config == '"name": "above_trivial"'
        assert value.value_threshold.lower_bound.value == pytest.approx(0, abs=1e-6)

    def test_a_quantity_is_not_sliced_by(self) -> None:
        """Nearly every record would be a slice; TFMA reads the output `value`."""
        config = thresholds.eval_config(Layout("price", "quantity", ()), Evaluate())

        assert list(config.slicing_specs) == [tfma.SlicingSpec()]
        assert list(config.model_specs) == [
            tfma.ModelSpec(label_key="price", prediction_key="value", signature_name="serving_default")
        ]
