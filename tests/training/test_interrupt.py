"""Signals that meet a library at work."""

import signal

import pytest
import tensorflow as tf

from components.errors import Cancelled
from components.training import interrupt


def test_an_error_of_a_cleanup_does_not_hide_the_signal() -> None:
    """B2: a signal in the middle of TensorFlow's device scopes stays a signal, although leaving them fails."""

    def work() -> None:
        with interrupt.raised(), tf.device("cpu:0"):
            tf.device("cpu:0").__enter__()  # a signal before the body of `with` leaves it open
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Cancelled) as stopped:
        work()

    assert (stopped.value.signum, type(stopped.value.__cause__)) == (signal.SIGTERM, RuntimeError)


def test_other_errors_pass() -> None:
    """An error without a signal is raised as it is."""
    with pytest.raises(RuntimeError, match="broken"), interrupt.preserved():
        raise RuntimeError("broken")
