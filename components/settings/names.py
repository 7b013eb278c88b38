"""Checks names and paths that a user types, and suggests the nearest known name."""

import difflib
import re
from collections.abc import Iterable

from components.errors import SettingsError

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


def check_name(name: str) -> str:
    """Returns `name` if it is a valid pipeline name and folder name."""
    if not NAME.fullmatch(name):
        raise SettingsError(
            f"pipeline name {name!r}: expected a lower-case letter, then lower-case letters, digits, - or _, "
            "at most 63 characters"
        )
    return name


def check_path(text: str) -> str:
    """Returns `text` if it can be a path on this machine; raises ValueError with the reason."""
    if "\0" in text:
        raise ValueError("a path cannot contain a NUL character")
    if "://" in text:
        raise ValueError("expected a path on this machine, not an address")
    return text


def check_place(text: str) -> str:
    """Returns `text` if it can be a folder on this machine or on an object store; raises ValueError with the reason."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return check_path(text)
    if scheme not in ("s3", "gs") or not rest.strip("/") or "\0" in text or "@" in rest or ".." in rest.split("/"):
        raise ValueError("expected a path on this machine, s3://bucket/folder or gs://bucket/folder")
    return text


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Returns a hint for a misspelt name: the nearest known name, or all known names."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
