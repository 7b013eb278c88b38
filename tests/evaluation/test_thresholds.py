"""Metric thresholds, measured by TFX's own Evaluator on models with known mistakes.

The candidate predicts by an image's red channel and the baseline by its green channel: lighter than gray is "bright".
So accuracy, confusion matrix and change are known in advance.
"""

import io
from collections.abc import Sequence
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
from components.records.roles import Column, Layout
from components.serving import export as serving
from components.settings.evaluate import Evaluate

pytestmark = pytest.mark.slow

CLASSES = ("dark", "bright")
RED, GREEN = 0, 1
# True class, the candidate's prediction, the baseline's prediction.
RECORDS = [(0, 0, 0)] * 4 + [(1, 0, 1)] * 2 + [(1, 1, 1)] * 2
MANY = RECORDS * 10  # enough to compare two models
FEATURE = ImageFeature(8)
METRICS = {"accuracy": 0.75, "macro_f1": (0.8 + 2 / 3) / 2, "auc": 0.75, "trivial_accuracy": 0.5, "examples": 8.0}


def png(*predictions: int) -> bytes:
    """Returns a PNG of one color, from which each model makes the given prediction."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), tuple(250 * each for each in (*predictions, 0))).save(out, "PNG")
    return out.getvalue()


def write_examples(folder: Path, records: Sequence[tuple[int, int, int]] = RECORDS) -> None:
    """Writes the test split; far is where the candidate is wrong, and a few other records."""
    (folder / "Split-test").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "Split-test" / "data_tfrecord-00000-of-00001")) as writer:
        for number, (label, *predictions) in enumerate(records):
            place = b"far" if label != predictions[0] or number % 10 == 0 else b"near"
            values = {"image": png(*predictions), "label": CLASSES[label].encode(), "place": place}
            writer.write(b"".join(example_parts({**values, "id": number})))


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
    write_examples(folder / "many", MANY)
    export(RED, folder / "candidate")
    export(GREEN, folder / "baseline")
    return folder


def evaluate(home: Path, out: Path, settings: Evaluate, *, baseline: bool) -> tuple[dict[str, Any], bool]:
    """Runs TFX's Evaluator; returns its result, and whether it blessed the candidate."""
    examples = artifact(standard_artifacts.Examples, 1, home / ("many" if baseline else "examples"))
    examples.split_names = artifact_utils.encode_split_names(["train", "eval", "test"])
    examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
    inputs = {"examples": [examples], "model": [artifact(standard_artifacts.Model, 2, home / "candidate")]}
    if baseline:
        inputs["baseline_model"] = [artifact(standard_artifacts.Model, 3, home / "baseline")]
    evaluated = artifact(standard_artifacts.ModelEvaluation, 4, out / "evaluation")
    blessing = artifact(standard_artifacts.ModelBlessing, 5, out / "blessing")
    layout = Layout("label", "class", (Column("place", "category", "string"),) if baseline else ())
    evaluator.Executor().Do(
        inputs,
        {"evaluation": [evaluated], "blessing": [blessing]},
        {
            "eval_config": proto_utils.proto_to_json(thresholds.eval_config(layout, settings)),
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
    """C6: a candidate that is worse than the live model, on the whole split and on one slice."""

    LIMIT = "at least -0.1045 (what chance explains, above evaluate.max_drop = 0.1)"

    @pytest.fixture(scope="class")
    def measured(self, home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], bool]:
        """A candidate that misses all thresholds, and a baseline without mistakes."""
        settings = Evaluate(min_accuracy=0.8, max_drop=0.1, slices=("place",))
        return evaluate(home, tmp_path_factory.mktemp("compared"), settings, baseline=True)

    def test_the_metrics_are_the_candidates(self, measured: tuple[dict[str, Any], bool]) -> None:
        """The same as without a baseline."""
        result, _ = measured

        assert result["metrics"] == {**METRICS, "examples": 80.0}
        assert result["by_class"] == {"dark": 1.0, "bright": 0.5}
        assert sorted(result["confusion"]) == [[0, 0, 40], [1, 0, 20], [1, 1, 20]]

    def test_both_thresholds_are_reported(self, measured: tuple[dict[str, Any], bool]) -> None:
        """The change is the candidate's accuracy minus the baseline's; 20 records can differ by chance by 0.1045."""
        assert measured[0]["thresholds"] == [
            ("accuracy", 0.75, "at least 0.8 (evaluate.min_accuracy)", False),
            ("accuracy change against the baseline", -0.25, self.LIMIT, False),
        ]

    def test_every_slice_is_compared_by_its_own_records(self, measured: tuple[dict[str, Any], bool]) -> None:
        """All mistakes are far; near, both models are right."""
        far, near = sorted(measured[0]["slices"], key=lambda each: str(each["value"]))

        assert far == {
            "column": "place", "value": "far", "metric": pytest.approx(6 / 26), "records": 26,
            "change": pytest.approx(-20 / 26), "allowed": pytest.approx((1 + 2.5758293 * 20**0.5) / 26),
            "limit": "what chance explains, above evaluate.max_slice_drop = 0.1", "passed": False,
        }  # fmt: skip
        assert (near["limit"], measured[0]["compared"]["limit"]) == (
            "evaluate.max_slice_drop", "what chance explains, above evaluate.max_drop = 0.1",
        )  # fmt: skip
        assert (near["change"], near["allowed"], near["passed"]) == (0, pytest.approx(0.1), True)

    def test_every_missed_threshold_is_a_failure(self, measured: tuple[dict[str, Any], bool]) -> None:
        """With slice, both values, allowed drop, records and setting."""
        assert measured[0]["failures"] == [
            "accuracy is 0.7500, expected at least 0.8 (evaluate.min_accuracy)",
            f"accuracy change against the baseline is -0.2500, expected {self.LIMIT}",
            (
                "accuracy on slice place = far is 0.2308, the baseline's 1.0000: lower by 0.7692 on 26 records, "
                "expected at most 0.4815 (what chance explains, above evaluate.max_slice_drop = 0.1)"
            ),
        ]

    def test_the_evaluator_does_not_bless_it(self, measured: tuple[dict[str, Any], bool]) -> None:
        """TFMA's verdict decides, and its messages are reported."""
        result, blessed = measured

        assert not blessed
        assert len(result["tfma_failures"]) == 4  # the whole split misses the limit of slices too


class TestEvalConfig:
    """The settings as TFMA's configuration."""

    @staticmethod
    def thresholds(settings: Evaluate, kind: Any = "class") -> dict[str, tfma.MetricThreshold]:
        """Returns the thresholds of a configuration by metric, those of the whole split."""
        (spec,) = thresholds.eval_config(Layout("label", kind, ()), settings).metrics_specs
        found = {}
        for metric in spec.metrics:
            name = orjson.loads(f"{{{metric.config}}}").get("name", "")
            for each in metric.per_slice_thresholds:
                assert list(each.slicing_specs) == [tfma.SlicingSpec()]
                found[name] = each.threshold
        return found

    def test_the_comparison_is_with_what_is_allowed(self) -> None:
        """Its metric is the change plus the allowed drop; slices are compared with a limit of their own."""
        (spec,) = thresholds.eval_config(Layout("label", "class", ()), Evaluate(max_drop=0.25)).metrics_specs
        whole, slices = [each for each in spec.metrics if each.class_name == "AgainstBaseline"]
        change = whole.per_slice_thresholds[0].threshold.change_threshold

        assert change.direction == tfma.MetricDirection.HIGHER_IS_BETTER
        assert change.absolute.value == pytest.approx(0, abs=1e-6)
        assert slices.threshold.change_threshold == change
        assert [orjson.loads(f"{{{each.config}}}") for each in (whole, slices)] == [
            {"name": "against_baseline", "kind": "class", "max_drop": 0.25, "confidence": 0.95},
            {"name": "slices_against_baseline", "kind": "class", "max_drop": 0.25, "confidence": 0.995},
        ]

    @pytest.mark.parametrize("accuracy", [0.0, 0.1, 0.7, 1.0])
    def test_the_threshold_allows_for_32_bit_rounding(self, accuracy: float) -> None:
        """A value that TFMA stores in 32 bits may be slightly less than the threshold."""
        least = self.thresholds(Evaluate(min_accuracy=accuracy))["accuracy"].value_threshold.lower_bound.value

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
        r2 = config.metrics_specs[0].metrics[0]

        assert (r2.class_name, r2.config) == ("OfQuantities", '"name": "r2"')
        least = self.thresholds(Evaluate(min_r2=0.4), "quantity")["r2"].value_threshold.lower_bound.value
        assert least == pytest.approx(0.4, abs=1e-6)

    @pytest.mark.parametrize("kind", ["class", "quantity"])
    def test_without_a_minimum_the_trivial_model_is_the_threshold(self, kind: Any) -> None:
        """The comparison with the baseline, and predictions that are not finite, have thresholds of their own."""
        found = self.thresholds(Evaluate(), kind)

        assert sorted(found) == ["above_trivial", "against_baseline", "predictions_not_finite"]
        assert found["above_trivial"].value_threshold.lower_bound.value == pytest.approx(0, abs=1e-6)

    def test_a_quantity_is_not_sliced_by(self) -> None:
        """Nearly every record would be a slice; TFMA reads the output `value`."""
        config = thresholds.eval_config(Layout("price", "quantity", ()), Evaluate())

        assert list(config.slicing_specs) == [tfma.SlicingSpec()]
        assert list(config.model_specs) == [
            tfma.ModelSpec(label_key="price", prediction_key="value", signature_name="serving_default")
        ]
