"""Compile the native libraries, once per combination of sources, compiler and installed versions.

    sources, TensorFlow, Pillow, flags, g++ ─► Recipe.key
        ─► <environment>/share/penstock/native/decode/<key>/jpeg_batch.so, built.json
        ─► <environment>/share/penstock/native/check/<key>/jpeg_check.so, built.json

Only a compiler is needed: TensorFlow's wheel contains the header files, those of libjpeg too, and Pillow's wheel
contains libjpeg-turbo. A new library is tested in a separate process before it is published, because a library that
does not match its headers crashes instead of raising an error.

    python -m components.native.build
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from components import native
from components.storage import durable

SOURCES: Final = Path(__file__).parent
SWITCH: Final = native.SWITCH
_STAMP: Final = "built.json"
_FLAGS: Final = ("-O3", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-Wall", "-Wextra")
_QUIET: Final = {"TF_CPP_MIN_LOG_LEVEL": "3"}  # TensorFlow prints a dozen lines about CUDA while it is imported
_KEPT: Final = 4  # builds per library
_TIMEOUT: Final = 600  # seconds


class NotBuilt(Exception):
    """A library is missing and cannot be built; the message gives the reason and what to do."""


@dataclass(frozen=True)
class Library:
    """One native library: `folder` holds its sources, `module` tests a build given its path."""

    folder: str
    file: str
    module: str
    purpose: str


DECODE: Final = Library("decode", "jpeg_batch.so", "components.native.decode.loader", "JPEG decoder for training")
CHECK: Final = Library("check", "jpeg_check.so", "components.native.check.checker", "JPEG checker for ingest")


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a build of one library."""

    library: str
    source: str
    tensorflow: str  # empty if the library does not use it
    pillow: str
    machine: str
    flags: str
    compiler: str

    @property
    def key(self) -> str:
        """Name of the build's folder: digest of the inputs, then of the compiler."""
        return f"{self.inputs}-{_digest(self.compiler)[:8]}"

    @property
    def inputs(self) -> str:
        """The part of the key that is known without a compiler."""
        parts = asdict(self)
        del parts["compiler"]
        return _digest(json.dumps(parts, sort_keys=True))[:16]


def recipe(library: Library) -> Recipe:
    """Returns the recipe of a build on this machine, now.

    Raises:
        NotBuilt: TensorFlow or Pillow is missing.
    """
    return Recipe(
        library=library.folder,
        source=_digest("".join(f"{path.name}\n{path.read_text()}" for path in _source_files(library))),
        tensorflow=_version("tensorflow") if library is DECODE else "",
        pillow=_version("pillow"),
        machine=platform.machine(),
        flags=" ".join(_FLAGS),
        compiler=compiler(),
    )


