"""Penstock's wheel for workers, and its requirements."""

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from components import fingerprint
from pipelines.package import archive, wheel

ROOT = Path(__file__).resolve().parents[2]


def content(path: Path) -> dict[str, bytes]:
    """Returns the files of a wheel, without its metadata."""
    with zipfile.ZipFile(path) as archive_:
        return {name: archive_.read(name) for name in archive_.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Penstock's wheel."""
    return wheel.build(tmp_path_factory.mktemp("wheel"))


def test_the_same_sources_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    """A second wheel differs in nothing, not even in times."""
    assert wheel.build(tmp_path / "again").read_bytes() == built.read_bytes()


def test_the_version_follows_the_sources() -> None:
    """Content or name of a file changes the local version; the base version stays."""
    versions = [archive.version("0.1.0", files) for files in ({"a": b"1"}, {"a": b"2"}, {"b": b"1"}, {"a": b"1"})]

    assert versions[0] == versions[3]
    assert len(set(versions)) == 3
    assert all(re.fullmatch(r"0\.1\.0\+src[0-9a-f]{12}", each) for each in versions)


@pytest.mark.slow
def test_it_contains_what_setuptools_packs(built: Path, tmp_path: Path) -> None:
    """The wheel that pip builds from the checkout has the same files."""
    sources = tmp_path / "sources"
    for name in ("pyproject.toml", "README.md", *content(built)):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "-w", tmp_path, sources], check=True, capture_output=True)

    (by_setuptools,) = tmp_path.glob("penstock-0.1.0-*.whl")
    assert content(built) == content(by_setuptools)


def test_an_installed_wheel_has_the_version_of_the_sources_and_packs_itself(built: Path, tmp_path: Path) -> None:
    """A worker is compared by its version; from its installed files the same bytes are packed."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    install: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        site,
        built,
    ]
    subprocess.run(install, check=True, capture_output=True)
    code = (
        "import sys; from pathlib import Path; from pipelines.package import wheel;"
        "from importlib.metadata import version; print(wheel.__file__);"
        "print(version('penstock')); print(wheel.build(Path(sys.argv[1])))"
    )
    command: list[str | Path] = [python, "-I", "-c", code, tmp_path / "again"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)

    where, version, again = done.stdout.split()
    assert where.startswith(str(site))
    assert version == wheel.version()
    assert Path(again).read_bytes() == built.read_bytes()


def test_an_edited_installation_has_another_version(built: Path) -> None:
    """The version is computed from the files, not read from the metadata."""
    files = content(built)
    edited = {**files, "components/refs.py": files["components/refs.py"] + b"\n"}

    assert archive.version("0.1.0", edited) != archive.version("0.1.0", files)


def test_it_requires_the_worker_set_and_installs_no_command(built: Path) -> None:
    """What a worker does not have is not required of it, and `penstock` would need it."""
    with zipfile.ZipFile(built) as opened:
        names = opened.namelist()
        (text,) = (opened.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    required = set(re.findall(r"^Requires-Dist: ([\w.-]+)", text, re.MULTILINE))

    assert {"tfx", "tensorflow", "apache-beam", "obstore"} <= required
    assert required <= wheel.requirements().keys()
    assert not required & {"typer", "tomlkit", "pytest", "ruff"}
    assert not [name for name in names if name.endswith("entry_points.txt")]


def test_all_packages_of_the_project_are_in_it(built: Path) -> None:
    """Sample data and caches are not."""
    tops = {name.partition("/")[0] for name in content(built)}

    assert tops == set(fingerprint.PACKAGES)
    assert not [name for name in content(built) if "samples" in name or "__pycache__" in name]
