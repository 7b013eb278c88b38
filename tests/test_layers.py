"""Imports go one way, and what decides what is due does so without TensorFlow, TFX and Beam.

cli ► execute ► plan, store, lock ► graph, config ► components: node code ► tasks ► features ► settings, errors
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]
COMPONENTS = sorted(path.relative_to(HOME).as_posix() for path in (HOME / "components").rglob("*.py"))
HEAVY = {"tensorflow", "tfx", "apache_beam", "keras"}

# Tested with TensorFlow alone, or without it.
WITHOUT_TFX = (
    "features", "tasks", "models", "settings", "errors", "durable", "hashing", "seal", "fingerprint", "ledger",
    "progress", "refs", "native",
)  # fmt: skip
# Loaded to decide what is due.
WITHOUT_TENSORFLOW = ("ingest/sources", "ingest/images", "ingest/manifest", "ingest/shards", "ingest/account")
DECIDING = ("graph", "plan", "store", "config", "lock", "cli")


def modules_below(*names: str) -> list[str]:
    """Returns the files that are one of these modules of components, or inside one of these packages."""
    heads = tuple(f"components/{name}" for name in names)
    return [file for file in COMPONENTS if file.removesuffix(".py").startswith(heads)]


def statements(node: ast.AST, *, functions: bool) -> Iterator[ast.AST]:
    """Yields what is in a module, with or without what only runs when a function is called."""
    for child in ast.iter_child_nodes(node):
        yield child
        if functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from statements(child, functions=functions)


def imports(file: str, *, functions: bool = True) -> set[str]:
    """Returns the names that a file imports: of modules, and of what is taken out of them."""
    found = set()
    for node in statements(ast.parse((HOME / file).read_bytes()), functions=functions):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def packages(names: set[str]) -> set[str]:
    """Returns the top-level packages of imported names; TFX's protos are generated code without TFX."""
    return {name.split(".")[0] for name in names if not name.startswith("tfx.proto")}


def file_of(name: str) -> str | None:
    """Returns the file of ours behind an imported name, which may be something inside a module."""
    for parts in (name.split("."), name.split(".")[:-1]):
        for candidate in (f"{'/'.join(parts)}.py", f"{'/'.join(parts)}/__init__.py"):
            if (HOME / candidate).is_file():
                return candidate
    return None


def imported_at_once(file: str) -> dict[str, set[str]]:
    """Returns the packages that importing a file imports, by the file of ours that names them."""
    found: dict[str, set[str]] = {}
    waiting = [file]
    while waiting:
        each = waiting.pop()
        if each not in found:
            names = imports(each, functions=False)
            found[each] = packages(names)
            waiting += [ours for name in names if (ours := file_of(name))]
    return found


@pytest.mark.parametrize("file", COMPONENTS)
def test_components_know_nothing_of_pipelines(file: str) -> None:
    """What runs inside a node does not know when and where it runs."""
    assert "pipelines" not in packages(imports(file))


@pytest.mark.parametrize("file", modules_below(*WITHOUT_TFX))
def test_tasks_and_features_do_without_tfx(file: str) -> None:
    """TFX and Beam are imported at the rim only, not even inside a function here."""
    assert packages(imports(file)) & {"tfx", "apache_beam"} == set()


@pytest.mark.parametrize("file", modules_below(*WITHOUT_TENSORFLOW))
def test_listing_and_checking_raw_data_does_without_tensorflow(file: str) -> None:
    """The manifest is taken before anything heavy is imported."""
    assert packages(imports(file)) & HEAVY == set()


@pytest.mark.parametrize("name", DECIDING)
def test_deciding_modules_name_nothing_heavy(name: str) -> None:
    """Not even inside a function."""
    assert packages(imports(f"pipelines/{name}.py")) & HEAVY == set()


@pytest.mark.parametrize("name", [*DECIDING, "execute", "console"])
def test_deciding_modules_import_nothing_heavy_through_others(name: str) -> None:
    """What our own modules import when they are imported counts as well."""
    heavy = {file: named & HEAVY for file, named in imported_at_once(f"pipelines/{name}.py").items()}

    assert {file: named for file, named in heavy.items() if named} == {}


def test_a_heavy_import_would_be_found() -> None:
    """The check sees what build.py imports, itself and through others."""
    found = imported_at_once("pipelines/orchestration/build.py")

    assert "tfx" in found["pipelines/orchestration/build.py"]
    assert any("tensorflow" in packages for file, packages in found.items() if file.startswith("components/"))


def modules_after(script: str, cwd: Path) -> set[str]:
    """Returns the top-level modules that a fresh interpreter has after a script, whatever the script's exit code."""
    listing = "import atexit, sys; atexit.register(lambda: print('MODULES', *sys.modules))\n"
    done = subprocess.run([sys.executable, "-c", listing + script], cwd=cwd, capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.rpartition("MODULES")[2].split()}


def test_planning_imports_nothing_heavy(tmp_path: Path) -> None:
    """Plan, store and the run up to its decision load in a fraction of a second."""
    loaded = modules_after(
        "import pipelines.run, pipelines.orchestration.plan, pipelines.orchestration.store", tmp_path
    )

    assert loaded & HEAVY == set()
    assert "ml_metadata" in loaded


def test_help_imports_next_to_nothing(tmp_path: Path) -> None:
    """`penstock --help` answers at once."""
    script = "sys.argv = ['penstock', '--help']; from pipelines.cli import main; main()"

    assert modules_after(script, tmp_path) & {*HEAVY, "numpy", "pydantic", "ml_metadata"} == set()


def test_a_dry_run_imports_nothing_heavy(tmp_path: Path) -> None:
    """`penstock run image --dry-run` says what is due without what would do it."""
    (tmp_path / "data" / "cats").mkdir(parents=True)
    (tmp_path / "data" / "cats" / "1.png").write_bytes(b"cat")
    arguments = ["penstock", "run", "image", "--dry-run", "--data", "data", "--root", "root"]
    loaded = modules_after(f"sys.argv = {arguments}; from pipelines.cli import main; main()", tmp_path)

    assert loaded & HEAVY == set()
    assert "ml_metadata" in loaded


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """Not even the root's folder."""
    (tmp_path / "data" / "cats").mkdir(parents=True)
    (tmp_path / "data" / "cats" / "1.png").write_bytes(b"cat")
    arguments = ["penstock", "run", "image", "--dry-run", "--data", "data", "--root", "root"]
    modules_after(f"sys.argv = {arguments}; from pipelines.cli import main; main()", tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["data"]
