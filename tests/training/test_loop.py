"""The training loop on a small dense model with dropout, against Keras's fit and against itself."""

import os
import signal
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.errors import Cancelled, NotFinite, PenstockError, SettingsError
from components.input_pipeline import Position
from components.input_pipeline.probe import WaitMeter
from components.training import calls, checkpoint, loop
from components.training.checkpoint import Checkpoints
from components.training.loop import State, TrainingJob
from components.training.own_step import OwnStep
from components.training.stopping import Best

pytestmark = pytest.mark.slow

STEPS, EPOCHS, BATCH = 7, 3, 16
NOWHERE = Checkpoints(None)


def model(learning_rate: float = 0.01) -> Any:
    """Returns a compiled model; every call returns the same one."""
    keras.utils.set_random_seed(3)
    built = keras.Sequential(
        [keras.Input([4]), keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.5), keras.layers.Dense(2, "softmax")]
    )
    built.compile(keras.optimizers.Adam(learning_rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return built


def batches(start: Position = Position(), spoiled: int = -1) -> tf.data.Dataset:  # noqa: B008 - frozen
    """Returns the same batches from any position on; the batch with the number `spoiled` has an infinite value."""

    def batch(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = tf.random.stateless_normal([BATCH, 4], tf.stack([number, 1]))
        values += tf.where(number == spoiled, np.inf, 0.0)
        return values, tf.cast(values[:, 0] > 0, tf.int64)

    return tf.data.Dataset.counter(start.epoch * STEPS + start.step).map(batch)


def job(trained: Any, *, spoiled: int = -1, **changed: Any) -> TrainingJob:
    """Returns what the loop trains."""
    evaluation = batches(Position(100)).take(3)
    every = {"steps": STEPS, "epochs": EPOCHS, "evaluation": evaluation, "evaluation_steps": 3, "steps_per_call": 2}
    return TrainingJob(trained, lambda start: batches(start, spoiled), **{**every, **changed})


def train(trained: Any, checkpoints: Checkpoints = NOWHERE, callbacks: Sequence[Any] = (), **changed: Any) -> State:
    """Trains to the end."""
    return loop.train(job(trained, **changed), Best(), list(callbacks), checkpoints)


def weights(trained: Any) -> list[Any]:
    """Returns the values of all variables, of the optimizer and of dropout's generator too."""
    return [variable.numpy().tolist() for variable in (*trained.variables, *trained.optimizer.variables)]


class StopAt(keras.callbacks.Callback):
    """Does something at the end of a call."""

    def __init__(self, step: int, action: Any) -> None:
        """Takes the number of steps that are done by then."""
        super().__init__()
        self._step, self._action, self._epoch = step, action, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the epoch."""
        del logs
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Acts once."""
        del logs
        if self._epoch * STEPS + batch + 1 >= self._step:
            self._step = 10**9
            self._action(self)


def test_the_loop_is_bit_equal_to_fit() -> None:
    """Weights, optimizer, dropout's generator and history."""
    by_fit, by_loop = model(), model()
    history = by_fit.fit(
        batches(),
        steps_per_epoch=STEPS,
        epochs=EPOCHS,
        validation_data=batches(Position(100)).take(3),
        validation_steps=3,
        verbose=0,
    ).history
    state = train(by_loop)

    assert weights(by_loop) == weights(by_fit)
    assert {name: values for name, values in state.history.items() if "records" not in name} == history
    assert (state.history["records"], state.history["val_records"]) == ([STEPS * BATCH] * EPOCHS, [3 * BATCH] * EPOCHS)


@pytest.mark.parametrize("steps_per_call", [0, *(pytest.param(steps, marks=pytest.mark.all) for steps in (1, 100))])
def test_the_number_of_steps_per_call_changes_nothing(steps_per_call: int) -> None:
    """An epoch is never overrun."""
    once, again = model(), model()
    first, second = train(once), train(again, steps_per_call=steps_per_call)

    assert (weights(again), second.history) == (weights(once), first.history)


def test_waiting_for_batches_of_the_evaluation_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meter has the time of the training steps: here one second each, by a clock that no machine changes."""
    monkeypatch.setattr(calls, "timed", lambda get_next: (get_next(), tf.constant(1.0, tf.float64)))
    meter = WaitMeter()
    train(model(), meter=meter)

    assert meter.take() == STEPS * EPOCHS


class TestInterruption:
    """Checkpoints and signals."""

    @pytest.mark.parametrize(
        ("step", "signum"),
        [(5, signal.SIGTERM), (STEPS + 3, signal.SIGINT), (EPOCHS * STEPS, signal.SIGTERM)],
        ids=["first epoch", "Ctrl-C", "last step"],
    )
    def test_a_signal_leaves_a_checkpoint_to_continue_from(self, tmp_path: Path, step: int, signum: int) -> None:
        """B2, B3: the training that was interrupted ends as the one that was not."""
        straight, stopped, resumed = model(), model(), model()
        expected = train(straight)
        with pytest.raises(Cancelled) as cancelled:
            train(stopped, Checkpoints(tmp_path), [StopAt(step, lambda _: os.kill(os.getpid(), signum))])
        state = train(resumed, Checkpoints(tmp_path), steps_per_call=3)

        last = state.resumed[0]
        place = f"epoch {last['epoch'] + 1}, step {last['step']}"
        assert cancelled.value.signum == signum
        assert str(cancelled.value) == f"{last['cause']}; saved at {place}; run again to continue"
        assert (weights(resumed), state.history) == (weights(straight), expected.history)
        assert state.learning_rate == expected.learning_rate
        assert [(each["cause"], each["epoch"] * STEPS + each["step"] >= step) for each in state.resumed] == [
            (f"stopped by {signal.Signals(signum).name}", True)
        ]

    def test_a_signal_at_the_very_end_is_not_lost(self, tmp_path: Path) -> None:
        """B2: after the last epoch the training is complete, and the run ends all the same."""
        stop = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Cancelled):
            train(model(), Checkpoints(tmp_path), [stop], epochs=1)

        assert checkpoint.read(tmp_path / checkpoint.FILE).header["epoch"] == 1

    def test_a_signal_after_the_last_look_is_not_lost(self, tmp_path: Path) -> None:
        """B2: received while the last checkpoint is being written."""

        class Stopped(Checkpoints):
            def wait(self) -> None:
                super().wait()
                os.kill(os.getpid(), signal.SIGTERM)

        with pytest.raises(Cancelled):
            train(model(), Stopped(tmp_path), epochs=1)

        assert checkpoint.read(tmp_path / checkpoint.FILE).header["epoch"] == 1

    @pytest.fixture(scope="class")
    def finished(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The checkpoint of a finished training of one epoch."""
        folder = tmp_path_factory.mktemp("finished")
        train(model(), Checkpoints(folder), epochs=1, batch_size=BATCH)
        return folder

    @pytest.mark.parametrize(
        ("changed", "difference"),
        [
            ({"batch_size": 32}, "records per step 16, now 32"),
            ({"steps": 9}, "steps per epoch 7, now 9"),
            ({"precision": "mixed_bfloat16"}, "precision float32, now bfloat16"),
            ({"optimizer": "sgd"}, "other variables of the optimizer"),
        ],
        ids=["batch size", "steps", "precision", "optimizer"],
    )
    def test_other_conditions_are_an_error(self, finished: Path, changed: dict[str, Any], difference: str) -> None:
        """B3: on another machine, with the same cache key; values of other variables would be assigned, or counted."""
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(changed.pop("precision", "float32"))
        other = model()
        keras.config.set_dtype_policy(before)
        other.compile(changed.pop("optimizer", "adam"), "sparse_categorical_crossentropy", metrics=["accuracy"])
        with pytest.raises(SettingsError) as error:
            train(other, Checkpoints(finished), **{"batch_size": BATCH, **changed})

        assert str(error.value) == (
            f"the training that is to continue had {difference}; expected the same: run on devices of the same kind "
            "and number, with as many workers, or begin again with --force Trainer"
        )

    def test_the_file_does_not_stay_in_memory(self, finished: Path) -> None:
        """After a resume only what is needed is kept; the weights of the best epoch are copies."""
        checkpoints, best = Checkpoints(finished), Best()
        assert checkpoints.found is not None
        content = weakref.ref(checkpoints.found.arrays[0])
        loop.train(job(model(), epochs=1, batch_size=BATCH), best, [], checkpoints)

        assert (content(), checkpoints.found.arrays) == (None, ())
        assert {weight.flags.owndata for weight in best.weights} == {True}

    def test_time_makes_a_checkpoint_due(self, tmp_path: Path) -> None:
        """B3: within an epoch; a training that fails later continues from there."""

        def fail(callback: Any) -> None:
            raise RuntimeError(callback)

        straight, failed, resumed = model(), model(), model()
        expected = train(straight)
        checkpoints = Checkpoints(tmp_path, seconds=0)
        written = [StopAt(step, lambda _: checkpoints.wait()) for step in range(STEPS + 4)]
        with pytest.raises(RuntimeError):
            train(failed, checkpoints, [*written, StopAt(STEPS + 4, fail)])
        checkpoints.close()
        state = train(resumed, Checkpoints(tmp_path))

        assert (weights(resumed), state.history) == (weights(straight), expected.history)
        assert [(each["epoch"], each["step"]) for each in state.resumed] == [(1, 2)]

    def test_a_finished_training_is_not_repeated(self, tmp_path: Path) -> None:
        """After a kill during the export, the weights of the best epoch come from the checkpoint."""
        trained, again = model(), model()
        best, found = Best(), Best()
        loop.train(job(trained), best, [], Checkpoints(tmp_path))
        state = loop.train(job(again), found, [], Checkpoints(tmp_path))

        assert [weight.tolist() for weight in found.weights] == [weight.tolist() for weight in best.weights]
        assert (found.epoch, len(state.history["loss"])) == (best.epoch, EPOCHS)


class TestDivergence:
    """A9: a loss or a weight that is not finite."""

    def test_the_checkpoint_of_the_last_good_step_is_kept(self, tmp_path: Path) -> None:
        """A NaN in the second epoch; the error names the file, which can be loaded."""
        with pytest.raises(NotFinite) as error:
            train(model(), Checkpoints(tmp_path), spoiled=STEPS + 3)
        found = checkpoint.read(tmp_path / checkpoint.FILE)

        assert str(error.value) == (
            "the loss became nan in epoch 2, step 4; no model was exported, and the last good checkpoint, of epoch 2, "
            f"step 0, is {tmp_path / checkpoint.FILE}. Lower train.learning_rate, or check the data for extreme values"
        )
        assert (found.header["epoch"], found.header["step"]) == (1, 0)
        assert all(np.isfinite(array).all() for array in found.arrays)

    def test_weights_that_are_not_finite_are_not_saved(self, tmp_path: Path) -> None:
        """The step that spoils the weights has a finite loss."""

        def spoil(callback: Any) -> None:
            callback.model.variables[0].assign(np.full([4, 8], np.nan))
            os.kill(os.getpid(), signal.SIGTERM)

        with pytest.raises(NotFinite, match=r"^a weight is not finite after epoch 1, step 4; .*no checkpoint was"):
            train(model(), Checkpoints(tmp_path), [StopAt(3, spoil)])

        assert list(tmp_path.iterdir()) == []


def own_step(trained: Any, batch: Any) -> dict[str, Any]:
    """A step as users write it."""
    values, labels = batch
    with tf.GradientTape() as tape:
        predictions = trained(values, training=True)
        loss = trained.compute_loss(values, labels, predictions)
    gradients = tape.gradient(loss, trained.trainable_variables)
    trained.optimizer.apply_gradients(zip(gradients, trained.trainable_variables, strict=True))
    return {**trained.compute_metrics(values, labels, predictions), "loss": loss}


def test_an_own_step_trains_and_resumes(tmp_path: Path) -> None:
    """The same weights as Keras's step, also after an interruption; its logs are in the history."""
    by_keras, stopped, resumed = model(), model(), model()
    expected = train(by_keras)
    with pytest.raises(Cancelled):
        train(
            stopped,
            Checkpoints(tmp_path),
            [StopAt(STEPS + 2, lambda _: os.kill(os.getpid(), signal.SIGTERM))],
            step=partial(own_step, stopped),
        )
    state = train(resumed, Checkpoints(tmp_path), step=partial(own_step, resumed))

    assert weights(resumed) == weights(by_keras)
    assert state.history.keys() == expected.history.keys()
    assert state.history["accuracy"] == expected.history["accuracy"]


def no_dict(trained: Any, batch: Any) -> Any:
    """Returns a loss instead of logs."""
    return own_step(trained, batch)["loss"]


def nothing(trained: Any, batch: Any) -> None:
    """Forgets to return the logs."""
    own_step(trained, batch)


def raising(trained: Any, batch: Any) -> Any:
    """Has a fault."""
    return {"loss": trained.no_such_loss(batch)}


class TestFaultsOfAnOwnStep:
    """The message names the setting, the reference and the fault."""

    @pytest.mark.parametrize("step", [no_dict, nothing])
    def test_logs_are_a_dict(self, step: Any) -> None:
        """An error of the settings."""
        trained, reference = model(), f"{__name__}:{step.__name__}"
        with pytest.raises(SettingsError, match=f"^train.step {reference} must return a dict of logs, such as"):
            train(trained, step=OwnStep(reference, trained))

    def test_the_first_line_is_the_fault(self) -> None:
        """The outcome of a run shows the first line of an error."""
        trained = model()
        with pytest.raises(PenstockError) as failed:
            train(trained, step=OwnStep(f"{__name__}:raising", trained))

        fault = "AttributeError: 'Sequential' object has no attribute 'no_such_loss'"
        assert str(failed.value).splitlines()[0] == f"train.step {__name__}:raising failed: {fault}"

    @pytest.mark.parametrize(("name", "why"), [("no_package:step", "No module named"), (f"{__name__}:none", "none")])
    def test_a_function_that_cannot_be_imported(self, name: str, why: str) -> None:
        """The message says where modules are looked for."""
        with pytest.raises(SettingsError, match=f"^train.step {name}: .*{why}.*on PYTHONPATH$"):
            OwnStep(name, model())


def test_keras_callbacks_run_unchanged() -> None:
    """Those that follow calls and epochs, and those that stop the training."""
    seen: list[str] = []
    every = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: seen.append("begin"),  # noqa: ARG005 - Keras passes it by name
        on_train_end=lambda logs: seen.append("end"),  # noqa: ARG005
        on_epoch_begin=lambda epoch, logs: seen.append(f"epoch {epoch}"),  # noqa: ARG005
        on_epoch_end=lambda epoch, logs: seen.append(f"epoch {epoch} {sorted(logs)}"),
        on_train_batch_end=lambda batch, logs: seen.append(f"batch {batch}"),  # noqa: ARG005
    )
    stop = keras.callbacks.EarlyStopping("records", patience=0, mode="max")  # as many in every epoch: never more
    train(model(), callbacks=[every, stop])
    logs = ["accuracy", "loss", "records", "val_accuracy", "val_loss", "val_records"]
    epochs = [[f"epoch {e}", *(f"batch {batch}" for batch in (1, 3, 5, 6)), f"epoch {e} {logs}"] for e in range(2)]

    assert seen == ["begin", *epochs[0], *epochs[1], "end"]


class TestBest:
    """The best epoch and early stopping."""

    @pytest.mark.parametrize(
        ("name", "values", "best", "stopped"),
        [
            ("val_loss", [3.0, 2.0, 2.0, 2.5], 1, 3),
            ("val_accuracy", [0.1, 0.3, 0.2, 0.3], 1, 3),
            ("rmse", [3.0, 2.0, 1.0, 0.5], 3, None),
        ],
    )
    def test_the_first_of_the_best_epochs_counts(
        self, name: str, values: list[float], best: int, stopped: int | None
    ) -> None:
        """Lower or higher, by the name; training stops after two epochs that are not better."""
        trained, kept = model(), Best(name, patience=2)
        stops = [kept.update(epoch, {name: value}, trained) for epoch, value in enumerate(values)]

        assert (kept.epoch, kept.value) == (best, values[best])
        assert [epoch for epoch, stop in enumerate(stops) if stop] == ([] if stopped is None else [stopped])

    @pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
    def test_a_value_that_is_not_finite_is_never_the_best(self, wrong: float) -> None:
        """A9: not in the first epoch either."""
        kept = Best("val_accuracy")
        for epoch, value in enumerate([wrong, 0.3, wrong, 0.2]):
            kept.update(epoch, {"val_accuracy": value}, model())

        assert (kept.epoch, kept.value) == (1, 0.3)

    def test_no_finite_value_at_all_is_an_error(self) -> None:
        """A9: no model is exported."""
        kept = Best("val_auc", patience=2)

        assert [kept.update(epoch, {"val_auc": float("nan")}, model()) for epoch in range(2)] == [False, True]
        with pytest.raises(NotFinite, match=r"^train\.best_by is 'val_auc', which was NaN or infinite in every epoch;"):
            kept.assign(model())

    def test_a_name_that_the_history_does_not_have(self) -> None:
        """Said before the first step, with the names that there are."""
        with pytest.raises(SettingsError) as error:
            loop.train(job(model()), Best("val_auc"), [], NOWHERE)

        assert str(error.value) == "train.best_by is 'val_auc', expected one of: accuracy, loss, val_accuracy, val_loss"

    def test_a_name_without_a_known_direction(self) -> None:
        """Neither lower nor higher could be meant."""
        with pytest.raises(SettingsError, match=r"^train\.best_by is 'records': it is not known whether"):
            Best("records")
