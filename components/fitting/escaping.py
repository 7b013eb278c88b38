"""Escapes line breaks, because vocabulary files hold one string per line."""

import re
from typing import Any

import tensorflow as tf

_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"))
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def escape(names: Any) -> Any:
    """Returns the strings with line breaks escaped; different strings stay different."""
    for plain, escaped in _ESCAPES:
        names = tf.strings.regex_replace(names, re.escape(plain), escaped.replace("\\", "\\\\"))
    return names


def unescape(name: str) -> str:
    """Returns the original of a string that `escape` returned."""
    return _ESCAPED.sub(lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), name)
