"""Which edit reruns which node: the table in docs/architecture.md, computed from the nodes' fingerprints.

python -m pipelines.docs.reruns        writes the table between its two markers
"""

import ast
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from components import fingerprint, refs, tasks
from components.settings.tree import Settings
from pipelines.config import HOME
from pipelines.orchestration import graph, keys
from pipelines.orchestration.graph import Node

PAGE = HOME / "docs" / "architecture.md"
BEGIN, END = "<!-- reruns:begin -->", "<!-- reruns:end -->"
_FOLDERS = ("components", "pipelines")
_CODE = {".py", ".cc", ".h"}
_ALL_NODES = Settings.model_validate({"extract": {"model": "any"}, "train": {"warm_start": "any"}})
_LISTED = 3  # files that are named one by one in a row, even if no group of files in the folder is larger
Effects = Mapping[Path, frozenset[str]]  # by path relative to the repository


@lru_cache(maxsize=1)
def effects() -> Effects:
    """Returns for every source file the nodes whose own code it belongs to, in any shipped task."""
    found: dict[Path, set[str]] = {
        path.relative_to(HOME): set()
        for folder in _FOLDERS
        for path in sorted((HOME / folder).rglob("*"))
        if path.suffix in _CODE and not _is_empty(path)
    }
    for node in graph.nodes(_ALL_NODES):
        for path in map(Path, _code_of(node)):
            if path in found:
                found[path].add(node.id)
    return {path: frozenset(nodes) for path, nodes in found.items()}


def table() -> str:
    """Returns the table as Markdown."""
    rows = [f"| {path} | {nodes} |" for folder in _FOLDERS for path, nodes in _rows(Path(folder))]
    return "\n".join(["| edit of | reruns |", "|---|---|", *rows])


def updated(page: str) -> str:
    """Returns the page with the present table between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _code_of(node: Node) -> list[str]:
    if node.resolves:
        return []
    entries: set[str] = set()
    for task in map(tasks.get, tasks.NAMES):
        entries.update(graph.entry_modules(node, task))
        if node.id == "Ingest":
            entries.update(map(refs.module_of, task.sources))
    return [*fingerprint.sources(sorted(entries)), keys.WIRING]


def _is_empty(path: Path) -> bool:
    """Whether a file is an `__init__.py` with nothing but a docstring."""
    return path.name == "__init__.py" and len(ast.parse(path.read_bytes()).body) <= 1


def _rows(folder: Path) -> list[tuple[str, str]]:
    """Returns one row for a folder whose files have the same effect, else rows for its files and folders."""
    inside = {path: nodes for path, nodes in effects().items() if folder in path.parents}
    if len(set(inside.values())) == 1:
        return [(f"`{folder}/`", _names(next(iter(inside.values()))))]
    files: dict[frozenset[str], list[str]] = {}
    for path, nodes in inside.items():
        if path.parent == folder:
            files.setdefault(nodes, []).append(f"`{path.name}`")
    most = max(map(len, files.values()), default=0)
    rest = "other files" if len(files) > 1 else "its files"
    own = [
        (f"`{folder}/`: {rest if len(names) == most > _LISTED else ', '.join(names)}", _names(nodes))
        for nodes, names in sorted(files.items(), key=lambda item: len(item[1]))
    ]
    folders = sorted({folder / path.relative_to(folder).parts[0] for path in inside if path.parent != folder})
    return [*own, *(row for inner in folders for row in _rows(inner))]


def _names(nodes: frozenset[str]) -> str:
    order = [node.id for node in graph.nodes(_ALL_NODES) if not node.resolves]
    if len(nodes) == len(order):
        return "every node"
    return ", ".join(name for name in order if name in nodes) or "nothing"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
