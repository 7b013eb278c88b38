"""The optimizer against Adam computed in NumPy, with dense gradients, step by step."""

import subprocess
import sys
from typing import Any

import keras
import numpy as np
import orjson
import pytest
import tensorflow as tf

from components.settings.train import Train
from components.training import optimizer
from components.training.optimizer import Schedule

pytestmark = pytest.mark.slow

EPOCHS, STEPS, ROWS = 2, 7, 5
START: dict[str, Any] = {
    "embeddings": np.ones((ROWS, 2), np.float32),
    "kernel": np.eye(2, dtype=np.float32),
    "bias": np.ones(2),
}


def gradients() -> list[dict[str, Any]]:
    """Returns one set of gradients per step; rows 1 and 3 of the embeddings occur several times."""
    random = np.random.default_rng(5)
    rows = [1, 3, 1, 0, 3, 3]
    return [
        {
            "embeddings": tf.IndexedSlices(
                tf.constant(random.normal(size=(len(rows), 2)), tf.float32), tf.constant(rows), tf.constant([ROWS, 2])
            ),
            "kernel": tf.constant(random.normal(size=(2, 2)), tf.float32),
            "bias": tf.constant(random.normal(size=2), tf.float32),
        }
        for _ in range(EPOCHS * STEPS)
    ]


def variables() -> list[keras.Variable]:
    """Returns new variables."""
    return [keras.Variable(value, dtype="float32", name=name) for name, value in START.items()]


def learn(settings: Train, steps: slice = slice(None), state: list[Any] | None = None) -> list[Any]:
    """Takes these steps inside one compiled loop; returns and accepts all state by position: values, then optimizer."""
    values, adam = variables(), optimizer.make(settings, STEPS)
    adam.build(values)
    for variable, kept in zip([*values, *adam.variables], state or (), strict=bool(state)):
        variable.assign(kept)
    taken = gradients()[steps]
    rows = tf.stack([each["embeddings"].values for each in taken])
    kernels, biases = (tf.stack([each[name] for each in taken]) for name in ("kernel", "bias"))

    @tf.function
    def loop(count: tf.Tensor) -> None:
        def step(number: tf.Tensor) -> tf.Tensor:
            first = taken[0]["embeddings"]
            slices = tf.IndexedSlices(rows[number], first.indices, first.dense_shape)
            adam.apply([slices, kernels[number], biases[number]], values)
            return number + 1

        tf.while_loop(lambda number: number < count, step, [0], parallel_iterations=1)

    loop(tf.constant(len(taken)))
    return [np.array(variable) for variable in [*values, *adam.variables]]


def reference(settings: Train) -> list[Any]:
    """Returns the values after all steps, by the formulas of Adam, AdamW and clipping by global norm."""
    values = {name: value.astype(np.float64) for name, value in START.items()}
    moments = {name: (np.zeros_like(value), np.zeros_like(value)) for name, value in values.items()}
    schedule = Schedule(settings.schedule, settings.learning_rate, EPOCHS * STEPS, settings.warmup)
    groups = [
        list(range(epoch * STEPS + first, epoch * STEPS + min(first + settings.accumulate, STEPS)))
        for epoch in range(EPOCHS)
        for first in range(0, STEPS, settings.accumulate)
    ]
    dense = [{name: np.array(tf.convert_to_tensor(each)) for name, each in step.items()} for step in gradients()]
    for update, group in enumerate(groups, start=1):
        mean = {name: np.mean([dense[step][name] for step in group], axis=0) for name in values}
        norm = np.sqrt(sum(np.square(gradient).sum() for gradient in mean.values()))
        rate = float(schedule(group[-1]))
        for name, gradient in mean.items():
            clipped = gradient * min(1, settings.clip_norm / norm) if settings.clip_norm else gradient
            first, second = moments[name]
            first += 0.1 * (clipped - first)
            second += 0.001 * (clipped**2 - second)
            if name == "kernel":
                values[name] -= rate * settings.weight_decay * values[name]
            corrected = rate * np.sqrt(1 - 0.999**update) / (1 - 0.9**update)
            values[name] -= corrected * first / (np.sqrt(second) + 1e-7)
    return list(values.values())


CASES: list[dict[str, Any]] = [
    {},
    {"schedule": "constant", "warmup": 0.3},
    {"weight_decay": 0.1},
    {"clip_norm": 0.5},
    {"accumulate": 3},
    {"accumulate": 3, "clip_norm": 0.5, "weight_decay": 0.1, "warmup": 0.5},
    {"accumulate": 100},
]


def train(**settings: Any) -> Train:
    """Returns settings with a high learning rate."""
    return Train(epochs=EPOCHS, learning_rate=0.1, **settings)


@pytest.mark.parametrize("settings", CASES, ids=str)
@pytest.mark.parametrize("bounds", [(256, 1 << 20), (0, 1 << 20), (0, 1)], ids=["default", "as Keras", "fused"])
def test_the_result_is_that_of_adam_with_dense_gradients(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], bounds: tuple[int, int]
) -> None:
    """Duplicate rows are added before they are squared and before clipping; the last steps of an epoch count."""
    for name, bound in zip(("_SMALL", "_LARGE"), bounds, strict=True):
        monkeypatch.setattr(optimizer, name, bound)
    found = learn(train(**settings))[: len(START)]

    for value, expected in zip(found, reference(train(**settings)), strict=True):
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_training_continues_from_the_optimizer_variables(settings: dict[str, Any]) -> None:
    """B3: stopped after step 5, inside an accumulation, all state is bit-equal to that of the straight run."""
    straight = learn(train(**settings))
    stopped = learn(train(**settings), slice(5))
    continued = learn(train(**settings), slice(5, None), stopped)

    assert [value.tobytes() for value in continued] == [value.tobytes() for value in straight]


