"""Lock files, packaging and set-up script."""

import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import tomli
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from components import cuda

ROOT = Path(__file__).resolve().parents[1]
WORKER = "pipelines/package/requirements-worker.lock"
LOCKS = {name: (ROOT / name).read_text() for name in ("requirements.lock", "requirements-gpu.lock", WORKER)}
PYPROJECT = tomli.loads((ROOT / "pyproject.toml").read_text())
FLAT_FOLDERS = ("components", "data", "pipelines", "schemas")


def locked(lock: str) -> dict[str, str]:
    """Returns the version of each locked package."""
    pins = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)", LOCKS[lock], re.MULTILINE)
    return {canonicalize_name(name): pin for name, pin in pins}


class TestLock:
    """All locks pin every package by version and hash."""

    @pytest.mark.parametrize("lock", LOCKS)
    def test_it_contains_no_address(self, lock: str) -> None:
        """Packages come from the index that the user has configured."""
        assert re.findall(r"\w+://.*|--(?:extra-)?index-url.*|--find-links.*|.* @ .*", LOCKS[lock]) == []

    @pytest.mark.parametrize("lock", LOCKS)
    def test_every_package_is_pinned_and_hashed(self, lock: str) -> None:
        """An entry is `name==version` and at least one SHA-256."""
        entries = re.split(r"\n(?=\S)", LOCKS[lock].strip())

        entry = re.compile(r"[\w.-]+(\[[\w,-]+\])?==[\w.+!-]+( ;[^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+")
        assert [text for text in entries if not entry.fullmatch(text)] == []

    def test_it_satisfies_pyproject(self) -> None:
        """Every dependency, optional ones included, is locked at an allowed version."""
        pins = locked("requirements.lock")
        project = PYPROJECT["project"]
        wanted = map(Requirement, chain(project["dependencies"], *project["optional-dependencies"].values()))

        unmet = [
            str(need) for need in wanted if not need.specifier.contains(pins.get(canonicalize_name(need.name), "0"))
        ]
        assert unmet == []

    def test_the_gpu_lock_adds_cuda_and_changes_nothing_else(self) -> None:
        """Other packages have the version that is tested; every wheel whose libraries are opened is there."""
        plain, gpu = locked("requirements.lock"), locked("requirements-gpu.lock")

        added = {name: gpu[name] for name in gpu.keys() - plain.keys()}
        wheels = {f"nvidia-{folder.replace('_', '-')}-cu12" for folder in (*cuda.LIBRARIES, "cuda_nvcc")}
        assert gpu == plain | added
        assert added.keys() == wheels

    def test_the_worker_lock_is_a_part_of_the_lock(self) -> None:
        """Workers have the tested versions, all that the group `worker` names, and no tools of developers."""
        plain, worker = locked("requirements.lock"), locked(WORKER)
        named = {canonicalize_name(Requirement(each).name) for each in PYPROJECT["dependency-groups"]["worker"]}
        project = PYPROJECT["project"]
        tools = [Requirement(each).name for each in (*project["optional-dependencies"]["dev"], "typer", "tomlkit")]

        assert worker.items() < plain.items()
        assert named <= worker.keys()
        assert not worker.keys() & {canonicalize_name(name) for name in tools}

    def test_python_3_10_is_required(self) -> None:
        """Both uv and pyenv read this file."""
        assert (ROOT / ".python-version").read_text() == "3.10\n"
        assert PYPROJECT["project"]["requires-python"] == ">=3.10,<3.11"


def test_every_package_folder_is_listed() -> None:
    """Setuptools does not discover packages in a flat layout: an unlisted one is missing in the wheel."""
    sources = (path for name in FLAT_FOLDERS for path in (ROOT / name).rglob("*.py") if "samples" not in path.parts)
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in sources}

    assert sorted(folders) == PYPROJECT["tool"]["setuptools"]["packages"]


FAKE_UV = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$1" in
    --version) echo "uv 9.9.9" ;;
    python) echo "$PYTHON" ;;
    venv) mkdir -p .venv/bin && ln -s "$PYTHON" .venv/bin/python ;;
    pip) [ "$2" != "$UV_FAILS_AT" ] ;;
