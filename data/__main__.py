"""Writes the sample data of a task: `python -m data text [--out FOLDER] [--limit N]`."""

import importlib
import pkgutil
import sys
from types import ModuleType

import data


def generators() -> dict[str, ModuleType]:
    """Returns the generator modules in this folder, by the name of their task."""
    names = [each.name for each in pkgutil.iter_modules(data.__path__) if not each.name.startswith("_")]
    modules = [importlib.import_module(f"data.{name}") for name in names]
    found = {module.DEFAULT_OUT.name: module for module in modules if hasattr(module, "DEFAULT_OUT")}
    return dict(sorted(found.items()))


def main(argv: list[str]) -> int:
    """Calls the generator of a task."""
    known = generators()
    if not argv or argv[0] not in known:
        print(f"usage: python -m data {{{','.join(known)}}} [--out FOLDER] [--limit N]", file=sys.stderr)
        return 2
    code: int = known[argv[0]].main(argv[1:])
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
