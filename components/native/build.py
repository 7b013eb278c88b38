"""Compile the native libraries, once per combination of sources and installed versions.

    sources, TensorFlow, Pillow, machine, flags ─► key
        ─► <environment>/share/penstock/native/decode/<key>/jpeg_batch.so
        ─► <environment>/share/penstock/native/check/<key>/jpeg_check.so

Only a compiler is needed: TensorFlow's wheel contains the header files, those of libjpeg too, and Pillow's wheel
contains libjpeg-turbo. A new library is tested in a separate process before it is published, because a library that
does not match its headers crashes instead of raising an error. The compiler is not part of the key, so a library that
was built in one container is found in another without a compiler.

    python -m components.native.build
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Final

from components import helper_process, native
from components.storage import durable

SOURCES: Final = Path(__file__).parent
SWITCH: Final = native.SWITCH
_FLAGS: Final = ("-O3", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-Wall", "-Wextra")
_QUIET: Final = {"TF_CPP_MIN_LOG_LEVEL": "3"}  # TensorFlow prints a dozen lines about CUDA while it is imported
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


def key(library: Library) -> str:
    """Returns a digest of everything that determines a build, except for the compiler.

    Raises:
        NotBuilt: TensorFlow or Pillow is missing.
    """
    folders = (SOURCES, SOURCES / library.folder)
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.suffix in {".cc", ".h"}]
    parts = [library.folder, platform.machine(), *_FLAGS, _version("tensorflow"), _version("pillow")]
    parts += [f"{file.name}\n{file.read_text()}" for file in files]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def place(library: Library) -> Path:
    """Returns where the library is or will be: in the environment it is built for, not in the source tree."""
    return Path(sys.prefix, "share", "penstock", "native", library.folder, key(library), library.file)


def find(library: Library) -> Path | None:
    """Returns the built library, or None.

    Raises:
        NotBuilt: TensorFlow or Pillow is missing.
    """
    path = place(library)
    return path if path.is_file() else None


def has_compiler() -> bool:
    """Whether a missing library can be compiled."""
    return shutil.which("g++") is not None


def ensure(library: Library) -> Path:
    """Returns the built library; builds it first if it is missing.

    Raises:
        NotBuilt: It is missing and cannot be built.
    """
    if found := find(library):
        return found
    if not has_compiler():
        raise NotBuilt("not built, and there is no g++ on the PATH; install g++")
    from filelock import FileLock  # here: looking for a library is faster without it

    path = place(library)
    try:
        path.parents[1].mkdir(parents=True, exist_ok=True)
        with FileLock(path.parents[1] / f".{path.parent.name}.lock"):
            return find(library) or _build(library, path)
    except OSError as error:
        raise NotBuilt(f"not built: {error}") from error


def command(library: Library, out: Path) -> list[str]:
    """Returns the compiler's command line."""
    packages = Path(str(distribution("pillow").locate_file("")))
    source = SOURCES / library.folder / f"{Path(library.file).stem}.cc"
    words = ["g++", "-std=c++17", *_FLAGS, f"-I{SOURCES}", *jpeg_headers(packages), str(source), "-o", str(out)]
    words += jpeg_link(packages, out.parent)
    if library is CHECK:
        return words
    import tensorflow as tf

    flags = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    # As system headers, so that g++ does not warn about code that is not ours.
    return [*words, *flags, "-isystem", tf.sysconfig.get_include(), *tf.sysconfig.get_link_flags()]


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


def _build(library: Library, path: Path) -> Path:
    print(f"building the {library.purpose}, once for these versions", file=sys.stderr)
    shutil.rmtree(path.parent, ignore_errors=True)  # a folder without its library blocks publishing
    with durable.publish_folder(path.parent) as aside:
        _run(command(library, aside / library.file), "g++ failed")
        _run(helper_process.module(library.module, str(aside / library.file)), "its first test failed")
    return path


def _run(words: list[str], fault: str) -> None:
    environment = {**os.environ, **_QUIET, "LC_ALL": "C"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT, check=False, env=environment)
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{fault}: not finished after {_TIMEOUT} s") from None
    if done.returncode:
        how = f"exit code {done.returncode}" if done.returncode > 0 else f"killed by signal {-done.returncode}"
        raise NotBuilt(f"{fault} ({how}): {_reason(done.stderr)}")


def _reason(stderr: str) -> str:
    """Returns the compiler's first error, or else the last line."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if " error: " in line), lines[-1] if lines else "no error message")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        raise NotBuilt(f"{name} is not installed") from None


if __name__ == "__main__":
    raise SystemExit(main())
