"""Promise A15: a node's fingerprint holds every source file that its code can run, and no other."""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from components import tasks
from components.errors import SettingsError
from components.fingerprint import HOME, PACKAGES, changed, sources
from pipelines.orchestration import graph

Tree = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes source files, with an `__init__.py` in each package, and returns their folder."""

    def write(files: Mapping[str, str]) -> Path:
        for name, content in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            for package in file.relative_to(tmp_path).parents[:-1]:
                (tmp_path / package / "__init__.py").touch()
            file.write_text(content)
        return tmp_path

    return write


def reached(home: Path, *entries: str) -> set[str]:
    """Returns the files that entries reach, without the `__init__.py` files."""
    return {name for name in sources(entries, home) if not name.endswith("__init__.py")}


def test_a_file_has_the_digest_of_its_content(tree: Tree) -> None:
    """The first 16 digits of its SHA-256."""
    home = tree({"components/a.py": "x = 1\n"})

    assert sources(["components.a"], home)["components/a.py"] == hashlib.sha256(b"x = 1\n").hexdigest()[:16]


def test_imports_of_imports_count(tree: Tree) -> None:
    """And no other file does."""
    home = tree(
        {
            "components/a.py": "import components.b",
            "components/b.py": "from components import c",
            "components/c.py": "",
            "components/other.py": "",
        }
    )

    assert reached(home, "components.a") == {"components/a.py", "components/b.py", "components/c.py"}


@pytest.mark.parametrize(
    "line",
    [
        "import components.helper",
        "import components.helper as h",
        "import os, components.helper",
        "from components import helper",
        "from components import other_name, helper as h",
        "from components.helper import symbol",
        "from components.helper import *",
        "from . import helper",
        "from .helper import symbol",
        "def f():\n    from components import helper",
        "def f():\n    if True:\n        import components.helper",
        "class A:\n    import components.helper",
        "try:\n    import components.helper\nexcept ImportError:\n    pass",
        "try:\n    import os\nexcept ImportError:\n    import components.helper",
        "try:\n    import os\nfinally:\n    import components.helper",
        "while True:\n    match 1:\n        case 1:\n            import components.helper",
        "if not TYPE_CHECKING:\n    import components.helper",
    ],
)
def test_every_way_to_import_counts(line: str, tree: Tree) -> None:
    """A module or a symbol, absolute or relative, at the top or inside a function."""
    home = tree({"components/a.py": line, "components/helper.py": "symbol = 1", "components/other.py": ""})

    assert reached(home, "components.a") == {"components/a.py", "components/helper.py"}


@pytest.mark.parametrize(
    ("line", "helper"),
    [
        ("from . import near", "components/deep/near.py"),
        ("from .near import x", "components/deep/near.py"),
        ("from .. import far", "components/far.py"),
        ("from ..far import x", "components/far.py"),
        ("from ..wide.side import x", "components/wide/side.py"),
    ],
)
def test_relative_imports_are_resolved(line: str, helper: str, tree: Tree) -> None:
    """Dots go up from the module's package."""
    home = tree(
        {
            "components/deep/a.py": line,
            "components/deep/near.py": "",
            "components/far.py": "",
            "components/wide/side.py": "",
        }
    )

    assert reached(home, "components.deep.a") == {"components/deep/a.py", helper}


def test_a_relative_import_in_a_package_starts_in_the_package(tree: Tree) -> None:
    """`from . import x` in an `__init__.py` names a module next to that file."""
    home = tree(
        {"components/deep/near.py": "", "components/near.py": "", "components/deep/__init__.py": "from . import near"}
    )

    assert reached(home, "components.deep") == {"components/deep/near.py"}


def test_the_packages_above_an_import_count(tree: Tree) -> None:
    """Python runs their `__init__.py` files first."""
    home = tree({"components/a.py": "import components.deep.b", "components/deep/b.py": ""})

    assert sources(["components.a"], home).keys() == {
        "components/__init__.py",
        "components/a.py",
        "components/deep/__init__.py",
        "components/deep/b.py",
    }


