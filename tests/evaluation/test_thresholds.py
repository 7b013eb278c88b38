"""Which model may serve, measured by TFX's own Evaluator on models whose mistakes are known.

A image's red channel is what the candidate answers, its green channel what the baseline answers: lighter than gray
means "bright". So accuracy, confusion and change are known before anything is measured.
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

from components.evaluation import thresholds
from components.evaluation.thresholds import LatestBlessedOther
from components.features.image import ImageFeature
from components.ingest.write.encode_record import encode_example
from components.models.joined import FEATURES
from components.records.roles import Layout
from components.serving import export as serving
from components.settings.evaluate import Evaluate

CLASSES = ("dark", "bright")
RED, GREEN = 0, 1
# True class, the candidate's answer, the baseline's answer.
RECORDS = [(0, 0, 0)] * 4 + [(1, 0, 1)] * 2 + [(1, 1, 1)] * 2
FEATURE = ImageFeature(8)


def picture(*answers: int) -> bytes:
    """Returns a flat PNG that lets each model give its answer."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), tuple(250 * answer for answer in (*answers, 0))).save(out, "PNG")
    return out.getvalue()


def write_examples(folder: Path) -> None:
    """Writes the test split."""
    (folder / "Split-test").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "Split-test" / "data_tfrecord-00000-of-00001")) as writer:
        for number, (label, *answers) in enumerate(RECORDS):
            writer.write(encode_example({"image": picture(*answers), "label": CLASSES[label].encode(), "id": number}))


def export(channel: int, folder: Path) -> None:
    """Exports a model that answers by one channel."""
    image = FEATURE.keras_input("image")
    mean = keras.layers.GlobalAveragePooling2D(name=FEATURES)(keras.layers.Rescaling(1 / 255)(image))
    answer = keras.layers.Dense(2, activation="softmax")
    model = keras.Model({"image": image}, answer(mean))
    kernel = np.zeros((3, 2), np.float32)
    kernel[channel] = [-8, 8]
    answer.set_weights([kernel, np.array([4, -4], np.float32)])
    serving.export(model, {"image": FEATURE}, CLASSES, str(folder / "Format-Serving"))


def artifact(kind: type[Artifact], number: int, uri: Path | str = "") -> Any:
    """Returns a TFX artifact as it comes out of the metadata."""
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


def evaluate(home: Path, out: Path, bars: Evaluate, *, baseline: bool) -> tuple[dict[str, Any], bool]:
    """Runs TFX's Evaluator; returns what is read from its output, and whether it blessed the candidate."""
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
            "eval_config": proto_utils.proto_to_json(thresholds.eval_config(Layout("label", "class", ()), bars)),
            "example_splits": orjson.dumps([thresholds.SPLIT]).decode(),
        },
    )
    return thresholds.read_result(evaluated.uri), blessing.get_int_custom_property("blessed") == 1


class TestAlone:
    """A first model, with nothing to compare it with."""

    @pytest.fixture(scope="class")
    def measured(self, home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], bool]:
        """The candidate, three quarters of whose answers are right, against a bar of three quarters."""
        return evaluate(home, tmp_path_factory.mktemp("alone"), Evaluate(min_accuracy=0.75), baseline=False)

    def test_accuracy_and_records_are_measured(self, measured: tuple[dict[str, Any], bool]) -> None:
        """Six of eight."""
        assert measured[0]["metrics"] == {"accuracy": 0.75, "examples": 8.0}

    def test_every_class_has_its_accuracy(self, measured: tuple[dict[str, Any], bool]) -> None:
        """Under its name."""
        assert measured[0]["by_class"] == {"dark": 1.0, "bright": 0.5}

    def test_the_confusion_matrix_holds_every_record(self, measured: tuple[dict[str, Any], bool]) -> None:
        """True class, predicted class, records."""
        assert sorted(measured[0]["confusion"]) == [[0, 0, 4], [1, 0, 2], [1, 1, 2]]

    def test_there_is_one_bar_and_a_model_just_at_it_passes(self, measured: tuple[dict[str, Any], bool]) -> None:
        """Without a baseline there is no change to look at."""
        result, _ = measured

        assert result["bars"] == [("accuracy", 0.75, "at least 0.75", True)]
        assert (result["failures"], result["refused"]) == ([], [])

    def test_the_bar_is_for_all_records_together(self, measured: tuple[dict[str, Any], bool]) -> None:
        """A class of few records below it does not cost the blessing."""
        assert measured[1] is True


