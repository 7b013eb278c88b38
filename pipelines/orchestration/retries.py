"""Tries a node again after an error that may be gone, with longer and longer waits (`retry.*`).

    try 1 ─► error ─► transient? ─► wait 10 s ─► try 2 ─► error ─► wait 20 s ─► try 3 ─► error: raised
                          └ no: raised at once

An engine retries by itself: Flink starts the tasks of a lost worker again, and a job that it gave up is final here. So
a try is repeated either there or here, not in both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import sleep
from typing import TypeVar

import tenacity

from components.errors import PenstockError
from components.redact import redact
from components.settings.retry import Retry
from components.training import interrupt
from pipelines.orchestration import transient

T = TypeVar("T")
_LONGEST = 300  # characters of a message


@dataclass(frozen=True)
class FailedTry:
    """A try that failed and is repeated."""

    number: int  # from 1
    attempts: int  # at most
    reason: str  # such as "disk full"
    error: BaseException
    wait: float  # seconds until the next try

    @property
    def message(self) -> str:
        """First line of its error."""
        line = (str(self.error).strip().splitlines() or [""])[0]
        text = line if isinstance(self.error, PenstockError) else f"{type(self.error).__name__}: {line}"
        return redact(text)[:_LONGEST]

    def __str__(self) -> str:
        """Returns the message for the user."""
        return (
            f"try {self.number} of {self.attempts} failed ({self.reason}): {self.message}; "
            f"next try in {self.wait:g} s (retry.attempts, retry.first_wait)"
        )


def call(policy: Retry, attempt: Callable[[int], T], failed: Callable[[FailedTry], None]) -> T:
    """Returns what the first successful try returns; raises the error of the last try, or the first final one.

    Args:
        policy: how often, and how long to wait.
        attempt: one try; called with its number, from 1.
        failed: called before each wait.
    """

    def before_sleep(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if error is not None:  # always: a result is never tried again
            failed(
                FailedTry(state.attempt_number, policy.attempts, transient.reason(error), error, state.upcoming_sleep)
            )

    tries = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(policy.attempts),
        wait=tenacity.wait_exponential(multiplier=policy.first_wait, max=policy.max_wait),
        retry=tenacity.retry_if_exception(lambda error: bool(transient.reason(error))),
        before_sleep=before_sleep,
        sleep=sleep,
        reraise=True,
    )

    def one() -> T:
        with interrupt.preserved():  # an error while a signal ends the try, such as one of cleaning up, is no reason
            return attempt(tries.statistics["attempt_number"])

    return tries(one)
