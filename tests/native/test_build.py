"""The op is built once for what it is made from, whole or not at all, and a machine that cannot build it says why."""

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from components.native import build
from components.native.build import NotBuilt, Recipe

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment in which nothing was built yet."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return build.home()


@pytest.fixture
def recipe() -> Recipe:
    """What this machine would build."""
    return build.recipe()


def pretend(recipe: Recipe) -> Path:
    """Puts an empty library where that of a recipe belongs."""
    library = build.home() / recipe.key / build.LIBRARY
    library.parent.mkdir(parents=True)
    library.touch()
    return library


def g_plus_plus(folder: Path, script: str) -> None:
    """Writes a compiler that does as the script says, and is the same as the real one by its own account."""
    folder.mkdir()
    (folder / "g++").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "g++").chmod(0o755)


class TestKey:
    """What a library is found by."""

    @pytest.mark.parametrize("part", [field.name for field in dataclasses.fields(Recipe)])
    def test_a_change_of_any_part_asks_for_another_library(self, recipe: Recipe, part: str) -> None:
        """Source, TensorFlow, Pillow, machine, flags, compiler."""
        changed: Recipe = dataclasses.replace(recipe, **{part: "another"})

        assert changed.key != recipe.key

    @pytest.mark.usefixtures("home")
    @pytest.mark.parametrize("part", ["tensorflow", "pillow", "source", "compiler"])
    def test_a_library_of_other_parts_is_not_found(self, recipe: Recipe, part: str) -> None:
        """After an update the old one stays unused."""
        library = pretend(recipe)

        assert build.find(recipe) == library
        assert build.find(dataclasses.replace(recipe, **{part: "another"})) is None

    @pytest.mark.usefixtures("home")
    def test_without_a_compiler_any_compilers_library_will_do(self, recipe: Recipe) -> None:
        """Built in one image of a container, used in another."""
        library = pretend(recipe)

        assert build.find(dataclasses.replace(recipe, compiler="")) == library

    def test_every_source_file_counts(self, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A header is as good a reason to build as the op itself."""
        shutil.copytree(build.SOURCES, tmp_path / "native")
        monkeypatch.setattr(build, "SOURCES", tmp_path / "native")
        assert build.recipe() == recipe

        with (tmp_path / "native" / "resize.h").open("a") as header:
            header.write("\n")

        assert build.recipe().key != recipe.key


class TestBuild:
    """From sources to a library that works."""

    @pytest.mark.slow
    @pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++")
    def test_two_processes_at_once_build_one_library(self, tmp_path: Path) -> None:
        """The second waits for the first and finds what it built."""
        script = (
            f"import sys; sys.prefix = {str(tmp_path)!r}; from components.native import build; print(build.ensure())"
        )
        words = [sys.executable, "-c", script]
        processes = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        printed = [process.communicate()[0].strip() for process in processes]

        (library,) = (tmp_path / "share" / "penstock" / "native").glob(f"*/{build.LIBRARY}")
        assert printed == [str(library)] * 2
        assert sorted(path.name for path in library.parent.iterdir()) == ["built.json", build.LIBRARY, build.CHECKER]
        assert build.built_for(library) == dataclasses.asdict(build.recipe())

    def test_what_the_compiler_says_is_the_reason(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Its first error, and nothing is left behind."""
        g_plus_plus(
            tmp_path / "bin", '[ "$1" = --version ] && echo g++ 1 && exit\necho "x.cc:1: error: no" >&2\nexit 1'
        )
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))

        with pytest.raises(NotBuilt, match=r"g\+\+ failed \(exit code 1\): x\.cc:1: error: no"):
            build.ensure()
        assert [path for path in home.iterdir() if path.is_dir()] == []

    def test_a_library_that_does_not_work_is_not_published(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """It is loaded and tried in a process of its own, which may crash."""
        words = '[ "$1" = --version ] && echo g++ 1 && exit\nwhile [ "$1" != -o ]; do shift; done\necho no ELF > "$2"'
        g_plus_plus(tmp_path / "bin", words)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))

        with pytest.raises(NotBuilt, match=r"it failed its first test \(exit code 1\): .* does not load"):
            build.ensure()
        assert [path for path in home.iterdir() if path.is_dir()] == []

    def test_without_a_compiler_there_is_a_reason(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Nothing is tried, and nothing is written."""
        monkeypatch.setenv("PATH", str(tmp_path))

        with pytest.raises(NotBuilt, match=r"no g\+\+ on the PATH"):
            build.ensure()
        assert not home.exists()

    def test_an_environment_that_is_closed_is_a_reason(
        self, open_folder: Path, monkeypatch: pytest.MonkeyPatch, without_rights: Callable[[], object]
    ) -> None:
        """Read-only environments are common in containers."""
        open_folder.chmod(0o555)
        monkeypatch.setattr(sys, "prefix", str(open_folder))

        with without_rights(), pytest.raises(NotBuilt, match="Permission denied"):  # type: ignore[attr-defined]
            build.ensure()

    def test_a_pillow_without_its_library_is_a_reason(self, tmp_path: Path) -> None:
        """One that was built on the machine uses the system's libjpeg, whose version nobody knows."""
        with pytest.raises(NotBuilt, match=r"no libjpeg of version 6\.2 in .*pillow\.libs"):
            build.jpeg_link(tmp_path, tmp_path)

    def test_old_libraries_are_removed(self, home: Path, recipe: Recipe) -> None:
        """The newest are kept: a process of yesterday's sources may start again."""
        libraries = [pretend(dataclasses.replace(recipe, source=str(number))) for number in range(6)]
        for age, library in enumerate(reversed(libraries)):
            os.utime(library.parent, (10**9 - age, 10**9 - age))

        build._sweep()

        assert sorted(path.name for path in home.iterdir()) == sorted(path.parent.name for path in libraries[-4:])


class TestCommand:
    """`python -m components.native.build`, as set-up calls it."""

    def test_it_prints_the_library(self, capsys: pytest.CaptureFixture[str], home: Path, recipe: Recipe) -> None:
        """At once when it is built already."""
        library = pretend(recipe)

        assert build.main() == 0
        assert capsys.readouterr().out == f"native JPEG decode: {library}\n"
        assert library.is_relative_to(home)

    @pytest.mark.usefixtures("home")
    def test_a_failure_says_what_happens_instead(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Set-up goes on after it."""
        monkeypatch.setenv("PATH", str(tmp_path))

        assert build.main() == 1
        assert "images take the plain path: not built, and there is no g++" in capsys.readouterr().err
