"""Builds the native libraries beside the environment, once for each combination of what they are made from.

    source, TensorFlow, Pillow, flags ─┐
    g++ ───────────────────────────────┴─► key ─► <environment>/share/penstock/native/<key>/jpeg_batch.so  ops, training
                                                                                           /jpeg_check.so  ingest
                                                                                           /built.json

It needs no system package but a compiler: TensorFlow's wheel brings the header files, those of libjpeg too, and that
of Pillow brings libjpeg-turbo. What was built proves itself in a process of its own before it is published, for a
library that does not match its headers would not raise but crash.

    python -m components.native.build
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from components import native
from components.storage import durable

SOURCES: Final = Path(__file__).parent
LIBRARY: Final = "jpeg_batch.so"
CHECKER: Final = "jpeg_check.so"  # beside it
SWITCH: Final = native.SWITCH
_STAMP: Final = "built.json"
_FLAGS: Final = ("-O3", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-Wall", "-Wextra")
_KEPT: Final = 4
_SECONDS: Final = 600  # a compiler that takes longer hangs


class NotBuilt(Exception):
    """The op cannot be had; the message says why, and what helps."""


@dataclass(frozen=True)
class Recipe:
    """All that decides what the library is."""

    source: str
    tensorflow: str
    pillow: str
    machine: str
    flags: str
    compiler: str

    @property
    def key(self) -> str:
        """The name of its folder: what it is made from, then what by."""
        return f"{self.material}-{_digest(self.compiler)[:8]}"

    @property
    def material(self) -> str:
        """The part of the key that is known without a compiler."""
        parts = asdict(self)
        del parts["compiler"]
        return _digest(json.dumps(parts, sort_keys=True))[:16]


def recipe() -> Recipe:
    """Returns what a build would be made from here and now.

    Raises:
        NotBuilt: TensorFlow or Pillow is missing.
    """
    return Recipe(
        source=_digest("".join(f"{path.name}\n{path.read_text()}" for path in _source_files())),
        tensorflow=_version("tensorflow"),
        pillow=_version("pillow"),
        machine=platform.machine(),
        flags=" ".join(_FLAGS),
        compiler=compiler(),
    )


def compiler() -> str:
    """Returns the first line that g++ says of itself, or nothing when there is none."""
    try:
        done = subprocess.run(["g++", "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.split("\n")[0]


def home() -> Path:
    """Returns where libraries go: with the environment, which they are built for, and not into the source tree."""
    return Path(sys.prefix, "share", "penstock", "native")


def find(wanted: Recipe) -> Path | None:
    """Returns the library of a recipe; on a machine without a compiler, one that any compiler has built of it."""
    names = [wanted.key] if wanted.compiler else sorted(path.name for path in home().glob(f"{wanted.material}-*"))
    built = (home() / name / LIBRARY for name in names)
    return next((path for path in built if path.is_file()), None)


def built_for(library: Path) -> Mapping[str, str]:
    """Returns the recipe that stands beside a library."""
    stamp: Mapping[str, str] = json.loads((library.parent / _STAMP).read_text())
    return stamp


def ensure() -> Path:
    """Returns the library, built now if it is not there yet.

    Raises:
        NotBuilt: It is not there and cannot be built.
    """
    wanted = recipe()
    if library := find(wanted):
        return library
    if not wanted.compiler:
        raise NotBuilt("not built, and there is no g++ on the PATH to build it with")
    try:
        with _turn(wanted):
            return find(wanted) or _build(wanted)
    except OSError as error:
        raise NotBuilt(f"not built: {error}") from error


def command(out: Path) -> list[str]:
    """Returns the compiler's command line for the op."""
    import tensorflow as tf

    packages = Path(tf.__file__).parents[1]
    own = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    # As system headers: what is not ours is not warned about.
    headers = ["-isystem", tf.sysconfig.get_include(), *jpeg_headers(packages)]
    source = str(SOURCES / "jpeg_batch.cc")
    jpeg = jpeg_link(packages, out.parent)
    return ["g++", *own, *_FLAGS, *headers, source, "-o", str(out), *tf.sysconfig.get_link_flags(), *jpeg]


