"""Runs the Trainer's run_fn again and again, each time in a forked process that is killed at a given moment.

    python -m tests.tasks.killed_training ARGUMENTS.json '[["step", 2], ["rename", 1], null]'

A process with the moment null is not killed. Prints the exit codes of all processes. Forking saves the import of
TensorFlow; nothing is computed before the fork. No model is exported: the last checkpoint and the history are compared.

| moment      | the process is killed                                        |
|-------------|--------------------------------------------------------------|
| step        | inside the n-th training step, in TensorFlow                 |
| evaluation  | inside the n-th evaluation step                              |
| write       | while a checkpoint is written: before the n-th fsync         |
| rename      | between the n-th complete checkpoint and its rename          |
| renamed     | after the n-th rename, before its folder is synced           |
"""

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import keras
import tensorflow as tf
from tfx.components.trainer.fn_args_utils import FnArgs

from components.serving import export, proof
from components.storage import durable
from components.training import trainer


class Trained(Exception):
    """Training is over, and its history is written."""


def end(*arguments: Any) -> NoReturn:
    """Ends run_fn where it exports the model."""
    raise Trained(arguments)


def kill_at(moment: str, number: int) -> None:
    """Puts a kill into the process."""
    ticks = [0]

    def tick() -> None:
        ticks[0] += 1
        if ticks[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def ticking(step: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            with tf.control_dependencies([tf.py_function(tick, [], [])]):
                return step(*arguments)

        return wrapped

    if moment == "step":
        keras.Model.train_step = ticking(keras.Model.train_step)
    elif moment == "evaluation":
        keras.Model.test_step = ticking(keras.Model.test_step)
    elif moment == "write":
        durable.fsync = before(tick, durable.fsync)
    else:
        replace = Path.replace
        Path.replace = before(tick, replace) if moment == "rename" else after(tick, replace)  # type: ignore[method-assign]


def before(tick: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that ticks first."""

    def wrapped(*arguments: Any) -> Any:
        tick()
        return function(*arguments)

    return wrapped


def after(tick: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that ticks last."""

    def wrapped(*arguments: Any) -> Any:
        done = function(*arguments)
        tick()
        return done

    return wrapped


def run(arguments: dict[str, Any], moment: list[Any] | None) -> int:
    """Runs the Trainer in a forked process; returns its exit code."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        if moment:
            kill_at(*moment)
        export.export, proof.fresh_process = end, contextlib.nullcontext  # type: ignore[assignment]
        trainer.run_fn(FnArgs(**arguments))
    except Trained:
        code = 0
    except BaseException:  # noqa: BLE001 - shown, and the child must not return
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps([run(given, moment) for moment in json.loads(sys.argv[2])]))
