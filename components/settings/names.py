"""Names and paths that a user types: checked, and the nearest known one suggested."""

import difflib
import re
from collections.abc import Iterable

from components.errors import SettingsError

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


def check_name(name: str) -> str:
    """Returns `name` if it is safe as a pipeline name and a folder name."""
    if not NAME.fullmatch(name):
        raise SettingsError(
            f"pipeline name {name!r}: expected a lower-case letter, then letters, digits, - or _ (63 at most)"
        )
    return name


def not_a_path(text: str) -> str | None:
    """Returns why `text` is no plain path of this machine, if so."""
    if "\0" in text:
        return "a path cannot hold a NUL"
    return "expected a plain path of this machine, not an address" if "://" in text else None


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Returns a hint for a misspelt name: the nearest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
