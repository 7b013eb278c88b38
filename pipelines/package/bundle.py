"""Everything that a worker needs, in one folder: `penstock package --out DIR`.

    penstock-….whl   penstock_user-….whl   requirements-worker.lock   Dockerfile   README.md

The folder is the build context of the image: whatever the Dockerfile copies is in it. It holds no credentials.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from components.errors import SettingsError
from components.storage import durable
from pipelines.package import user_code, wheel

LOCK = "requirements-worker.lock"
_TEMPLATES = ("Dockerfile", "README.md")


@dataclass(frozen=True)
class Bundle:
    """What was written."""

    folder: Path
    wheel: Path
    own: Path | None  # the user's wheel
    packages: int  # in the requirement set


def write(out: Path, modules: Sequence[str], include: Sequence[Path] = ()) -> Bundle:
    """Writes the folder, which must not exist, or must be empty, or be an earlier one.

    Args:
        out: the folder.
        modules: of the user, by name (`user_code.modules`).
        include: further modules and data files of the user.
    """
    _clear(out)
    with durable.publish_folder(out) as folder:
        ours = wheel.build(folder)
        own = user_code.build(folder, modules, include)
        (folder / LOCK).write_bytes(wheel.WORKER_LOCK.read_bytes())
        for name in _TEMPLATES:
            (folder / name).write_text(_filled(name, ours, own))
    return Bundle(out, out / ours.name, out / own.name if own else None, len(wheel.requirements()))


def image_tag(version: str, own: str = "") -> str:
    """Returns the tag of an image with these versions of Penstock and of the user's code; tags allow no +."""
    return f"{version}.own-{own}".replace("+", "-") if own else version.replace("+", "-")


def code_of(image: str) -> str:
    """Returns the tag of an image if it names the code, Penstock's and the user's; else nothing."""
    found = re.search(r":([\w.]+-src[0-9a-f]{12}(\.own-[\w.-]+)?)$", image)
    return found[1] if found else ""


def _clear(out: Path) -> None:
    """Removes an earlier package; raises SettingsError if the folder holds anything else."""
    if not out.exists():
        return
    if not out.is_dir():
        raise SettingsError(f"--out {out}: is a file; name a new folder")
    names = {each.name for each in out.iterdir()}
    others = [name for name in names - {LOCK, *_TEMPLATES} if not name.startswith("penstock") or ".whl" not in name]
    if others or (names and LOCK not in names):
        raise SettingsError(f"--out {out}: holds other files, which would be lost; name a new folder")
    durable.remove(out)


def _filled(name: str, ours: Path, own: Path | None) -> str:
    from jinja2 import Environment, StrictUndefined

    template = Path(__file__).with_name(f"{name}.j2").read_text()
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)  # noqa: S701 - no HTML
    return environment.from_string(template).render(
        beam_image=f"apache/beam_python3.10_sdk:{metadata.version('apache-beam')}",
        own=own.name if own else "",
        packages=len(wheel.requirements()),
        tag=image_tag(wheel.version(), own.name.split("-")[1] if own else ""),
        version=wheel.version(),
        wheel=ours.name,
        wheels=[each.name for each in (ours, own) if each],
    )