esac
"""


class Tree:
    """A copy of the files that set-up reads, with a fake uv that records its calls, and a PATH of chosen commands."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin, self.calls = root / "tree", root / "bin", root / "calls"
        (self.root / "scripts").mkdir(parents=True)
        self.bin.mkdir()
        for name in (*LOCKS, "pyproject.toml", ".python-version", "scripts/setup.sh"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        for name in FLAT_FOLDERS:
            (self.root / name).mkdir(exist_ok=True)
        for name in (
            "bash",
            "sh",
            "cat",
            "cut",
            "dirname",
            "find",
            "grep",
            "ln",
            "mkdir",
            "mv",
            "rm",
            "sha256sum",
            "flock",
        ):
            self.command(name, f'#!/bin/sh\nexec {shutil.which(name)} "$@"\n')
        self.command("g++", "#!/bin/sh\n")
        self.command("uv", FAKE_UV)

    def command(self, name: str, script: str) -> None:
        """Puts a command on the PATH."""
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def setup(self, fails_at: str = "", gpu: str = "") -> subprocess.CompletedProcess[str]:
        """Runs the script; uv fails at the given sub-command of `uv pip`."""
        variables = {"PATH": self.bin, "CALLS": self.calls, "PYTHON": sys.executable, "UV_FAILS_AT": fails_at}
        environment = {name: str(value) for name, value in variables.items()} | {"GPU": gpu}
        self.calls.write_text("")
        bash = shutil.which("bash") or "bash"
        return subprocess.run(
            [bash, "scripts/setup.sh"], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )

    def synced(self) -> list[str]:
        """The locks that packages were installed from by the last set-up."""
        return [line.split()[-1] for line in self.calls.read_text().splitlines() if line.startswith("pip sync")]

    def uv_commands(self) -> list[str]:
        """The sub-commands of uv that were called, in order."""
        words = (line.split() for line in self.calls.read_text().splitlines())
        return [" ".join(word[: 2 if word[0] == "pip" else 1]) for word in words if word[0] != "--version"]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree before its first set-up."""
    return Tree(tmp_path)


class TestSetup:
    """scripts/setup.sh makes the environment once and completely."""

    def test_the_second_run_does_nothing(self, tree: Tree) -> None:
        """If the stamp matches, uv is not called."""
        first = tree.setup()
        assert first.returncode == 0, first.stderr
        assert tree.uv_commands() == ["python", "venv", "pip sync", "pip install"]

        second = tree.setup()

        assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
        assert tree.calls.read_text() == ""

    def test_changed_code_is_compiled(self, tree: Tree) -> None:
        """After a pull: bytecode and no installation, even if Python may not write bytecode itself."""
        assert tree.setup().returncode == 0
        os.utime(tree.root / ".venv" / ".penstock-compiled", (0, 0))
        module = tree.root / "components" / "pulled.py"
        module.write_text("")
        pulled, again = tree.setup(), tree.setup()

        assert pulled.stderr == "setup: compiling our own packages to bytecode\n"
        assert len(list(module.parent.glob("__pycache__/pulled.*.pyc"))) == 1
        assert tree.calls.read_text() == ""
        assert again.stderr == ""

    def test_packages_are_checked_by_hash_and_compiled(self, tree: Tree) -> None:
        """Hashes are enforced, for build dependencies as well."""
        tree.setup()

        (sync,) = (line for line in tree.calls.read_text().splitlines() if line.startswith("pip sync"))
        assert {"--require-hashes", "--compile-bytecode", "--build-constraints"} <= set(sync.split())

    def test_an_incomplete_environment_is_made_again(self, tree: Tree) -> None:
        """A set-up that was stopped left no stamp; its environment is removed."""
        assert tree.setup(fails_at="sync").returncode != 0
        (tree.root / ".venv" / "half").touch()

        assert tree.setup().returncode == 0
        assert tree.uv_commands() == ["python", "venv", "pip sync", "pip install"]
        assert not (tree.root / ".venv" / "half").exists()

    @pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml", "scripts/setup.sh"])
    def test_a_changed_file_updates_the_environment(self, tree: Tree, name: str) -> None:
        """The environment is kept, and its packages are synchronised with the lock."""
        tree.setup()
        with (tree.root / name).open("a") as file:
            file.write("\n")

        assert tree.setup().returncode == 0
        assert tree.uv_commands() == ["pip sync", "pip install"]

    def test_a_moved_tree_gets_a_new_environment(self, tree: Tree) -> None:
        """Commands in an environment contain the absolute path of its interpreter."""
        tree.setup()
        tree.root = tree.root.rename(tree.root.with_name("moved"))

        assert tree.setup().returncode == 0
        assert tree.uv_commands() == ["python", "venv", "pip sync", "pip install"]

    def test_a_failed_update_is_not_ready(self, tree: Tree) -> None:
        """The old stamp is removed before the first package changes."""
        tree.setup()
        with (tree.root / "requirements.lock").open("a") as file:
            file.write("\n")

        assert tree.setup(fails_at="sync").returncode != 0
        assert not (tree.root / ".venv" / ".penstock-ready").exists()

    def test_a_missing_compiler_is_reported_before_any_download(self, tree: Tree) -> None:
        """The message names the command, why it is needed and how to install it."""
        (tree.bin / "g++").unlink()

        done = tree.setup()

        assert done.returncode == 1
        assert "g++ is missing" in done.stderr
        assert "apt-get install g++" in done.stderr
        assert tree.calls.read_text() == ""
        assert not (tree.root / ".venv").exists()

    def test_a_broken_python3_is_skipped(self, tree: Tree) -> None:
        """Without uv, and with a python3 that fails as a pyenv shim does, the next python is used."""
        (tree.bin / "uv").unlink()
        tree.command("python3", "#!/bin/sh\necho 'pyenv: version 3.10 is not installed' >&2\nexit 1\n")
        fake_uv = f"mkdir -p .tools/uv/bin && cp {tree.root}/fake-uv .tools/uv/bin/uv"
        (tree.root / "fake-uv").write_text(FAKE_UV)
        (tree.root / "fake-uv").chmod(0o755)
        tree.command("cp", f'#!/bin/sh\nexec {shutil.which("cp")} "$@"\n')
        tree.command("python", f'#!/bin/sh\ncase "$2 $3" in "pip install") {fake_uv} ;; "venv "*) exit 1 ;; esac\n')
        # The script's second candidate has a fixed path, which this machine may have: make the third one the only one.
        script = tree.root / "scripts" / "setup.sh"
        script.write_text(script.read_text().replace("/usr/bin/python3", "/nonexistent/python3"))

        done = tree.setup()

        assert done.returncode == 0, done.stderr
        assert "into .tools/uv with python\n" in done.stderr


class TestSetupWithCuda:
    """GPU=1, or a GPU that nvidia-smi shows, chooses the lock with CUDA."""

    def test_a_choice_is_kept_until_another_is_made(self, tree: Tree) -> None:
        """`make test` after `make setup GPU=1` does not remove CUDA; the environment is changed in place."""
        locks = []
        for gpu in ("", "1", "", "0", ""):
            assert tree.setup(gpu=gpu).returncode == 0
            locks.append(tree.synced())

        assert locks == [["requirements.lock"], ["requirements-gpu.lock"], [], ["requirements.lock"], []]

    @pytest.mark.parametrize("is_update", [False, True])
    def test_a_failed_set_up_keeps_the_choice(self, tree: Tree, is_update: bool) -> None:
        """The first one, or an update: the next set-up installs CUDA."""
        if is_update:
            assert tree.setup(gpu="0").returncode == 0
        assert tree.setup(fails_at="sync", gpu="1").returncode != 0

        assert tree.setup().returncode == 0
        assert tree.synced() == ["requirements-gpu.lock"]

    @pytest.mark.parametrize(
        ("answer", "lock"),
        [
            ("echo 'GPU 0: NVIDIA A100 (UUID: GPU-0)'", "requirements-gpu.lock"),
            ("echo 'No devices found.'", "requirements.lock"),
            ("echo 'NVIDIA-SMI has failed' >&2; exit 9", "requirements.lock"),
        ],
    )
    def test_the_first_set_up_asks_nvidia_smi(self, tree: Tree, answer: str, lock: str) -> None:
        """A driver without a GPU, or one that does not work, installs no CUDA."""
        tree.command("nvidia-smi", f"#!/bin/sh\n{answer}\n")

        assert tree.setup().returncode == 0
        assert tree.synced() == [lock]

    def test_another_value_is_rejected(self, tree: Tree) -> None:
        """Nothing is installed."""
        done = tree.setup(gpu="yes")

        assert (done.returncode, tree.calls.read_text()) == (1, "")
        assert "GPU is 'yes'; expected GPU=1 (install CUDA), GPU=0" in done.stderr


def test_the_shell_scripts_are_executable_and_parse() -> None:
    """`make` and CI call them directly."""
    for name in ("scripts/setup.sh", ".ci/run"):
        assert os.access(ROOT / name, os.X_OK), name
        subprocess.run(["bash", "-n", ROOT / name], check=True)