def checker_command(out: Path) -> list[str]:
    """Returns the compiler's command line for the checker, which needs nothing but C++."""
    return ["g++", "-std=c++17", *_FLAGS, str(SOURCES / "jpeg_check.cc"), "-o", str(out)]


def jpeg_headers(packages: Path) -> list[str]:
    """Returns where TensorFlow's wheel keeps libjpeg's header files."""
    return ["-isystem", str(packages / "tensorflow" / "include" / "external" / "libjpeg_turbo")]


def jpeg_link(packages: Path, folder: Path) -> list[str]:
    """Returns how to link against the libjpeg in Pillow's wheel, found again from the library's own folder."""
    libraries = packages / "pillow.libs"
    found = sorted(libraries.glob("libjpeg*.so.62*"))
    if not found:
        raise NotBuilt(f"no libjpeg of version 6.2 in {libraries}: Pillow was not installed from a wheel for Linux")
    way = os.path.relpath(libraries, folder)
    return [f"-L{libraries}", f"-l:{found[0].name}", f"-Wl,-rpath,$ORIGIN/{way}"]


def main() -> int:
    """Builds, or says why not; returns 1 when there is no library in the end."""
    try:
        print(f"native JPEG decode: {ensure()}")
    except NotBuilt as error:
        print(f"native JPEG decode is not to be had, images take the plain path: {error}", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _turn(wanted: Recipe) -> Iterator[None]:
    """Lets one process build, and the others wait for what it builds."""
    from filelock import FileLock  # not above: whoever only looks for a library starts sooner

    home().mkdir(parents=True, exist_ok=True)
    with FileLock(home() / f".{wanted.key}.lock"):
        yield


def _build(wanted: Recipe) -> Path:
    print("building the native JPEG decoder, once for these versions: about 20 s", file=sys.stderr)
    target = home() / wanted.key
    shutil.rmtree(target, ignore_errors=True)  # without its library it is of no use, and the new one must not exist
    with durable.publish_folder(target) as aside:
        _run(command(aside / LIBRARY), "g++ failed")
        _try(aside / LIBRARY, "components.native.loader")
        _run(checker_command(aside / CHECKER), "g++ failed")
        _try(aside / CHECKER, "components.native.checker")
        (aside / _STAMP).write_text(json.dumps(asdict(wanted), indent=1))
    _sweep()
    return target / LIBRARY


def _sweep() -> None:
    """Removes all but the newest libraries; a process that has one of the others open keeps it."""
    folders = [path for path in home().iterdir() if path.is_dir() and not path.name.startswith(durable.ASIDE)]
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)


def _try(library: Path, module: str) -> None:
    _run([sys.executable, "-m", module, str(library)], "it failed its first test")


def _run(words: list[str], fault: str) -> None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "LC_ALL": "C"}
    place = SOURCES.parents[1]  # where `components` is found, installed or not
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, check=False, cwd=place, env=environment
        )
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{fault}: no end after {_SECONDS} s") from None
    if done.returncode:
        raise NotBuilt(f"{fault} ({_ended(done.returncode)}): {_reason(done.stderr)}")


def _ended(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"killed by signal {-code}"


def _reason(said: str) -> str:
    """Returns a compiler's first error, or else the last line."""
    lines = [line for line in said.splitlines() if line.strip()]
    return next((line for line in lines if " error: " in line), lines[-1] if lines else "it said nothing")


def _source_files() -> list[Path]:
    return sorted([*SOURCES.glob("*.h"), *SOURCES.glob("*.cc")])


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        raise NotBuilt(f"{name} is not installed") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    raise SystemExit(main())
