"""Strings on a line of their own each, as vocabularies are stored: line breaks are escaped."""

import re
from typing import Any

import tensorflow as tf

_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"))
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def one_line(names: Any) -> Any:
    """Returns strings without line breaks; no two become one."""
    for plain, escaped in _ESCAPES:
        names = tf.strings.regex_replace(names, re.escape(plain), escaped.replace("\\", "\\\\"))
    return names


def restored(name: str) -> str:
    """Returns the string that `one_line` was given."""
    return _ESCAPED.sub(lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), name)
