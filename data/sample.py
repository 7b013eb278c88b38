"""Shared by all generators: writes a folder atomically and only once, and runs the command line.

    recipe (everything that decides the bytes) = stamp?  ─► keep the folder
                                               ≠         ─► write to a temporary folder ─► stamp ─► rename

The stamp is a file next to the folder: the folder itself contains only data.
"""

import argparse
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol


class Writer(Protocol):
    """Writes a sample and returns the number of its records."""

    def __call__(self, out: Path, limit: int | None = None) -> int:
        """Writes the first `limit` records (all by default) under `out`, unless they exist already."""


def write_whole(out: Path, recipe: Mapping[str, Any], write: Callable[[Path], None]) -> None:
    """Creates `out` with `write`, unless it exists and was written with the same recipe.

    Args:
        out: the folder. An older sample is replaced; any other folder is not touched.
        recipe: everything that decides the bytes, as plain values.
        write: fills the empty folder that it is given.

    Raises:
        FileExistsError: `out` exists and was not written by this function.
        ValueError: the recipe's limit is below 1.
    """
    from filelock import FileLock

    limit = recipe.get("limit")
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; expected 1 or more, or no limit for all records")
    stamp = json.dumps(recipe, sort_keys=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(_sibling(out, "lock")):
        if not _is_complete(out, stamp):
            _require_own(out)
            _replace(out, stamp, write)


def versions(*packages: str) -> dict[str, str]:
    """Returns the installed versions, for a recipe."""
    return {name: version(name) for name in packages}


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Writes JSON Lines in UTF-8, with keys in the given order."""
    lines = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


def count_lines(path: Path) -> int:
    """Returns the number of lines of a file."""
    with path.open("rb") as file:
        return sum(1 for _ in file)


def command(write: Writer, program: str, summary: str, default_out: Path, argv: list[str] | None = None) -> int:
    """Parses the command line, writes the sample and prints the number of records."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=summary)
    parser.add_argument("--out", type=Path, default=default_out, help="folder to write (default: %(default)s)")
    parser.add_argument("--limit", type=int, help="number of records (default: all)")
    arguments = parser.parse_args(argv)
    try:
        count = write(arguments.out, arguments.limit)
    except (FileExistsError, ValueError) as error:
        parser.error(str(error))
    print(f"{count:,} records in {arguments.out}")
    return 0


def _sibling(out: Path, kind: str) -> Path:
    return out.with_name(f".{out.name}.{kind}")


def _is_complete(out: Path, stamp: str) -> bool:
    path = _sibling(out, "complete")
    return out.is_dir() and path.is_file() and path.read_text() == stamp


def _require_own(out: Path) -> None:
    if out.exists() and not _sibling(out, "complete").is_file():
        raise FileExistsError(
            f"{out} exists and was not written by this generator; remove it, or choose another folder with --out"
        )


def _replace(out: Path, stamp: str, write: Callable[[Path], None]) -> None:
    partial, old = _sibling(out, "partial"), _sibling(out, "old")
    for leftover in (partial, old):  # of a killed call
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir()
    write(partial)
    if out.exists():
        out.rename(old)
    # The stamp comes first: if the process is killed between the two lines, it has no folder and is ignored.
    _sibling(out, "complete").write_text(stamp)
    partial.rename(out)
    shutil.rmtree(old, ignore_errors=True)
