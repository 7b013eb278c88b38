"""Removes secrets from text: one function, used for everything that is written or printed.

| where a secret is                                     | what is removed                |
|-------------------------------------------------------|--------------------------------|
| environment variable or flag with a name like TOKEN   | its value, wherever it appears |
| URI with a user and a password                        | both                           |
| query of a URI, such as ?token=…                      | the value                      |
"""

import html
import os
import re
import sys
import urllib.parse
from collections.abc import Iterator, Sequence

_NAMES = r"passw(?:or)?d|passphrase|secret|token|credential|api_?key|access_?key|account_?key|private_?key|signature"
_NAME = re.compile(_NAMES, re.IGNORECASE)
_FLAG = re.compile(rf"(-[\w-]*(?:{_NAMES})[\w-]*=)[^\s'\",\]]+", re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^/\s@'\"]*:[^/\s@'\"]*(?=@)")
_QUERY = re.compile(rf"([?&][\w.-]*(?:{_NAMES}|sig|auth)[\w.-]*=)[^&\s'\"<]+", re.IGNORECASE)
_HIDDEN = "***"
_SHORTEST = 6  # characters of a secret: a shorter value would be replaced in ordinary text


def redact(text: str, known: Sequence[str] | None = None) -> str:
    """Returns the text with *** instead of secrets.

    Args:
        text: any text.
        known: the secrets of another process; by default those of this one.
    """
    for secret in secrets() if known is None else known:
        text = text.replace(secret, _HIDDEN)
    return _QUERY.sub(rf"\1{_HIDDEN}", _USER.sub(_HIDDEN, _FLAG.sub(rf"\1{_HIDDEN}", text)))


def has_credentials(uri: str) -> bool:
    """Returns whether a URI contains a password or a token."""
    return _USER.search(uri) is not None or _QUERY.search(uri) is not None


def secrets() -> list[str]:
    """Returns the secrets that this process was given, as they may be spelled in text, longest first."""
    found = {value for value in _values() if len(value) >= _SHORTEST and not value.startswith("/")}
    spelled = {spell(value) for value in found for spell in (str, html.escape, urllib.parse.quote)}
    return sorted(spelled, key=len, reverse=True)


def _values() -> Iterator[str]:
    yield from (value for name, value in os.environ.items() if _NAME.search(name))
    for flag, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        name, equals, value = flag.partition("=")
        if name.startswith("-") and _NAME.search(name):
            yield value if equals else following
