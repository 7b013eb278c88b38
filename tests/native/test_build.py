"""Each library is built once per recipe, completely or not at all; a machine that cannot build it says why."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from components.native import build
from components.native.build import CHECK, DECODE, Library, NotBuilt

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without builds; returns the folder of both libraries."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path / "share" / "penstock" / "native"


def touch(library: Library) -> Path:
    """Creates an empty file in place of a built library."""
    path = build.place(library)
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def fake_compiler(folder: Path, script: str) -> None:
    """Writes a g++ that runs a shell script."""
    folder.mkdir()
    (folder / "g++").write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo g++ 1 && exit\n{script}\n')
    (folder / "g++").chmod(0o755)


class TestKey:
    """The key by which a build is found."""

    @pytest.mark.usefixtures("home")
    @pytest.mark.parametrize("package", ["tensorflow", "pillow"])
    def test_a_build_for_other_versions_is_not_found(self, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
        """After an update the old build is not used."""
        with monkeypatch.context() as before:
            before.setattr(build, "version", lambda name: "0.1" if name == package else version(name))
            touch(DECODE)
        assert build.find(DECODE) is None

        path = touch(DECODE)

        assert build.find(DECODE) == path

    @pytest.mark.usefixtures("home")
    def test_a_build_is_found_without_a_compiler(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Built in one container image, used in another."""
        path = touch(DECODE)
        monkeypatch.setenv("PATH", str(tmp_path))

        assert build.find(DECODE) == path

    @pytest.mark.parametrize(
        ("file", "changed"),
        [
            ("decode/resize.h", {DECODE}),
            ("decode/jpeg_batch.cc", {DECODE}),
            ("check/check.h", {CHECK}),
            ("huffman.h", {DECODE, CHECK}),
        ],
    )
    def test_a_source_file_counts_for_the_libraries_that_include_it(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, changed: set[Library]
    ) -> None:
        """An edit of resize.h does not rebuild the checker."""
        before = {library: build.key(library) for library in (DECODE, CHECK)}
        shutil.copytree(build.SOURCES, tmp_path / "native")
        monkeypatch.setattr(build, "SOURCES", tmp_path / "native")
        with (tmp_path / "native" / file).open("a") as source:
            source.write("\n")

        assert {library for library in before if build.key(library) != before[library]} == changed


class TestBuild:
    """From sources to a working library."""

    @pytest.mark.slow
    @pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++")
    def test_two_processes_at_once_build_one_library(self, tmp_path: Path) -> None:
        """The second process waits for the first and uses its build."""
        script = (
            f"import sys; sys.prefix = {str(tmp_path)!r}; from components.native import build; "
            "print(build.ensure(build.CHECK))"
        )
        words = [sys.executable, "-c", script]
        processes = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        printed = [process.communicate()[0].strip() for process in processes]

        (library,) = (tmp_path / "share" / "penstock" / "native" / "check").glob(f"*/{CHECK.file}")
        assert printed == [str(library)] * 2
        assert [path.name for path in library.parent.iterdir()] == [CHECK.file]

    def test_a_compiler_error_is_the_reason(self, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """The first error is quoted, and no folder is left over."""
        fake_compiler(tmp_path / "bin", 'echo "x.cc:1: error: no" >&2\nexit 1')
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))

        with pytest.raises(NotBuilt, match=r"g\+\+ failed \(exit code 1\): x\.cc:1: error: no"):
            build.ensure(DECODE)
        assert [path for path in (home / "decode").iterdir() if path.is_dir()] == []

    def test_a_library_that_fails_its_test_is_not_published(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """It is loaded and tested in a separate process, which may crash."""
        fake_compiler(tmp_path / "bin", 'while [ "$1" != -o ]; do shift; done\necho no ELF > "$2"')
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))

        with pytest.raises(NotBuilt, match=r"its first test failed \(exit code 1\): .* does not load"):
            build.ensure(CHECK)
        assert [path for path in (home / "check").iterdir() if path.is_dir()] == []

    def test_a_missing_compiler_is_the_reason(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Nothing is written."""
        monkeypatch.setenv("PATH", str(tmp_path))

        with pytest.raises(NotBuilt, match=r"no g\+\+ on the PATH"):
            build.ensure(DECODE)
        assert not home.exists()

    def test_a_read_only_environment_is_the_reason(
        self, open_folder: Path, monkeypatch: pytest.MonkeyPatch, without_rights: Callable[[], object]
    ) -> None:
        """Containers often have one."""
        open_folder.chmod(0o555)
        monkeypatch.setattr(sys, "prefix", str(open_folder))

        with without_rights(), pytest.raises(NotBuilt, match="Permission denied"):  # type: ignore[attr-defined]
            build.ensure(CHECK)

    def test_a_pillow_without_libjpeg_is_the_reason(self, tmp_path: Path) -> None:
        """A Pillow that was built locally uses the system's libjpeg, of unknown version."""
        with pytest.raises(NotBuilt, match=r"no libjpeg of version 6\.2 in .*pillow\.libs"):
            build.jpeg_link(tmp_path, tmp_path)


class TestCommand:
    """`python -m components.native.build`, as set-up runs it."""

    @pytest.mark.usefixtures("home")
    def test_it_prints_one_line_per_library(self, capsys: pytest.CaptureFixture[str]) -> None:
        """At once if both are built."""
        decoder, checker = map(touch, (DECODE, CHECK))

        assert build.main() == 0
        assert capsys.readouterr().out == f"JPEG decoder for training: {decoder}\nJPEG checker for ingest: {checker}\n"

    @pytest.mark.usefixtures("home")
    def test_a_failure_says_that_penstock_works_without_it(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Set-up continues after it."""
        monkeypatch.setenv("PATH", str(tmp_path))

        assert build.main() == 1
        assert capsys.readouterr().err.splitlines() == [
            f"{library.purpose}: not built, and there is no g++ on the PATH; install g++. "
            "Penstock works without it, more slowly."
            for library in (DECODE, CHECK)
        ]

    @pytest.mark.slow
    def test_it_prints_only_our_own_lines(self, tmp_path: Path) -> None:
        """TensorFlow's messages about CUDA and a warning of google.api_core are suppressed."""
        fake_compiler(tmp_path / "bin", "exit 1")
        script = f"import sys; sys.prefix = {str(tmp_path)!r}; from components.native import build; build.main()"

        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PATH": str(tmp_path / "bin")},
            capture_output=True,
            text=True,
            check=True,
        )

        assert [line.partition(",")[0].partition(": ")[0] for line in done.stderr.splitlines()] == [
            "building the JPEG decoder for training",
            "JPEG decoder for training",
            "building the JPEG checker for ingest",
            "JPEG checker for ingest",
        ]
