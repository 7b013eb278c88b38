"""Sets values in a user's TOML file; comments, order and all other tables stay as they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError
from tomlkit.items import Table

from components.errors import SettingsError
from components.storage import durable

Value = bool | int | float | str


def write(path: Path, table: tuple[str, ...], values: Mapping[str, Value]) -> None:
    """Sets the values of one table; creates the file if needed, and replaces it whole or not at all."""
    target = path.resolve()  # a symbolic link stays one
    old = target.read_bytes() if target.exists() else b""
    try:
        document = tomlkit.parse(old.decode().replace("\r\n", "\n"))
    except (ParseError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path}: not valid TOML: {error}; nothing was written") from None
    try:
        _set(_section(document, table), values)
        new = tomlkit.dumps(document)
        tomlkit.parse(new)
    except (TOMLKitError, ValueError) as error:
        raise SettingsError(
            f"settings file {path}: cannot be changed ({error}); nothing was written. Add these lines yourself:\n"
            + "\n".join(
                f"  {'.'.join(table)}.{name} = {tomlkit.item(value).as_string()}" for name, value in values.items()
            )
        ) from None
    with durable.publish_file(target) as temporary:
        temporary.write_bytes((new.replace("\n", "\r\n") if b"\r\n" in old else new).encode())
        if target.exists():
            temporary.chmod(target.stat().st_mode)


def _section(document: Any, table: tuple[str, ...]) -> Any:
    section = document
    for depth, name in enumerate(table, start=1):
        if name not in section:
            section[name] = tomlkit.table(is_super_table=depth < len(table))
        section = section[name]
    return section


def _set(section: Any, values: Mapping[str, Value]) -> None:
    # tomlkit counts the comment above the next table to this one: new keys go before it.
    trailing = []
    if isinstance(section, Table):
        body = section.value.body
        while body and body[-1][0] is None:
            trailing.append(body.pop()[1])
    section.update(values)
    for item in reversed(trailing):
        section.add(item)