def test_the_packages_above_an_entry_count(tree: Tree) -> None:
    """Even if the entry itself imports nothing of ours."""
    home = tree({"components/deep/a.py": "import os"})

    assert sources(["components.deep.a"], home).keys() == {
        "components/__init__.py",
        "components/deep/__init__.py",
        "components/deep/a.py",
    }


def test_what_a_package_file_imports_counts(tree: Tree) -> None:
    """It runs when any module of the package is imported."""
    home = tree(
        {"components/a.py": "", "components/helper.py": "", "components/__init__.py": "from components import helper"}
    )

    assert reached(home, "components.a") == {"components/a.py", "components/helper.py"}


def test_libraries_do_not_count(tree: Tree) -> None:
    """Their versions are another part of the key."""
    home = tree({"components/a.py": "import os\nimport numpy as np\nfrom tfx import v1", "numpy.py": ""})

    assert reached(home, "components.a") == {"components/a.py"}


def test_modules_that_import_each_other_are_read_once(tree: Tree) -> None:
    """A cycle ends."""
    home = tree({"components/a.py": "import components.b", "components/b.py": "import components.a"})

    assert reached(home, "components.a") == {"components/a.py", "components/b.py"}


def test_an_edit_of_a_helper_is_named(tree: Tree) -> None:
    """The fingerprint differs in that file and in no other."""
    home = tree({"components/a.py": "import components.b", "components/b.py": "x = 1"})
    before = sources(["components.a"], home)
    tree({"components/b.py": "x = 2"})

    assert changed(before, sources(["components.a"], home)) == ["components/b.py"]


def test_an_unrelated_edit_changes_nothing(tree: Tree) -> None:
    """Only files that are reached count."""
    home = tree({"components/a.py": "import components.b", "components/b.py": "", "components/other.py": "x = 1"})
    before = sources(["components.a"], home)
    tree({"components/other.py": "x = 2", "pipelines/new.py": "import components.a"})

    assert sources(["components.a"], home) == before


def test_a_new_and_a_removed_file_are_changes() -> None:
    """Files of either fingerprint are compared."""
    assert changed({"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4", "d": "5"}) == ["a", "c", "d"]


def test_a_module_without_source_file_is_an_error(tree: Tree) -> None:
    """A misspelt name must not produce an empty fingerprint."""
    home = tree({"components/a.py": ""})

    with pytest.raises(SettingsError) as refused:
        sources(["components.b"], home)
    assert str(refused.value) == f"module 'components.b': no source file below {home}"


@pytest.mark.parametrize(
    "guard",
    ["from typing import TYPE_CHECKING\nif TYPE_CHECKING:", "import typing\nif typing.TYPE_CHECKING:"],
)
def test_imports_for_type_checkers_do_not_count(guard: str, tree: Tree) -> None:
    """They never run; the `else` branch does."""
    home = tree(
        {
            "components/a.py": f"{guard}\n    from components import b\nelse:\n    from components import c\n",
            "components/b.py": "",
            "components/c.py": "",
        }
    )

    assert reached(home, "components.a") == {"components/a.py", "components/c.py"}


