"""Run ids: `20261119-014433-7f3a`, the time in UTC and a random part. They sort by time.

    run 20261119-014433-7f3a                     several commands may have the same run id: they are its calls
    └─ contexts of type pipeline_run in MLMD     20261119-014433-7f3a, 20261119-014433-7f3a~2, …: one per call

Each call has a context of its own: TFX hands a node everything that was published in its context, also what an earlier
call of the same run published before the data changed.
"""

import re
import secrets
from datetime import datetime, timezone

from components.errors import SettingsError

_CALL = "~"  # before the number of a call; no run id contains it
_LONGEST = 100
# The ids of Airflow are valid: manual__2026-11-19T01:44:33+00:00
_VALID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:+@-]{{0,{_LONGEST - 1}}}", re.ASCII)


def new() -> str:
    """Returns a new run id."""
    return f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def check(text: str) -> str:
    """Returns a run id that a user gives; raises SettingsError if it cannot be one."""
    if not _VALID.fullmatch(text):
        raise SettingsError(
            f"--run-id {text[:_LONGEST]!r}: not a run id; expected up to {_LONGEST} letters, digits and . _ : + @ -, "
            "beginning with a letter or a digit"
        )
    return text


def context_of(run: str, call: int) -> str:
    """Returns the name of the pipeline_run context of a call."""
    return run if call == 1 else f"{run}{_CALL}{call}"


def of_context(name: str) -> str:
    """Returns the run that a pipeline_run context belongs to."""
    return name.partition(_CALL)[0]
