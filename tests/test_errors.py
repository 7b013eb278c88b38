"""Scripts rely on exit codes: the table in the module's docstring has the real ones."""

import re
import signal

import pytest

from components import errors
from components.errors import Cancelled, PenstockError, causes, exit_code_of


def documented() -> dict[str, str]:
    """Returns the exit codes by error, as the docstring lists them."""
    return dict(re.findall(r"^[ │├└─]*(\w+) +([\d/]+)  \w", errors.__doc__ or "", re.MULTILINE))


def test_the_documented_codes_are_the_real_ones() -> None:
    """Every error of the module is in the table with its code."""
    others = [kind for kind in PenstockError.__subclasses__() if kind.__module__ == errors.__name__]
    plain: list[type[PenstockError]] = [PenstockError, *others]
    codes = {kind.__name__: str(exit_code_of(kind("x"))) for kind in plain}
    signals = (signal.SIGINT, signal.SIGTERM)

    assert documented() == {**codes, "Cancelled": "/".join(str(exit_code_of(Cancelled(s))) for s in signals)}


def test_no_two_outcomes_share_a_code() -> None:
    """The code alone identifies the outcome; 1 is for faults that no user's input has caused."""
    codes = [code for code in "/".join(documented().values()).split("/") if code != "1"]

    assert sorted(set(codes)) == sorted(codes)


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (ValueError("x"), 1), (MemoryError(), 1)])
def test_other_exceptions_have_a_code_too(error: BaseException, code: int) -> None:
    """Ctrl-C has its own; any other exception is an internal error."""
    assert exit_code_of(error) == code


def test_an_error_that_causes_itself_ends() -> None:
    """As `raise error from error` makes it, in code of a user too."""
    first, second = RuntimeError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    assert list(causes(first)) == [first, second]
