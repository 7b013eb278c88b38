"""Digests of the source files that a node's code reaches: the part of the cache key that TFX leaves out.

    entry modules of a node ─► the modules that they import, and so on (parsed by `ast`, never run)
                            ─► {"components/training/trainer.py": "3f2a…", …}

An import inside a function counts. An import under `if TYPE_CHECKING:` never runs, so it does not count. A module that
is named by a string (parts of a Task, `input.maps`) cannot be seen here: the planner passes it as an entry of the node
that loads it.

Entries outside this project are found on the Python path; their imports are followed within the folder that holds their
top-level package. A package installed by pip counts as a whole, by the digests that pip recorded for its files.
"""

import ast
import hashlib
import importlib.util
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import machinery, metadata
from pathlib import Path

from components.errors import PenstockError, SettingsError

PACKAGES = ("components", "pipelines", "schemas", "data")
HOME = Path(__file__).resolve().parent.parent
_NATIVE = {".cc", ".h"}
_MODULE_FILES = (".py", "/__init__.py", *machinery.EXTENSION_SUFFIXES)
INSTALLED = {Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}


def sources(entries: Iterable[str], home: Path = HOME) -> dict[str, str]:
    """Returns the digest of every source file that `entries` reach, by its path below `home` or the Python path."""
    seen: dict[str, str] = {}
    for entry in entries:
        folder = folder_of(entry, home)
        if folder in INSTALLED:
            seen.update(_installed(entry.partition(".")[0], folder))
        else:
            _add_reachable(entry, folder, home, seen)
    return dict(sorted(seen.items()))


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Returns the files that differ between two fingerprints."""
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _add_reachable(entry: str, folder: Path, home: Path, seen: dict[str, str]) -> None:
    waiting = [(module, folder) for module in _with_packages(entry)]
    while waiting:
        module, folder = waiting.pop()
        file = _file_of(module, folder)
        if file is None:  # a namespace package
            continue
        name = file.relative_to(folder).as_posix()
        if name not in seen:
            content = file.read_bytes()
            seen[name] = _digest(content)
            seen.update(_native_sources(file, folder))
            if file.suffix == ".py":
                waiting.extend(_imports_of(content, module, folder, home))


def _native_sources(file: Path, folder: Path) -> dict[str, str]:
    """Returns the digests of the C++ files in a package's folder, which the package builds."""
    if file.name != "__init__.py":
        return {}
    found = sorted(path for path in file.parent.iterdir() if path.suffix in _NATIVE)
    return {path.relative_to(folder).as_posix(): _digest(path.read_bytes()) for path in found}


def _installed(top: str, folder: Path) -> dict[str, str]:
    """Returns the digest of what pip recorded about the distribution of a package, else Python's version."""
    for distribution in metadata.distributions(path=[str(folder)]):
        record = distribution.read_text("RECORD") or ""
        if re.search(rf"^{re.escape(top)}(/|\.)", record, re.MULTILINE):
            return {f"{top} (installed)": _digest(record.encode())}
    return {f"{top} (Python)": platform.python_version()}


@lru_cache(maxsize=1024)
def _imports_of(content: bytes, module: str, folder: Path, home: Path) -> tuple[tuple[str, Path], ...]:
    """Returns the imported modules of this project and of the module's own folder, each with its folder."""
    try:
        tree = ast.parse(content)
    except SyntaxError as error:
        raise PenstockError(f"{module}, line {error.lineno}: {error.msg}; correct it before running") from None
    names = [name for node in _statements(tree) for name in _imported_names(node, module, folder)]
    found = [(name, home if _is_ours(name) else folder) for name in names if _is_ours(name) or not _is_ours(module)]
    return tuple((name, where) for name, where in found if _file_of(name, where))


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _statements(block: ast.AST) -> Iterator[ast.AST]:
    """Yields the statements of a block that can run, with those of the blocks inside it."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        if name == "body" and _is_for_type_checkers(block):
            continue
        for statement in getattr(block, name, ()):
            yield statement
            yield from _statements(statement)


def _is_for_type_checkers(block: ast.AST) -> bool:
    test = getattr(block, "test", None)
    return isinstance(block, ast.If) and "TYPE_CHECKING" in {getattr(test, "id", ""), getattr(test, "attr", "")}


def _imported_names(node: ast.AST, module: str, folder: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [name for alias in node.names for name in _with_packages(alias.name)]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(node, module, folder)
        # `from package import name`: name is a module, or something inside the package.
        return [*_with_packages(base), *(f"{base}.{alias.name}" for alias in node.names)]
    return []


def _absolute(node: ast.ImportFrom, module: str, folder: Path) -> str:
    if not node.level:
        return node.module or ""
    file = _file_of(module, folder)
    package = module if file is not None and file.name == "__init__.py" else module.rpartition(".")[0]
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def _with_packages(module: str) -> list[str]:
    # Importing a.b.c runs a/__init__ and a/b/__init__ too.
    parts = module.split(".")
    return [".".join(parts[: index + 1]) for index in range(len(parts))]


def folder_of(module: str, home: Path = HOME) -> Path:
    """Returns the folder of the Python path that holds a module; nothing is imported."""
    folders = [home] if _is_ours(module) else [Path(entry).absolute() for entry in sys.path]
    for folder in folders:
        if _file_of(module, folder):
            return folder
    if not _is_ours(module) and (hooked := _folder_of_hook(module)):
        return hooked
    raise SettingsError(
        f"module {module!r}: no source file below {home}"
        if _is_ours(module)
        else f"module {module!r}: not found on the Python path; install it, or add its folder to PYTHONPATH"
    )


def _folder_of_hook(module: str) -> Path | None:
    """Returns the folder of a package that an import hook finds, as `pip install -e` may install one."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    return origin.parents[1] if origin.name == "__init__.py" else origin.parent


def _file_of(module: str, folder: Path) -> Path | None:
    base = f"{folder}/{module.replace('.', '/')}"
    return next((file for end in _MODULE_FILES if (file := Path(base + end)).is_file()), None)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
