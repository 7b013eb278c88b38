"""Writes settings into a user's TOML file, and leaves all the rest of it as it is: comments, order, other tables.

    lines ─► where does image.input.prefetch stand? ─► that value, or a new line, or a new table
          ─► parsed again: exactly what was wanted has changed, or nothing is written

The lock has no library that edits TOML, and needs none: what this cannot edit it says, with the lines to add by hand.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli

from components.errors import SettingsError
from components.storage import durable

KeyPath = tuple[str, ...]
Value = bool | int | float | str


@dataclass(frozen=True)
class _Line:
    """A line of the file, and what it says: a table's header, a value, or nothing that matters here."""

    text: str
    table: KeyPath  # in which it stands, or which it opens
    key: KeyPath = ()  # of a value, below the table
    is_header: bool = False

    @property
    def path(self) -> KeyPath:
        return (*self.table, *self.key)


def write(path: Path, table: KeyPath, values: Mapping[str, Value]) -> None:
    """Sets values of one table in the file, which is made if it is not there; it changes whole or not at all."""
    target = path.resolve()  # a link stays a link
    old = _read(target)
    new = edited(old, table, values)
    if new is None:
        lines = [f"[{'.'.join(table)}]", *(f"{key} = {literal(value)}" for key, value in values.items())]
        raise SettingsError(
            f"settings file {path}: cannot be edited without disturbing what is in it; nothing was written. "
            "Add this yourself:\n" + "\n".join(lines)
        )
    mode = target.stat().st_mode if target.exists() else None
    with durable.publish_file(target) as aside:
        aside.write_bytes(new.encode())
        if mode is not None:
            aside.chmod(mode)


def edited(text: str, table: KeyPath, values: Mapping[str, Value]) -> str | None:
    """Returns the text with the values set, or nothing if that cannot be done by changing single lines."""
    wanted = _with(tomli.loads(text), table, values)
    for key, value in values.items():
        text = _set(text, table, key, literal(value))
    try:
        return text if tomli.loads(text) == wanted else None
    except tomli.TOMLDecodeError:
        return None


def literal(value: Value) -> str:
    """Returns a value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    # JSON's escapes are TOML's as well; what it leaves and TOML forbids is DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read(path: Path) -> str:
    try:
        # Bytes, because reading as text would turn the line ends of Windows into others.
        text = path.read_bytes().decode("utf-8")
        tomli.loads(text)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror}") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path}: not valid TOML: {error}") from None
    return text


def _set(text: str, table: KeyPath, key: str, value: str) -> str:
    lines = _parsed(text)
    end = "\r\n" if "\r\n" in text else "\n"
    there = [number for number, line in enumerate(lines) if line.key and line.path == (*table, key)]
    if there:
        new = _replaced(lines[there[0]].text, value)
        return _joined([*lines[: there[0]], new, *lines[there[0] + 1 :]])
    beside = [number for number, line in enumerate(lines) if _is_beside(line, table)]
    if not beside:
        gap = end if text.strip() else ""
        whole = text if not text or text.endswith("\n") else text + end
        return f"{whole}{gap}[{'.'.join(table)}]{end}{key} = {value}{end}"
    # After the last value of the table, written as its neighbours are: below a header, or with a dotted key.
    last = lines[beside[-1]]
    name = ".".join((*table[len(last.table) :], key))
    before = last.text if last.text.endswith("\n") else last.text + end
    indent = "" if last.is_header else last.text[: len(last.text) - len(last.text.lstrip())]
    return _joined([*lines[: beside[-1]], before, f"{indent}{name} = {value}{end}", *lines[beside[-1] + 1 :]])


def _is_beside(line: _Line, table: KeyPath) -> bool:
    """Whether a line opens the table, or is a value directly in it."""
    if line.is_header:
        return line.table == table
    return bool(line.key) and line.path[:-1] == table


def _joined(lines: Sequence[_Line | str]) -> str:
    return "".join(line if isinstance(line, str) else line.text for line in lines)


def _parsed(text: str) -> list[_Line]:
    """Returns what each line says by itself. One inside a value of several lines may be misread: `edited` notices."""
    table: KeyPath = ()
    found = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):  # splitlines knows line ends that TOML does not
        said = _said(line)
        if said is None or not said:
            found.append(_Line(line, table))
        elif line.lstrip().startswith("["):
            table = _chain(said)
            found.append(_Line(line, table, is_header=True))
        else:
            found.append(_Line(line, table, _chain(said)))
    return found


def _said(line: str) -> dict[str, Any] | None:
    try:
        return tomli.loads(line)
    except tomli.TOMLDecodeError:
        return None


def _chain(nested: Any) -> KeyPath:
    """Returns the keys from the outside in, as far as there is one only."""
    path: list[str] = []
    while isinstance(nested, dict) and len(nested) == 1:
        ((key, nested),) = nested.items()
        path.append(key)
    return tuple(path)


def _replaced(line: str, value: str) -> str:
    """Returns the line with another value, and with its comment."""
    head = line[: line.index("=") + 1]
    body = line.rstrip("\r\n")
    marks = [place for place, char in enumerate(body) if char == "#"]
    # A mark inside a string leaves the string open: what stands before it is no TOML.
    comment = next((place for place in marks if _said(body[:place])), len(body))
    kept = body[:comment]
    gap = kept[len(kept.rstrip()) :]
    return f"{head} {value}{gap}{line[comment:]}"


def _with(content: dict[str, Any], table: KeyPath, values: Mapping[str, Value]) -> dict[str, Any]:
    """Returns the content as it is to be."""
    if not table:
        return content | dict(values)
    inner = content.get(table[0], {})
    if not isinstance(inner, dict):
        raise SettingsError(f"settings file: {table[0]} = {inner!r}: expected a table")
    return content | {table[0]: _with(inner, table[1:], values)}