class TestModulesOfTheUser:
    """`input.maps` may name modules outside this project."""

    @pytest.fixture
    def user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A folder on the Python path with a package and single modules, all of which fail when they run."""
        folder = tmp_path / "user"
        for name, content in {
            "mine/__init__.py": "",
            "mine/maps.py": "import numpy\nfrom mine import noise\nfrom components import refs",
            "mine/noise.py": "",
            "mine/other.py": "",
            "single.py": "import beside\nimport os",
            "beside.py": "",
        }.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{content}\nraise AssertionError('run')\n")
        monkeypatch.syspath_prepend(folder)
        return folder

    def test_a_package_is_followed_within_itself_and_into_this_project(self, user: Path) -> None:
        """Nothing is run."""
        del user
        assert set(sources(["mine.maps"])) == {
            "mine/__init__.py",
            "mine/maps.py",
            "mine/noise.py",
            "components/__init__.py",
            "components/refs.py",
        }

    def test_a_single_module_is_followed_within_its_folder(self, user: Path) -> None:
        """Modules beside it are the user's too."""
        del user
        assert set(sources(["single"])) == {"single.py", "beside.py"}

    def test_an_edit_changes_the_digest(self, user: Path) -> None:
        """Of that file alone."""
        before = sources(["mine.maps"])
        (user / "mine" / "noise.py").write_text("x = 2")

        assert changed(before, sources(["mine.maps"])) == ["mine/noise.py"]

    def test_an_installed_package_counts_by_what_pip_recorded(self) -> None:
        """Its files are not read one by one."""
        assert list(sources(["rich.console"])) == ["rich (installed)"]

    def test_a_module_that_does_not_exist_is_named(self) -> None:
        """Before anything runs."""
        with pytest.raises(SettingsError) as refused:
            sources(["no_such_module"])
        assert str(refused.value) == (
            "module 'no_such_module': not found on the Python path; install it, or add its folder to PYTHONPATH"
        )


def closure(node: str) -> set[str]:
    """Returns the source files in the fingerprint of a node of the image pipeline."""
    return set(sources(graph.entry_modules(graph.find(node), tasks.get("image"))))


TRAINER_ONLY = {
    "components/training/trainer.py",
    "components/training/worker.py",  # started by name
    "components/input_pipeline/stages.py",
    "components/serving/export.py",
    "components/features/image.py",
    "components/models/image.py",
}


def test_the_trainers_fingerprint_has_the_model() -> None:
    """The Task names the model by reference."""
    assert closure("Trainer") >= TRAINER_ONLY


def test_the_trainers_fingerprint_has_the_native_decoder() -> None:
    """A15: C++ sources of a package count as well."""
    assert "components/native/decode/jpeg_batch.cc" in closure("Trainer")


@pytest.mark.parametrize("node", ["Ingest", "Schema", "StatisticsGen", "ExampleValidator", "Gate", "Transform"])
def test_earlier_nodes_do_not_depend_on_the_trainers_code(node: str) -> None:
    """After an edit only the Trainer and the nodes after it run."""
    assert closure(node) & TRAINER_ONLY == set()


@pytest.mark.parametrize(
    ("node", "files"),
    [
        (
            "Ingest",
            {
                "components/ingest/component.py",
                "components/ingest/images/__init__.py",
                "components/ingest/survey/listing.py",
                "components/ingest/write/shards.py",
                "components/ingest/write/files.py",
            },
        ),
        ("Gate", {"components/evaluation/gate.py", "components/records/manifest.py"}),
        ("Transform", {"components/fitting/preprocessing.py"}),
        ("Evaluator", {"components/evaluation/thresholds.py"}),
        ("Pusher", {"components/serving/pusher.py", "components/storage/durable.py"}),
    ],
)
def test_a_nodes_own_code_is_in_its_fingerprint(node: str, files: set[str]) -> None:
    """Including modules that the Task names by reference."""
    assert files - closure(node) == set()


LIST_IMPORTED = """
import sys, components.ingest.sources.image_folder, pipelines.run
print(*(module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)), sep="\\n")
"""


def test_no_file_that_python_imports_is_missed() -> None:
    """Every module that a new interpreter has loaded is in the fingerprint of what was imported."""
    done = subprocess.run([sys.executable, "-c", LIST_IMPORTED], cwd=HOME, capture_output=True, text=True, check=True)
    loaded = {Path(line).resolve() for line in done.stdout.splitlines()}
    ours = {file.relative_to(HOME).as_posix() for file in loaded if file.is_relative_to(HOME)}
    ours = {name for name in ours if name.split("/")[0] in PACKAGES}

    assert ours - sources(["components.ingest.sources.image_folder", "pipelines.run"]).keys() == set()
