"""`penstock package`: the folder with everything that a worker needs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from components.errors import SettingsError
from pipelines.package import bundle, wheel

INSTRUCTIONS = ("FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "LABEL", "ENTRYPOINT")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of the user and a packed folder."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "own_step.py").write_text("def step(model, batch): ...\n")
    (folder / "words.txt").write_text("hello\n")
    flags = ["--set", "train.step=own_step:step", "--include", "words.txt", "--out", "packed"]
    command: list[str | Path] = [Path(sys.executable).with_name("penstock"), "package", "tabular", *flags]
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "penstock_user-0+src" in done.stdout
    return folder


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """Returns the instructions of a Dockerfile with their arguments, in order; fails on a line that is none."""
    lines = [line for line in dockerfile.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    found = [tuple(line.split(" ", 1)) for line in joined]
    assert [line for line in joined if line.split(" ")[0] not in INSTRUCTIONS] == []
    return found  # type: ignore[return-value]


def test_the_folder_has_all_that_the_dockerfile_copies(home: Path) -> None:
    """Each source of COPY from the context is a file in the folder, and every wheel is copied."""
    packed = home / "packed"
    parsed = instructions((packed / "Dockerfile").read_text())
    copied = [text.split()[0] for name, text in parsed if name == "COPY" and not text.startswith("--from")]
    stages = [text.split(" AS ")[1] for name, text in parsed if name == "FROM" and " AS " in text]

    assert sorted(copied) == sorted([bundle.LOCK, *(each.name for each in packed.glob("*.whl"))])
    assert len(copied) == 3
    assert re.findall(r"--from=(\w+)", str(parsed)) == stages == ["beam", "build"]


def test_the_dockerfile_installs_in_order(home: Path) -> None:
    """Locked packages with hashes, then the wheels without dependencies, then the check; at last not as root."""
    parsed = instructions((home / "packed" / "Dockerfile").read_text())
    text = "\n".join(" ".join(each) for each in parsed)
    steps = ["--require-hashes -r", "--no-deps /build/penstock-", "pip check", "components.native.build", "USER worker"]

    assert [text.find(step) for step in steps] == sorted(text.find(step) for step in steps)
    assert all(step in text for step in steps)
    assert parsed[0] == ("FROM", "apache/beam_python3.10_sdk:2.62.0 AS beam")
    assert parsed[-1] == ("ENTRYPOINT", '["/opt/apache/beam/boot"]')
    assert "RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT=1" in text


def test_no_secret_is_in_the_folder(home: Path) -> None:
    """D5: the Dockerfile takes no argument and sets no variable that could hold one; no path of this machine either."""
    texts = [(home / "packed" / name).read_text() for name in ("Dockerfile", "README.md")]

    assert not re.findall(r"(?i)\b(ARG|ADD|password|token|secret|api.?key)\b", texts[0])
    assert not [text for text in texts if str(home) in text or str(Path.home()) in text]


def test_the_tag_names_all_of_the_code(home: Path) -> None:
    """Penstock's part of it can be compared with the code of a run."""
    readme = (home / "packed" / "README.md").read_text()
    (tag,) = set(re.findall(r"worker:(\S+?)[\s`]", readme))

    assert bundle.code_of(f"registry.example/worker:{tag}") == tag
    assert tag.startswith(bundle.image_tag(wheel.version()))
    assert re.search(r"\.own-0-src[0-9a-f]{12}$", tag)
    assert re.fullmatch(r"[\w.-]{1,128}", tag)
    assert bundle.code_of("registry.example/worker:latest") == ""


def test_an_earlier_package_is_replaced_and_other_folders_are_kept(tmp_path: Path) -> None:
    """Nothing of the user's is deleted."""
    first = bundle.write(tmp_path / "out", [])
    (first.folder / "penstock-0.0.9-py3-none-any.whl").touch()  # of earlier code
    assert bundle.write(tmp_path / "out", []) == first
    assert len(list(first.folder.iterdir())) == 4

    (first.folder / "notes.txt").touch()
    with pytest.raises(SettingsError, match="holds other files"):
        bundle.write(tmp_path / "out", [])
    assert (first.folder / "notes.txt").exists()


def test_a_file_as_the_folder_is_refused(tmp_path: Path) -> None:
    """It is kept."""
    (tmp_path / "out").write_text("mine")
    with pytest.raises(SettingsError, match="out: is a file"):
        bundle.write(tmp_path / "out", [])

    assert (tmp_path / "out").read_text() == "mine"
