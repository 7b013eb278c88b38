"""Penstock's wheel for the workers of an engine, packed from the checkout or from the installed files.

    checkout      ─► its packages  ─┐
                                    ├─► penstock-0.1.0+src….whl, the same bytes from both
    installed     ─► pip's RECORD  ─┘

A worker runs the code of nodes and no command, so this wheel requires only the packages of `requirements-worker.lock`
and installs no `penstock` command. No build tool runs: a worker image needs neither setuptools nor a network to compare
its code with ours. A test compares the content with the wheel that setuptools builds.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from components.errors import PenstockError
from components.fingerprint import HOME, PACKAGES
from pipelines.package import archive

NAME = "penstock"
WORKER_LOCK = Path(__file__).with_name("requirements-worker.lock")
_SUFFIXES = {".py", ".h", ".cc", ".pbtxt", ".css", ".j2", ".lock", ".sha256", ".xml"}
_KEPT = ("Metadata-Version", "Name", "Version", "Summary", "License", "Requires-Python", "Requires-Dist")


def build(out: Path) -> Path:
    """Writes the wheel into a folder, which is created if it does not exist, and returns its path."""
    files, chosen = _files(), version()
    out.mkdir(parents=True, exist_ok=True)
    return archive.write(out, NAME, chosen, files, {"METADATA": _metadata(chosen), "top_level.txt": _top_level()})


@lru_cache(maxsize=1)
def version() -> str:
    """Returns the version of the wheel that `build` writes, which `importlib.metadata` says on a worker too."""
    return archive.version(_distribution().version, {**_files(), "METADATA": _metadata("").encode()})


def requirements() -> dict[str, str]:
    """Returns the version of each package of the worker requirement set."""
    pins = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)", WORKER_LOCK.read_text(), re.MULTILINE)
    return {_canonical(name): pin for name, pin in pins}


def _distribution() -> metadata.Distribution:
    try:
        return metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        raise PenstockError("Penstock is not installed; run `make setup`, or install its wheel with pip") from None


@lru_cache(maxsize=1)
def _files() -> dict[str, bytes]:
    found = _of_checkout() if (HOME / "pyproject.toml").is_file() else _of_installation()
    return {name: (HOME / name).read_bytes() for name in sorted(found)}


def _of_checkout() -> Iterator[str]:
    """Yields the files of the packages; a folder without `__init__.py`, such as sample data, is not one of them."""
    for top in PACKAGES:
        for package in (HOME / top, *(each.parent for each in (HOME / top).rglob("*/__init__.py"))):
            yield from (str(each.relative_to(HOME)) for each in package.iterdir() if each.suffix in _SUFFIXES)


def _of_installation() -> Iterator[str]:
    """Yields the files that pip installed, without commands and metadata."""
    for each in _distribution().files or ():
        if each.parts[0] in PACKAGES and each.suffix in _SUFFIXES:
            yield each.as_posix()


def _metadata(version: str) -> str:
    """Returns the headers of the installed METADATA that count for a worker."""
    message, needed = _distribution().metadata, requirements()
    lines = [
        f"{key}: {version if key == 'Version' else value}"
        for key in _KEPT
        for value in message.get_all(key) or ()
        if key != "Requires-Dist" or _is_needed(value, needed)
    ]
    return "\n".join([*lines, ""])


def _is_needed(requirement: str, needed: dict[str, str]) -> bool:
    name = re.match(r"[\w.-]+", requirement)
    return name is not None and "extra ==" not in requirement and _canonical(name[0]) in needed


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _top_level() -> str:
    return "".join(f"{name}\n" for name in sorted(PACKAGES))