def rates(*args: Any) -> list[float]:
    """Returns the learning rates of ten steps, and the one after the last."""
    return [float(Schedule(*args)(step)) for step in range(11)]


def test_the_default_schedule_is_the_cosine_of_keras() -> None:
    """Bit for bit."""
    expected = keras.optimizers.schedules.CosineDecay(3e-3, 10)

    assert rates("cosine", 3e-3, 10) == [float(expected(step)) for step in range(11)]


def test_warm_up_rises_to_the_highest_rate() -> None:
    """Before a constant, and before a cosine over the rest of the steps."""
    rise = [0.25, 0.5, 0.75, 1.0]
    cosine = [(1 + np.cos(np.pi * step / 6)) / 2 for step in range(7)]

    np.testing.assert_allclose(rates("constant", 1.0, 10, 0.4), [*rise, *[1.0] * 7])
    np.testing.assert_allclose(rates("cosine", 1.0, 10, 0.4), [*rise, *cosine], atol=1e-7)


def test_kernels_are_decayed_and_nothing_else() -> None:
    """Of a model with an embedding, a convolution, normalization, attention and dense layers."""
    ids = keras.Input([4], dtype="int32")
    x = keras.layers.Embedding(3, 2)(ids)
    x = keras.layers.Conv1D(2, 1)(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.LayerNormalization(axis=(1, 2))(x)
    x = keras.layers.MultiHeadAttention(2, 2)(x, x)
    model = keras.Model(ids, keras.layers.Dense(1)(x))
    adam = optimizer.make(train(weight_decay=0.5), STEPS)
    adam.build(model.trainable_variables)
    before = [np.array(variable) for variable in model.trainable_variables]
    adam.apply([tf.zeros(variable.shape) for variable in model.trainable_variables])
    moved = {
        variable.path.split("/")[-1]
        for variable, value in zip(model.trainable_variables, before, strict=True)
        if not np.array_equal(variable, value)
    }

    assert moved == {"kernel"}


def test_the_optimizer_can_be_saved_with_a_model(tmp_path: Any) -> None:
    """In Keras' own format, with its schedule."""
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.compile(optimizer.make(train(accumulate=2, clip_norm=1.0), STEPS), "mse")
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").optimizer

    assert loaded.get_config() == model.optimizer.get_config()


def scaled(gradient: float, scale: float) -> Any:
    """Returns the gradient of a scaled loss."""
    return tf.fill([2], tf.constant(gradient * scale, tf.float32))


def test_a_scaled_loss_changes_nothing_but_the_range_of_gradients() -> None:
    """The scale is a power of two: the values are bit-equal."""
    plain, adam = (optimizer.make(train(), STEPS, scaled=is_scaled) for is_scaled in (False, True))
    values = []
    for each, scale in ((plain, 1.0), (adam, 2.0**15)):
        (bias,) = chosen = variables()[-1:]
        each.build(chosen)
        for gradient in (0.1, -0.3, 0.2):
            each.apply([scaled(gradient, scale)])
        values.append(np.array(bias).tolist())

    assert float(adam.scale_loss(tf.constant(2.0))) == 2.0**16
    assert values[1] == values[0]


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_step_with_gradients_that_are_not_finite_is_left_out(wrong: float, accumulate: int) -> None:
    """The scale is halved, values and moments stay, and the step counts for the schedule."""
    (bias,) = chosen = variables()[-1:]
    adam = optimizer.make(train(accumulate=accumulate), STEPS, scaled=True)
    adam.build(chosen)
    adam.apply([tf.constant([wrong, 1.0])])

    assert np.array(bias).tolist() == [1.0, 1.0]
    assert [float(adam.scale_loss(tf.constant(1.0))), int(adam._iterations)] == [2.0**14, 1]
    assert all(np.isfinite(np.array(variable)).all() for variable in adam.variables)


def test_an_update_is_the_mean_of_the_finite_steps() -> None:
    """A step that is left out does not count as a gradient of 0, and without any there is no update."""
    found = []
    for steps in ([0.4, float("inf"), 0.2, *[float("nan")] * 3], [0.4, 0.2, 0.3, *[float("nan")] * 3]):
        (bias,) = chosen = variables()[-1:]
        adam = optimizer.make(train(accumulate=3, schedule="constant"), STEPS, scaled=True)
        adam.build(chosen)
        for step, gradient in enumerate(steps):
            adam.apply([scaled(gradient, float(adam.scale_loss(tf.constant(1.0))))])
            if step == 2:
                moments = np.array(adam._momentums[0]).tolist()
        after = np.array(bias).tolist()
        found.append((moments, np.array(adam._momentums[0]).tolist() == moments, after))

    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    assert [unchanged for _, unchanged, _ in found] == [True, True]
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-6)


def test_good_steps_double_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a number of them in a row."""
    monkeypatch.setattr(optimizer, "_GOOD_STEPS", 2)
    adam = optimizer.make(train(), STEPS, scaled=True)
    adam.build(variables()[-1:])
    found = []
    for gradient in (1.0, float("inf"), 1.0, 1.0):
        adam.apply([scaled(gradient, 1.0)])
        found.append(float(adam.scale_loss(tf.constant(1.0))))

    assert found == [2.0**15, 2.0**14, 2.0**14, 2.0**15]


@pytest.mark.all
def test_two_replicas_give_the_weights_of_one_device() -> None:
    """With clipping and decay, and with accumulation, too: gradients are added over replicas before all of these."""
    words = [sys.executable, "-m", "tests.training.optimizer_replicas"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)

    np.testing.assert_allclose(orjson.loads(done.stdout), [0, 0], atol=1e-5)