class TestAgainstTheBlessedModel:
    """A candidate that is worse than what serves now."""

    @pytest.fixture(scope="class")
    def measured(self, home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], bool]:
        """The candidate against a baseline without a fault and against bars that it does not pass."""
        bars = Evaluate(min_accuracy=0.8, max_drop=0.1)
        return evaluate(home, tmp_path_factory.mktemp("compared"), bars, baseline=True)

    def test_the_candidate_is_measured_and_not_the_baseline(self, measured: tuple[dict[str, Any], bool]) -> None:
        """Six of eight, as alone."""
        result, _ = measured

        assert result["metrics"] == {"accuracy": 0.75, "examples": 8.0}
        assert result["by_class"] == {"dark": 1.0, "bright": 0.5}
        assert sorted(result["confusion"]) == [[0, 0, 4], [1, 0, 2], [1, 1, 2]]

    def test_both_bars_are_shown_with_their_values(self, measured: tuple[dict[str, Any], bool]) -> None:
        """The change is the candidate's accuracy less the baseline's."""
        assert measured[0]["bars"] == [
            ("accuracy", 0.75, "at least 0.8", False),
            ("accuracy against the blessed model", -0.25, "at least -0.1", False),
        ]

    def test_every_bar_that_failed_is_a_reason(self, measured: tuple[dict[str, Any], bool]) -> None:
        """In words that need no look at the settings."""
        assert measured[0]["failures"] == [
            "accuracy is 0.7500, at least 0.8 was expected",
            "accuracy against the blessed model is -0.2500, at least -0.1 was expected",
        ]

    def test_the_evaluator_does_not_bless_it(self, measured: tuple[dict[str, Any], bool]) -> None:
        """TFMA's verdict is the one that counts, and it is told."""
        result, blessed = measured

        assert not blessed
        assert len(result["refused"]) == 2


class TestBars:
    """Settings as TFMA's thresholds."""

    @staticmethod
    def threshold(bars: Evaluate) -> tfma.MetricThreshold:
        """Returns the one threshold of a configuration, and sees to it that it is the only one."""
        (spec,) = thresholds.eval_config(Layout("label", "class", ()), bars).metrics_specs
        (accuracy, *others) = spec.metrics
        (overall,) = accuracy.per_slice_thresholds
        assert list(overall.slicing_specs) == [tfma.SlicingSpec()]
        assert not any(other.HasField("threshold") or other.per_slice_thresholds for other in others)
        return overall.threshold

    def test_a_drop_is_a_negative_change(self) -> None:
        """Higher is better, and no worse than the drop that is allowed."""
        change = self.threshold(Evaluate(max_drop=0.25)).change_threshold

        assert change.direction == tfma.MetricDirection.HIGHER_IS_BETTER
        assert change.absolute.value == pytest.approx(-0.25, abs=1e-6)
        assert not change.HasField("relative")

    @pytest.mark.parametrize("bar", [0.0, 0.1, 0.6, 0.7, 0.9, 0.95, 1.0])
    def test_a_model_exactly_at_its_bar_can_pass(self, bar: float) -> None:
        """TFMA counts in 32 bits: seven right of ten are a little less than 0.7 there."""
        least = self.threshold(Evaluate(min_accuracy=bar)).value_threshold.lower_bound.value

        assert float(np.float32(bar)) >= least
        assert least == pytest.approx(bar, abs=1e-6)

    def test_classes_are_measured_too(self) -> None:
        """All records together, and each label for itself."""
        config = thresholds.eval_config(Layout("kind", "class", ()), Evaluate())

        assert list(config.slicing_specs) == [tfma.SlicingSpec(), tfma.SlicingSpec(feature_keys=["kind"])]
        assert list(config.model_specs) == [tfma.ModelSpec(label_key="kind", signature_name="serving_default")]

    def test_a_quantity_has_a_bar_without_a_unit(self) -> None:
        """What is explained of it; errors in its own unit are told, and have none."""
        config = thresholds.eval_config(Layout("price", "quantity", ()), Evaluate(min_explained=0.4))
        (explained, *others) = config.metrics_specs[0].metrics
        (overall,) = explained.per_slice_thresholds

        assert explained.class_name == "SquaredPearsonCorrelation"
        assert overall.threshold.value_threshold.lower_bound.value == pytest.approx(0.4, abs=1e-6)
        assert [metric.class_name for metric in others] == [
            "MeanAbsoluteError", "RootMeanSquaredError", "ExampleCount",
        ]  # fmt: skip
        assert not any(metric.per_slice_thresholds for metric in others)

    def test_a_quantity_is_compared_with_the_models_value(self) -> None:
        """And is no slice: every record would be one of its own."""
        config = thresholds.eval_config(Layout("price", "quantity", ()), Evaluate())

        assert list(config.slicing_specs) == [tfma.SlicingSpec()]
        assert list(config.model_specs) == [
            tfma.ModelSpec(label_key="price", prediction_key="value", signature_name="serving_default")
        ]


