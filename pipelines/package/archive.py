"""Writes a wheel: the same files give the same bytes.

    {"components/refs.py": b"…", …} + METADATA ─► name-version-py3-none-any.whl

The version ends with a digest of the content, such as `0.1.0+srcdeb2f04c1a7e`: two installations of the same version
have the same code, so a worker is compared with the submitting machine by its version alone.
"""

import base64
import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
_MODE = 0o100644 << 16  # a plain file, readable by all
_DIGITS = 12
_TAGS = "Wheel-Version: 1.0\nGenerator: penstock\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def version(base: str, files: Mapping[str, bytes]) -> str:
    """Returns the version of a wheel with this content."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    # Letters first: a local version of digits alone would be read as a number, and lose leading zeros.
    return f"{base.partition('+')[0]}+src{digest.hexdigest()[:_DIGITS]}"


def write(folder: Path, name: str, version: str, files: Mapping[str, bytes], info: Mapping[str, str]) -> Path:
    """Writes a wheel into a folder and returns its path.

    Args:
        folder: existing folder; an existing wheel of the same name is replaced.
        name: of the distribution.
        version: of the distribution.
        files: content by path below site-packages.
        info: further files of the .dist-info folder, such as METADATA and entry_points.txt.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    inside = f"{stem}.dist-info"
    content = dict(sorted(files.items()))
    content.update({f"{inside}/{key}": text.encode() for key, text in sorted({**info, "WHEEL": _TAGS}.items())})
    content[f"{inside}/RECORD"] = _record(content, f"{inside}/RECORD").encode()
    target = folder / f"{stem}-py3-none-any.whl"
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path, data in content.items():
            archive.writestr(_entry(path), data, zipfile.ZIP_DEFLATED, 6)
    # Python's own library alone: an installed wheel can be packed before its requirements are installed.
    aside = target.with_name(f".{os.getpid()}-{target.name}")
    aside.write_bytes(written.getvalue())
    aside.replace(target)
    return target


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, _EPOCH)
    entry.external_attr, entry.create_system = _MODE, 3  # Unix
    return entry


def _record(content: Mapping[str, bytes], own: str) -> str:
    lines = [f"{_quoted(path)},sha256={_hash(data)},{len(data)}" for path, data in content.items()]
    return "\n".join([*lines, f"{own},,", ""])


def _quoted(path: str) -> str:
    return f'"{path}"' if "," in path else path


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
