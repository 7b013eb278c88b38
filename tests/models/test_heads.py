"""Heads predict in the label's unit, and losses use class weights."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from components.models import joined
from components.models.heads import Classification, Regression, class_weights

pytestmark = pytest.mark.slow


def model_of(head: Any) -> Any:
    """Returns a compiled model with two numbers as input."""
    keras.utils.set_random_seed(3)
    numbers = keras.Input([2], name="numbers")
    model = joined.build({"numbers": numbers}, [keras.layers.Dense(8, "relu")(numbers)], head)
    model.compile(keras.optimizers.Adam(0.1), head.loss(), metrics=head.metrics(), jit_compile=False)
    return model


def records(count: int) -> dict[str, Any]:
    """Returns pairs of increasing numbers."""
    return {"numbers": np.arange(2.0 * count, dtype=np.float32).reshape(count, 2) / count}


@pytest.mark.parametrize(
    ("counts", "power", "weights"),
    [
        ([50, 50], 1.0, (1, 1)),
        ([90, 10], 1.0, (100 / 180, 100 / 20)),
        ([90, 10], 0.0, (1, 1)),
        ([1, 4, 16], 0.5, (3, 1.5, 0.75)),
    ],
)
def test_rarer_classes_have_larger_weights(counts: list[int], power: float, weights: tuple[float, ...]) -> None:
    """By the given power; the mean weight over all records is 1."""
    found = class_weights(counts, power)

    np.testing.assert_allclose(found, weights)
    np.testing.assert_allclose(np.average(found, weights=counts), 1)


def test_a_class_without_records_is_an_error() -> None:
    """The message has its index and all counts."""
    with pytest.raises(
        ValueError, match=r"classes \[1\] have no records, so no weight; expected at least 1 record each: \[3, 0\]"
    ):
        class_weights([3, 0])


@pytest.mark.parametrize("labels", [[0, 1, 1], [[0], [1], [1]]])
def test_the_loss_of_a_record_is_multiplied_by_its_class_weight(labels: Any) -> None:
    """One record of weight 1 and two of weight 3, each with a loss of log 2."""
    loss = Classification(2, weights=(1.0, 3.0)).loss()
    probabilities = np.full((3, 2), 0.5, np.float32)

    np.testing.assert_allclose(loss(np.array(labels), probabilities), np.log(2) * (1 + 3 + 3) / 3, rtol=1e-6)


def test_without_weights_the_loss_is_the_plain_cross_entropy() -> None:
    """The same as with weights of 1."""
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6]], np.float32)
    labels = np.array([0, 1])

    np.testing.assert_allclose(
        Classification(2).loss()(labels, probabilities),
        Classification(2, weights=(1.0, 1.0)).loss()(labels, probabilities),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("head", "labels"),
    [
        (Classification(2, smoothing=0.2), [0, 1]),
        (Classification(2, weights=(1.0, 3.0), smoothing=0.2), [0, 1]),
        (Classification(2, is_soft=True, smoothing=0.2), [[1.0, 0.0], [0.25, 0.75]]),
    ],
    ids=["indices", "class weights", "mixed labels"],
)
def test_smoothing_spreads_a_fraction_of_the_label_over_all_classes(head: Classification, labels: Any) -> None:
    """The cross-entropy with labels of which a fifth is spread evenly."""
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6]], np.float32)
    given = np.array(labels) if head.is_soft else np.eye(2)[labels]
    losses = -((0.8 * given + 0.1) * np.log(probabilities)).sum(axis=1)
    expected = np.mean(losses * (np.array(head.weights)[labels] if head.weights else 1))

    np.testing.assert_allclose(head.loss()(np.array(labels), probabilities), expected, rtol=1e-6)


def test_weights_raise_the_probability_of_a_rare_class() -> None:
    """With 1 of 20 records and useless inputs, it is predicted with 0.5 instead of 0.05."""
    labels = np.array([0] * 190 + [1] * 10)
    found = []
    for weights in ((), class_weights([190, 10])):
        model = model_of(Classification(2, weights))
        for _ in range(100):
            model.train_on_batch({"numbers": np.zeros((200, 2))}, labels)
        found.append(float(model({"numbers": np.zeros((1, 2))}, training=False)[0, 1]))

    np.testing.assert_allclose(found, [0.05, 0.5], atol=0.03)


def test_a_value_is_predicted_in_the_unit_of_the_label() -> None:
    """A z-score of 2 is scaled back by mean and standard deviation."""
    model = model_of(Regression(mean=1000.0, deviation=5.0))
    model.get_layer("z_score").set_weights([np.zeros((8, 1)), np.array([2.0])])

    np.testing.assert_allclose(model(records(1)), [[1010.0]])


@pytest.mark.parametrize(("mean", "deviation"), [(1e6, 1e3), (0.0, 1e-9)])
def test_values_of_any_size_are_learned(mean: float, deviation: float) -> None:
    """With the same learning rate, to within a fifth of the standard deviation."""
    model = model_of(Regression(mean, deviation))
    values = np.linspace(mean - 2 * deviation, mean + 2 * deviation, 32)
    for _ in range(150):
        model.train_on_batch(records(32), values)

    assert np.abs(model(records(32), training=False).numpy()[:, 0] - values).mean() < deviation / 5


def test_the_loss_is_in_units_of_the_variance() -> None:
    """So that one learning rate fits prices and fractions."""
    loss = Regression(mean=1000.0, deviation=5.0).loss()

    np.testing.assert_allclose(loss(np.array([1000.0, 1000.0]), np.array([[1005.0], [990.0]])), (1 + 4) / 2)


@pytest.mark.parametrize("deviation", [0.0, -1.0, float("nan")])
def test_equal_labels_are_rejected(deviation: float) -> None:
    """They have no standard deviation to scale by."""
    with pytest.raises(ValueError, match="expected more than 0: are all labels equal"):
        Regression(0.0, deviation)


@pytest.mark.parametrize("head", [Classification(2, weights=(1.0, 3.0)), Regression(2.0, 5.0)])
def test_a_compiled_model_is_saved_with_its_loss(head: Any, tmp_path: Path) -> None:
    """Loaded, it has the same loss."""
    model, labels = model_of(head), np.array([0, 1])
    model.train_on_batch(records(2), labels)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")

    assert loaded.loss.get_config() == model.loss.get_config()
    assert loaded.evaluate(records(2), labels, verbose=0) == model.evaluate(records(2), labels, verbose=0)


def test_soft_labels_are_class_probabilities() -> None:
    """As mixup makes them: the loss is the cross-entropy with them."""
    head = Classification(2, is_soft=True)
    labels = np.array([[1, 0], [0.25, 0.75]], np.float32)
    predicted = np.array([[0.5, 0.5], [0.8, 0.2]], np.float32)

    expected = -(np.log(0.5) + 0.25 * np.log(0.8) + 0.75 * np.log(0.2)) / 2
    np.testing.assert_allclose(head.loss()(labels, predicted), expected, rtol=1e-6)


def test_the_accuracy_of_soft_labels_compares_the_likeliest_classes() -> None:
    """Of the prediction and of the label."""
    (accuracy,) = Classification(2, is_soft=True).metrics()
    accuracy.update_state(np.array([[0.6, 0.4], [0.4, 0.6], [1, 0]]), np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4]]))

    assert accuracy.name == "accuracy"
    np.testing.assert_allclose(accuracy.result(), 2 / 3, rtol=1e-6)


def test_a_soft_label_of_one_class_has_the_loss_of_a_class_index() -> None:
    """So the losses of training with mixup and of evaluation can be compared."""
    answers = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32)
    soft = Classification(3, is_soft=True).loss()(np.eye(3, dtype=np.float32)[[0, 1]], answers)

    np.testing.assert_allclose(soft, Classification(3).loss()(np.array([0, 1]), answers), rtol=1e-6)
