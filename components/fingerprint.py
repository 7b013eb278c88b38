"""The source of the code a node uses, as a digest a file: the part of the cache key that TFX leaves out.

    node's entry modules ─► what they import of ours, and what that imports, … (read by `ast`, nothing is run)
                         ─► {"components/training/trainer.py": "3f2a…", …}

An import inside a function counts too. Code that is named by a string (a Task's parts) is not seen here: the graph
hands those modules in as entries of the nodes that load them.
"""

import ast
import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from components.errors import PenstockError

PACKAGES = ("components", "pipelines", "schemas", "data")
_NATIVE = {".cc", ".h"}
HOME = Path(__file__).resolve().parent.parent


def sources(entries: Iterable[str], home: Path = HOME) -> dict[str, str]:
    """Returns the digest of every source file that `entries` reach, by path relative to `home`."""
    seen: dict[str, str] = {}
    waiting = [module for entry in entries for module in _with_packages(entry)]
    while waiting:
        module = waiting.pop()
        file = _file_of(module, home)
        if file is None:
            raise ModuleNotFoundError(f"no source file for {module!r} below {home}")
        name = file.relative_to(home).as_posix()
        if name in seen:
            continue
        content = file.read_bytes()
        seen[name] = hashlib.sha256(content).hexdigest()[:16]
        seen.update(_native_sources(file, home))
        waiting.extend(_imports_of(content, module, home))
    return dict(sorted(seen.items()))


def _native_sources(file: Path, home: Path) -> dict[str, str]:
    """Returns the C++ beside a package's door, which it builds: it is as much its code as its Python is."""
    if file.name != "__init__.py":
        return {}
    found = sorted(path for path in file.parent.iterdir() if path.suffix in _NATIVE)
    return {path.relative_to(home).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in found}


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Returns the files that differ between two fingerprints."""
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


@lru_cache(maxsize=1024)
def _imports_of(content: bytes, module: str, home: Path) -> tuple[str, ...]:
    found: list[str] = []
    try:
        tree = ast.parse(content)
    except SyntaxError as error:
        raise PenstockError(f"{module}, line {error.lineno}: {error.msg}; nothing can run until it is mended") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found += _with_packages(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, home)
            found += _with_packages(base)
            # `from package import name`: name is a module of ours, or something inside the package.
            found += [f"{base}.{alias.name}" for alias in node.names]
    return tuple(name for name in found if name.split(".")[0] in PACKAGES and _file_of(name, home))


def _absolute(node: ast.ImportFrom, module: str, home: Path) -> str:
    if not node.level:
        return node.module or ""
    file = _file_of(module, home)
    package = module if file is not None and file.name == "__init__.py" else module.rpartition(".")[0]
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def _with_packages(module: str) -> list[str]:
    # Importing a.b.c runs a/__init__ and a/b/__init__ too.
    parts = module.split(".")
    return [".".join(parts[: index + 1]) for index in range(len(parts))]


def _file_of(module: str, home: Path) -> Path | None:
    base = home.joinpath(*module.split("."))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None