def models(*numbers: int) -> list[Any]:
    """Returns models by id."""
    return [artifact(standard_artifacts.Model, number) for number in numbers]


def blessings(**verdicts: int) -> list[Any]:
    """Returns blessings: `m3=1` blesses model 3, `m3=0` does not."""
    made = []
    for number, (model, blessed) in enumerate(verdicts.items()):
        blessing = artifact(standard_artifacts.ModelBlessing, 100 + number)
        blessing.set_int_custom_property("blessed", blessed)
        blessing.set_int_custom_property("current_model_id", int(model.removeprefix("m")))
        made.append(blessing)
    return made


class TestBaseline:
    """With which earlier model a candidate is compared."""

    @staticmethod
    def resolve(found: Sequence[Any], verdicts: Sequence[Any], candidate: Sequence[Any]) -> dict[str, list[int]]:
        """Returns the ids that are resolved, by key."""
        inputs = {"model": list(found), "model_blessing": list(verdicts), "candidate": list(candidate)}
        resolved = LatestBlessedOther().resolve_artifacts(None, inputs)
        return {key: [each.id for each in artifacts] for key, artifacts in resolved.items()}

    @pytest.mark.parametrize(
        ("verdicts", "baseline"),
        [
            ({"m1": 1, "m2": 1}, [2]),
            ({"m2": 1, "m1": 1}, [2]),
            ({"m1": 1, "m2": 0}, [1]),
            ({"m1": 1, "m2": 1, "m3": 1}, [2]),
            ({"m3": 1}, []),
            ({"m1": 0, "m2": 0}, []),
            ({}, []),
        ],
        ids=[
            "latest",
            "in any order",
            "blessed",
            "not the candidate",
            "only the candidate",
            "none blessed",
            "first run",
        ],
    )
    def test_the_latest_blessed_other_model_is_resolved(self, verdicts: dict[str, int], baseline: list[int]) -> None:
        """Of three models the third is the candidate."""
        assert self.resolve(models(1, 2, 3), blessings(**verdicts), models(3)) == {
            "model": baseline,
            "model_blessing": [],
            "candidate": [],
        }

    def test_a_model_that_reads_other_records_is_not_resolved(self, tmp_path: Path) -> None:
        """One saw images, one the vectors of another network: neither could be asked."""
        found = models(1, 2, 3, 4)
        for model, network in zip(found, ("mine", "other", "", "mine"), strict=True):
            model.uri = str(tmp_path / str(model.id))
            if network:
                note = Path(model.uri, "Format-Serving", "assets.extra", "looked_at_by.txt")
                note.parent.mkdir(parents=True)
                note.write_text(network)

        assert self.resolve(found, blessings(m1=1, m2=1, m3=1), found[3:])["model"] == [1]

    def test_a_blessed_model_that_is_gone_is_not_resolved(self) -> None:
        """Only what TFX still lists as live can be compared with."""
        assert self.resolve(models(1, 3), blessings(m1=1, m2=1), models(3))["model"] == [1]
