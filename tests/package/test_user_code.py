"""The wheel of the user's modules and data files."""

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from components.errors import SettingsError
from components.settings import tree
from components.tasks import get
from pipelines.package import user_code


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the Python path with a module, a package with a data file, and a hidden file."""
    files = {
        "steps.py": "import shop.prices\nfrom components import refs\ndef step(model, batch): ...\n",
        "shop/__init__.py": "",
        "shop/prices.py": "from pathlib import Path\nTABLE = (Path(__file__).parent / 'table.csv').read_text()\n",
        "shop/table.csv": "a,1\n",
        "shop/.env": "TOKEN=secret\n",
        "shop/__pycache__/prices.cpython-310.pyc": "",
        "other.py": "",
        "words/en.txt": "hello\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(path: Path | None) -> list[str]:
    """Returns the files of a wheel, without its metadata."""
    assert path is not None
    with zipfile.ZipFile(path) as opened:
        return [name for name in opened.namelist() if ".dist-info/" not in name]


def test_modules_are_those_that_settings_and_task_name() -> None:
    """Penstock's own are left out."""
    settings = tree.load(
        [{"input": {"maps": ["shop.prices:f", "components.features.image:g"]}, "train": {"step": "s:t"}}]
    )
    task = get("tabular")
    own = replace(task, parts=(replace(task.parts[0], encoder="mine.encoder:encodings"),), model="joined:build")

    assert user_code.modules(task, tree.load()) == []
    assert user_code.modules(task, settings) == ["s", "shop.prices"]
    assert user_code.modules(own, settings) == ["joined", "mine.encoder", "s", "shop.prices"]


def test_a_module_is_packed_with_what_it_imports_and_its_data_files(home: Path) -> None:
    """Whole packages, without hidden files and caches; unrelated modules stay."""
    made = user_code.build(home / "out", ["steps"])

    assert names(made) == ["shop/__init__.py", "shop/prices.py", "shop/table.csv", "steps.py"]


def test_included_files_keep_their_place(home: Path) -> None:
    """Relative to the folder of the Python path, however they are named."""
    made = user_code.build(home / "out", [], [Path("words"), home / "other.py"])

    assert names(made) == ["other.py", "words/en.txt"]


def test_the_version_follows_the_content(home: Path) -> None:
    """A worker with another version has other code."""
    first = user_code.build(home / "out", ["steps"])
    (home / "shop" / "table.csv").write_text("a,2\n")
    second = user_code.build(home / "out", ["steps"])

    assert first is not None
    assert second is not None
    assert first.name != second.name


def test_nothing_to_pack(home: Path) -> None:
    """No wheel is written."""
    assert user_code.build(home / "out", []) is None
    assert not (home / "out").exists()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing.txt", "does not exist"),
        ("shop/.env", "hidden files are not packed"),
        ("../outside.txt", "below neither the working folder nor a folder of PYTHONPATH"),
        ("link.txt", "a link to a file outside"),
    ],
)
def test_what_must_not_be_packed(home: Path, path: str, reason: str) -> None:
    """D4, D5: nothing outside of the user's folders, and no hidden files."""
    (home.parent / "outside.txt").write_text("secret")
    (home / "link.txt").symlink_to(home.parent / "outside.txt")

    with pytest.raises(SettingsError, match=reason):
        user_code.build(home / "out", [], [Path(path)])


def test_a_module_that_pip_installed_is_refused(home: Path) -> None:
    """The worker's image must install it too, and Penstock cannot know where from."""
    with pytest.raises(SettingsError, match="module 'yaml' is installed by pip"):
        user_code.build(home / "out", ["yaml"])