def compiler() -> str:
    """Returns the first line of `g++ --version`; empty if there is no g++."""
    try:
        done = subprocess.run(["g++", "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.split("\n")[0]


def home(library: Library) -> Path:
    """Returns the folder of a library's builds: in the environment they are built for, not in the source tree."""
    return Path(sys.prefix, "share", "penstock", "native", library.folder)


def find(library: Library) -> Path | None:
    """Returns the built library; on a machine without a compiler, one built from the same inputs by any compiler.

    Raises:
        NotBuilt: TensorFlow or Pillow is missing.
    """
    wanted, folder = recipe(library), home(library)
    names = [wanted.key] if wanted.compiler else sorted(path.name for path in folder.glob(f"{wanted.inputs}-*"))
    return next((path for name in names if (path := folder / name / library.file).is_file()), None)


def built_for(library: Path) -> Mapping[str, str]:
    """Returns the recipe that was stored next to a built library."""
    stamp: Mapping[str, str] = json.loads((library.parent / _STAMP).read_text())
    return stamp


def ensure(library: Library) -> Path:
    """Returns the built library; builds it first if it is missing.

    Raises:
        NotBuilt: It is missing and cannot be built.
    """
    if found := find(library):
        return found
    wanted = recipe(library)
    if not wanted.compiler:
        raise NotBuilt("not built, and there is no g++ on the PATH; install g++")
    try:
        with _lock(library, wanted):
            return find(library) or _build(library, wanted)
    except OSError as error:
        raise NotBuilt(f"not built: {error}") from error


def command(library: Library, out: Path) -> list[str]:
    """Returns the compiler's command line."""
    return [*_command(library, out.parent), "-o", str(out)]


def _command(library: Library, folder: Path) -> list[str]:
    source = str(SOURCES / library.folder / f"{Path(library.file).stem}.cc")
    if library is CHECK:
        return ["g++", "-std=c++17", *_FLAGS, f"-I{SOURCES}", source]
    import tensorflow as tf

    packages = Path(tf.__file__).parents[1]
    flags = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    # As system headers, so that g++ does not warn about code that is not ours.
    headers = [f"-I{SOURCES}", "-isystem", tf.sysconfig.get_include(), *jpeg_headers(packages)]
    links = [*tf.sysconfig.get_link_flags(), *jpeg_link(packages, folder)]
    return ["g++", *flags, *_FLAGS, *headers, source, *links]


def jpeg_headers(packages: Path) -> list[str]:
    """Returns the flag for libjpeg's header files in TensorFlow's wheel."""
    return ["-isystem", str(packages / "tensorflow" / "include" / "external" / "libjpeg_turbo")]


def jpeg_link(packages: Path, folder: Path) -> list[str]:
    """Returns the flags to link the libjpeg in Pillow's wheel, with a path relative to the library's own folder."""
    libraries = packages / "pillow.libs"
    found = sorted(libraries.glob("libjpeg*.so.62*"))
    if not found:
        raise NotBuilt(f"no libjpeg of version 6.2 in {libraries}; install Pillow from its Linux wheel")
    return [f"-L{libraries}", f"-l:{found[0].name}", f"-Wl,-rpath,$ORIGIN/{os.path.relpath(libraries, folder)}"]


def main() -> int:
    """Builds both libraries; returns 1 if one of them is missing in the end."""
    os.environ.update(_QUIET)
    warnings.simplefilter("ignore")  # google.api_core warns about Python 3.10
    return max(_show(library) for library in (DECODE, CHECK))


def _show(library: Library) -> int:
    try:
        print(f"{library.purpose}: {ensure(library)}")
    except NotBuilt as error:
        print(f"{library.purpose}: {error}. Penstock works without it, more slowly.", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _lock(library: Library, wanted: Recipe) -> Iterator[None]:
    """Lets one process build while others wait for its result."""
    from filelock import FileLock  # here: looking for a library is faster without it

    home(library).mkdir(parents=True, exist_ok=True)
    with FileLock(home(library) / f".{wanted.key}.lock"):
        yield


def _build(library: Library, wanted: Recipe) -> Path:
    print(f"building the {library.purpose}, once for these versions", file=sys.stderr)
    target = home(library) / wanted.key
    shutil.rmtree(target, ignore_errors=True)  # a folder without its library blocks publishing
    with durable.publish_folder(target) as aside:
        _run(command(library, aside / library.file), "g++ failed")
        _run([sys.executable, "-m", library.module, str(aside / library.file)], "its first test failed")
        (aside / _STAMP).write_text(json.dumps(asdict(wanted), indent=1))
    _sweep(library)
    return target / library.file


def _sweep(library: Library) -> None:
    """Removes all but the newest builds; a process that has loaded an older one keeps it."""
    folders = [
        path for path in home(library).iterdir() if path.is_dir() and not path.name.startswith(durable.TEMPORARY)
    ]
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)


def _run(words: list[str], fault: str) -> None:
    environment = {**os.environ, **_QUIET, "LC_ALL": "C"}
    root = SOURCES.parents[1]  # so that `components` can be imported, installed or not
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_TIMEOUT, check=False, cwd=root, env=environment
        )
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{fault}: not finished after {_TIMEOUT} s") from None
    if done.returncode:
        how = f"exit code {done.returncode}" if done.returncode > 0 else f"killed by signal {-done.returncode}"
        raise NotBuilt(f"{fault} ({how}): {_reason(done.stderr)}")


def _reason(stderr: str) -> str:
    """Returns the compiler's first error, or else the last line."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if " error: " in line), lines[-1] if lines else "no error message")


def _source_files(library: Library) -> list[Path]:
    shared = sorted(SOURCES.glob("*.h"))
    return [*shared, *sorted(path for path in (SOURCES / library.folder).iterdir() if path.suffix in {".cc", ".h"})]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        raise NotBuilt(f"{name} is not installed") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    raise SystemExit(main())
