"""What all generators share: a folder that is whole or not there, made once, and the command that makes it.

    recipe (all that decides the bytes) = stamp beside the folder?  ─► leave it
                                        ≠                           ─► write aside ─► stamp ─► rename into place

The stamp stands beside the folder, never inside: the folder holds data and nothing else.
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
        """Writes the first `limit` records (all by default) under `out`, unless they are there already."""


def write_whole(out: Path, recipe: Mapping[str, Any], write: Callable[[Path], None]) -> None:
    """Makes `out` by `write`, unless it is there and was made by the same recipe.

    Args:
        out: The folder. An older sample is replaced; a folder of anybody else's is left alone.
        recipe: All that decides the bytes, as plain values.
        write: Fills the folder it is given, which is there and empty.

    Raises:
        FileExistsError: `out` is there and was not written by this function.
        ValueError: the recipe's limit is below 1.
    """
    from filelock import FileLock

    limit = recipe.get("limit")
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; expected 1 or more, or none for all records")
    stamp = json.dumps(recipe, sort_keys=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(_beside(out, "lock")):
        if not _is_complete(out, stamp):
            _refuse_foreign(out)
            _replace(out, stamp, write)


def versions(*packages: str) -> dict[str, str]:
    """Returns what is installed, for a recipe."""
    return {name: version(name) for name in packages}


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Writes JSON Lines: UTF-8 as it is, keys in the order given."""
    lines = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


def count_lines(path: Path) -> int:
    """Returns the lines of a text file: in JSON Lines, its records."""
    with path.open("rb") as file:
        return sum(1 for _ in file)


def command(write: Writer, program: str, summary: str, default_out: Path, argv: list[str] | None = None) -> int:
    """Writes the sample that the command line asks for and says where it is."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=summary)
    parser.add_argument("--out", type=Path, default=default_out, help="folder to write (default: %(default)s)")
    parser.add_argument("--limit", type=int, help="how many records (default: all)")
    arguments = parser.parse_args(argv)
    try:
        count = write(arguments.out, arguments.limit)
    except (FileExistsError, ValueError) as error:
        parser.error(str(error))
    print(f"{count:,} records in {arguments.out}")
    return 0


def _beside(out: Path, kind: str) -> Path:
    return out.with_name(f".{out.name}.{kind}")


def _is_complete(out: Path, stamp: str) -> bool:
    path = _beside(out, "complete")
    return out.is_dir() and path.is_file() and path.read_text() == stamp


def _refuse_foreign(out: Path) -> None:
    if out.exists() and not _beside(out, "complete").is_file():
        raise FileExistsError(f"{out} was not written by this generator and is left alone; remove it or choose --out")


def _replace(out: Path, stamp: str, write: Callable[[Path], None]) -> None:
    partial, old = _beside(out, "partial"), _beside(out, "old")
    for leftover in (partial, old):  # of a call that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir()
    write(partial)
    if out.exists():
        out.rename(old)
    # The stamp comes first: killed between the two lines, it stands beside nothing and is ignored.
    _beside(out, "complete").write_text(stamp)
    partial.rename(out)
    shutil.rmtree(old, ignore_errors=True)
