"""How a retraining ended: its exit code and its last line, as a state of the tick.

| exit code | state                                                    |
|-----------|----------------------------------------------------------|
| 0         | pushed, up to date or withdrawn, as the last line says   |
| 3         | not better                                               |
| 5         | gate stopped                                             |
| 9         | late                                                     |
| 10        | skipped                                                  |
| a signal  | none: the tick is started again, up to three times       |
| others    | failed                                                   |
"""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from components.errors import GateStopped, Late, NotBlessed, Skipped
from components.redact import redact
from pipelines.schedule.policy import TickState

_STATES: dict[int, TickState] = {
    NotBlessed.exit_code: "not better",
    GateStopped.exit_code: "gate stopped",
    Late.exit_code: "late",
    Skipped.exit_code: "skipped",
}
_VERDICT = re.compile(
    r"(?:done: )?span \S+?(?:: |, | gave no )"
    r"(?P<what>pushed version|up to date|version|no version|its model was withdrawn|better model|not better"
    r"|gate stopped|late|skipped|failed)"
)
_CODES = {"gate stopped": GateStopped.exit_code, "not better": NotBlessed.exit_code, "late": Late.exit_code}
_LONGEST = 500  # characters of a reason


@dataclass(frozen=True)
class TickResult:
    """How the process of a tick ended."""

    state: TickState | None  # None: it did not come to its end
    reason: str
    exit_code: int | None


def result_of(code: int | None, output: Sequence[str]) -> TickResult:
    """Returns how a retraining ended.

    Args:
        code: its exit code, minus the number of the signal that ended it, or None if its end was not seen.
        output: the last lines that it printed.
    """
    line = next((each for each in reversed(output) if each.startswith(("span ", "done: ", "penstock: "))), "")
    found = _VERDICT.match(line)
    reason = redact(line.removeprefix("penstock: "))[:_LONGEST]
    if code is None and found:
        code = _code_of(found["what"])
    if code is None:
        return TickResult(None, "its process has ended, and left no verdict", None)
    if code < 0:
        return TickResult(None, f"its process was killed by {_name_of(-code)}", code)
    if code == 0:
        return TickResult(_success(found["what"] if found else ""), reason, 0)
    return TickResult(_STATES.get(code, "failed"), reason or f"exit code {code}", code)


def _name_of(signum: int) -> str:
    named = {each.value: each.name for each in signal.Signals}
    return named.get(signum, f"signal {signum}")  # a real-time signal has no name


def _code_of(what: str) -> int | None:
    if what in ("failed", "skipped"):  # which code, only its parent has learned
        return None
    return NotBlessed.exit_code if what == "better model" else _CODES.get(what, 0)


def _success(what: str) -> TickState:
    if what == "pushed version":
        return "pushed"
    return "withdrawn" if what == "its model was withdrawn" else "up to date"
