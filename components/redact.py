"""Removes secrets from text: one function, used for everything that is written or printed.

| where a secret is                                                       | what is removed                |
|-------------------------------------------------------------------------|--------------------------------|
| environment variable or flag with a name like TOKEN                     | its value, wherever it appears |
| password in a URI, or AccountKey=… in a variable or flag with any name  | the same                       |
| URI with a user and a password; https URI with a token                  | all before the last @          |
| query of a URI, such as ?token=…; password=…; "password": "…"           | the value                      |
| header Authorization                                                    | the rest of the line           |
| webhook=https://… in a variable or flag with any name                   | the address                    |
"""

import functools
import html
import json
import os
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Sequence

_NAMES = (
    r"passw(?:or)?d|passphrase|[_-]pwd|secret|token(?!iz)|credentials?|connection[_-]?string|"
    r"(?:api|access|account|private)[_-]?key|webhook(?!_file)"
)
_NAME = re.compile(_NAMES, re.IGNORECASE)
_QUOTE = r"\\?[\"']|&quot;|&#x27;|&#39;"
# Where a pattern may begin, or how often it repeats, is limited: else its time grows with the square of a long word.
_FLAG = re.compile(  # '--token=…' up to the closing quote, --token='…', --token=…
    rf"(?P<quote>['\"])?(?P<key>(?<![\w-])-[\w-]*(?:{_NAMES})[\w-]{{0,64}}=)"
    r"(?(quote)(?:(?!(?P=quote)).)+|(?:'[^'\n]+'|\"[^\"\n]+\"|[^\s'\",\]]+))",
    re.IGNORECASE,
)
_PAIR = re.compile(  # password=…, "password": "…", also as HTML
    rf"(?P<key>(?:{_NAMES})(?:(?:{_QUOTE})\s*[:=]\s*|\s?=\s?)(?P<quote>{_QUOTE})?)"
    r"(?P<value>(?(quote)(?:(?!(?P=quote))(?:\\.|.))+|(?![\[{(])[^\s'\",;&<]+))",
    re.IGNORECASE,
)
_HEADER = re.compile(r"(\bauthorization['\"]?\s*[:=]\s*['\"]?)[^\n'\"]+", re.IGNORECASE)
# A password may contain / and @; host:80/a@b has none.
_USER = re.compile(
    r"(?<=://)[^\s'\"/:]*:(?!\d{1,5}[/?#])(?:(?!://|</)[^\s'\"])*(?=@)|"
    r"(?:(?<=http://)|(?<=https://))[^\s'\"/@:]+(?=@)"
)
_QUERY = re.compile(rf"([?&][\w.-]*(?:{_NAMES}|sig|auth)[\w.-]{{0,64}}=)[^&\s'\"<]+", re.IGNORECASE)
_WEBHOOK = re.compile(
    rf"(?P<key>webhook(?:{_QUOTE})?\s?[:=]\s?(?:{_QUOTE})?)(?P<value>https?://[^\s'\"<]+)", re.IGNORECASE
)
_HIDDEN = "***"
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    html.escape,
    urllib.parse.quote,
    urllib.parse.quote_plus,
    urllib.parse.unquote,
    lambda value: repr(value)[1:-1],
    lambda value: json.dumps(value)[1:-1],
    lambda value: html.escape(repr(value)[1:-1]),
)
_SHORTEST = 6  # characters of a secret: a shorter value would be replaced in ordinary text


def redact(text: str, known: Sequence[str] | None = None) -> str:
    """Returns the text with *** instead of secrets.

    Args:
        text: any text.
        known: the secrets of another process; by default those of this one.
    """
    for secret in secrets() if known is None else known:
        text = text.replace(secret, _HIDDEN)
    text = _WEBHOOK.sub(rf"\g<key>{_HIDDEN}", text)  # whole: for the other patterns, a value ends at & or ;
    text = _PAIR.sub(rf"\g<key>{_HIDDEN}", _FLAG.sub(rf"\g<quote>\g<key>{_HIDDEN}", text))
    return _HEADER.sub(rf"\1{_HIDDEN}", _QUERY.sub(rf"\1{_HIDDEN}", _USER.sub(_HIDDEN, text)))


def has_credentials(uri: str) -> bool:
    """Returns whether a URI contains a password or a token."""
    return _USER.search(uri) is not None or _QUERY.search(uri) is not None


def secrets() -> tuple[str, ...]:
    """Returns the secrets that this process was given, as they may be spelled in text, longest first."""
    return _spelled(tuple(os.environ.items()), tuple(sys.argv))


@functools.lru_cache(maxsize=1)  # a report redacts hundreds of texts
def _spelled(environment: tuple[tuple[str, str], ...], arguments: tuple[str, ...]) -> tuple[str, ...]:
    found = _values(environment, arguments)
    values = {value for value in found if not (value.startswith("/") and os.path.exists(value))}  # noqa: PTH110 - Path.exists raises for a long name
    values |= {line.strip() for value in values for line in value.splitlines()}  # a log is filtered line by line
    spelled = {spell(value) for value in values if len(value) >= _SHORTEST for spell in _SPELLINGS}
    return tuple(sorted(spelled, key=len, reverse=True))


def _values(environment: Sequence[tuple[str, str]], arguments: Sequence[str]) -> Iterator[str]:
    yield from (value for name, value in environment if _NAME.search(name))
    for flag, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = flag.partition("=")
        if name.startswith("-") and _NAME.search(name):
            yield value if equals else following
    for text in (*(value for _, value in environment), *arguments):
        yield from (found["value"] for pattern in (_PAIR, _WEBHOOK) for found in pattern.finditer(text))
        yield from (found[0].partition(":")[2] or found[0] for found in _USER.finditer(text))
