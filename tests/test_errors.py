"""Exit codes are a promise to scripts: the table in the module's docstring is what processes end with."""

import re
import signal

import pytest

from components import errors
from components.errors import Cancelled, PenstockError, exit_code_of


def documented() -> dict[str, str]:
    """Returns the codes by error, as the docstring draws them."""
    return dict(re.findall(r"^[ │├└─]*(\w+) +([\d/]+)  \w", errors.__doc__ or "", re.MULTILINE))


def test_the_documented_codes_are_the_real_ones() -> None:
    """Every error of the module stands in the table with its own code."""
    plain: list[type[PenstockError]] = [PenstockError, *PenstockError.__subclasses__()]
    codes = {kind.__name__: str(exit_code_of(kind("x"))) for kind in plain}
    signals = (signal.SIGINT, signal.SIGTERM)

    assert documented() == {**codes, "Cancelled": "/".join(str(exit_code_of(Cancelled(s))) for s in signals)}


def test_no_two_outcomes_share_a_code() -> None:
    """A script can tell from the code alone what happened."""
    codes = "/".join(documented().values()).split("/")

    assert sorted(set(codes)) == sorted(codes)


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (ValueError("x"), 1), (MemoryError(), 1)])
def test_errors_of_others_have_a_code_too(error: BaseException, code: int) -> None:
    """Ctrl-C is told apart; anything unforeseen is internal."""
    assert exit_code_of(error) == code
