"""The user's own modules and data files as a second wheel, so that workers can import and read them.

    input.maps, train.step, parts of the task ─► modules outside Penstock ─► what they import ─┐
    --include lexicon/en.txt ──────────────────────────────────────────────────────────────────┴─► penstock_user-….whl

A module is packed with its whole top-level package, data files included. Everything keeps its place relative to the
folder on the Python path that the modules are imported from, so `Path(__file__).parent / "lexicon.txt"` works on a
worker as it does here.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from components import fingerprint, refs
from components.errors import SettingsError
from components.settings.tree import Settings
from components.tasks import Task
from pipelines.package import archive

NAME = "penstock-user"
_LARGEST = 200 << 20  # bytes of one wheel
_CACHES = {"__pycache__"}
_HEADERS = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: modules and data files of a user\n"


def modules(task: Task, settings: Settings) -> list[str]:
    """Returns the modules outside Penstock that the task and its settings name."""
    parts = [ref for part in task.parts for ref in (part.feature, part.encoder, part.fit, part.names)]
    named = [*parts, *task.sources, task.model, *settings.input.maps, settings.train.step]
    found = {refs.module_of(ref) for ref in named if ref}
    return sorted(module for module in found if module.partition(".")[0] not in fingerprint.PACKAGES)


def build(out: Path, modules: Iterable[str], include: Iterable[Path] = ()) -> Path | None:
    """Writes the wheel and returns its path; None if there is nothing to pack.

    Args:
        out: folder of the wheel; it is created if it does not exist.
        modules: names of modules; what they import from the same folder is packed too.
        include: further files or folders, below a folder of the Python path or the working folder.
    """
    if not (files := _files(modules, include)):
        return None
    out.mkdir(parents=True, exist_ok=True)
    version = archive.version("0", files)
    return archive.write(out, NAME, version, files, {"METADATA": _HEADERS.format(name=NAME, version=version)})


def version(modules: Iterable[str], include: Iterable[Path] = ()) -> str:
    """Returns the version of the wheel that `build` writes; empty if there is nothing to pack."""
    files = _files(modules, include)
    return archive.version("0", files) if files else ""


def _files(modules: Iterable[str], include: Iterable[Path]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name, file in (*_of_modules(modules), *_of_paths(include)):
        files[name] = file.read_bytes()
        if sum(map(len, files.values())) > _LARGEST:
            raise SettingsError(
                f"{file.parent}: modules and data files for workers exceed {_LARGEST >> 20} MB; keep large data on the "
                "object store, outside of your packages"
            )
    return files


def _of_modules(modules: Iterable[str]) -> Iterator[tuple[str, Path]]:
    for module in modules:
        folder = fingerprint.folder_of(module)
        if folder in fingerprint.INSTALLED:
            raise SettingsError(
                f"module {module!r} is installed by pip, so it is not packed; install it in the workers' image too, "
                "or put its folder on PYTHONPATH"
            )
        for name in fingerprint.sources([module]):
            top = name.partition("/")[0]
            if top not in fingerprint.PACKAGES:
                yield from _below(folder / top, folder)


def _of_paths(include: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for given in include:
        path = given.absolute()
        if not path.exists():
            raise SettingsError(f"--include {given}: does not exist")
        if any(part.startswith(".") for part in given.parts if part not in {".", ".."}):
            raise SettingsError(f"--include {given}: hidden files are not packed, because they often hold secrets")
        yield from _below(path, _base_of(path, given))


def _base_of(path: Path, given: Path) -> Path:
    """Returns the folder that a path is packed relative to: of the Python path, or else the working folder."""
    folders = [Path(entry).absolute() for entry in sys.path if entry]
    above = [folder for folder in (*folders, Path.cwd()) if folder in path.parents and ".." not in path.parts]
    own = [folder for folder in above if folder not in fingerprint.INSTALLED]
    if not own:
        raise SettingsError(
            f"--include {given}: below neither the working folder nor a folder of PYTHONPATH, so its place on a worker "
            "is not defined; start in a folder above it"
        )
    return max(own, key=lambda folder: len(folder.parts))


def _below(path: Path, base: Path) -> Iterator[tuple[str, Path]]:
    """Yields the files at and below a path, by their names in the wheel; hidden files and caches are left out."""
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in found:
        name = file.relative_to(base)
        if any(part.startswith(".") or part in _CACHES for part in name.parts) or not file.is_file():
            continue
        if base.resolve() not in file.resolve().parents:
            raise SettingsError(f"{file}: a link to a file outside of {base}, which is not packed; copy it there")
        yield name.as_posix(), file
