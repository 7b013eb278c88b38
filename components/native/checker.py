"""JPEG files read by our own code: to their end, in half the time that libjpeg takes, or the header alone.

    content ─► regular_gray() ─┬─ gray pixels at an eighth of the size: whole, and libjpeg makes the same of it
                               └─ None: damaged, or of a rare kind, or there is no library; libjpeg has to tell
    content ─► regular_outline() ─┬─ size, and where the data is: an upright image in gray or colour
                                  └─ None: `ingest.images.jpeg` has to tell

The library is used where it was built (`build.py`), and never built here: that would take longer than it saves.
Neither TensorFlow nor Pillow is imported. PENSTOCK_NATIVE=0 turns it off.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from components.native import SWITCH

SCALE: Final = 8
_TOLD: Final = "PENSTOCK_NATIVE_CHECKER"
_FourNumbers = ctypes.c_int32 * 4
_SIDES: Final = (43, 37)  # of the image that is read before any other: several blocks, and a rest


class Outline(NamedTuple):
    """What a regular header says."""

    width: int
    height: int
    data: int  # where the coded data begins
    end: int  # where the last end marker ends


class Library(NamedTuple):
    """What there is to call."""

    check: Callable[[bytes, int, int, int, "ctypes.Array[ctypes.c_char]"], int]
    outline: Callable[[bytes, int, "ctypes.Array[ctypes.c_int32]"], int]


def regular_gray(content: bytes, end: int, width: int, height: int) -> bytes | None:
    """Returns a JPEG in gray at an eighth of its size, sides rounded up, if all of it is as it should be.

    Args:
        content: The file.
        end: Where its end marker ends.
        width: In pixels, as its header says.
        height: In pixels, as its header says.
    """
    if (library := _library()) is None:
        return None
    gray = ctypes.create_string_buffer(-(-width // SCALE) * -(-height // SCALE))
    return gray.raw if library.check(content, end, height, width, gray) else None


def regular_outline(content: bytes) -> Outline | None:
    """Returns what the header of a JPEG says, if it is as most of them are and nothing in it may turn the image."""
    if (library := _library()) is None:
        return None
    outline = _FourNumbers()
    return Outline(*outline) if library.outline(content, len(content), outline) else None


def open_library(library: Path) -> Library:
    """Loads a library.

    Raises:
        OSError: It does not load.
    """
    try:
        loaded = ctypes.CDLL(str(library))
        found = Library(loaded.penstock_check_jpeg, loaded.penstock_read_outline)
    except AttributeError as error:
        raise OSError(f"{library}: {error}") from error
    loaded.penstock_check_jpeg.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_char_p
    ]  # fmt: skip
    loaded.penstock_read_outline.argtypes = [ctypes.c_char_p, ctypes.c_size_t, _FourNumbers]
    return found


def _library() -> Library | None:
    return None if os.environ.get(SWITCH) == "0" else _load()


def environment() -> dict[str, str]:
    """Returns what to tell a process that is to use the library of this one: to look for it takes half its start."""
    path = _find()
    return {_TOLD: str(path)} if path else {}


@lru_cache(maxsize=1)
def _load() -> Library | None:
    path = _find()
    try:
        return open_library(path) if path else None
    except OSError:
        return None  # it only saves time


def _find() -> Path | None:
    if told := os.environ.get(_TOLD):
        return Path(told)
    from components.native import build  # not above: who reads no JPEG starts sooner

    try:
        library = build.find(build.recipe())
    except (build.NotBuilt, OSError):
        return None
    return library.with_name(build.CHECKER) if library else None


def main() -> int:
    """Tries the library that is named on the command line; this is the process that may crash."""
    import io

    from PIL import Image

    try:
        library = open_library(Path(sys.argv[1]))
    except OSError as error:
        print(f"{sys.argv[1]} does not load: {error}", file=sys.stderr)
        return 1
    width, height = _SIDES
    out = io.BytesIO()
    Image.linear_gradient("L").resize(_SIDES).convert("RGB").save(out, "JPEG")
    content, size = out.getvalue(), (-(-width // SCALE), -(-height // SCALE))
    expected = Image.frombytes("L", size, content, "jpeg", "L", "", SCALE, 0).tobytes()
    gray = ctypes.create_string_buffer(len(expected))
    if not library.check(content, len(content), height, width, gray) or gray.raw != expected:
        print("its pixels are not those of libjpeg", file=sys.stderr)
        return 1
    outline = _FourNumbers()
    if not library.outline(content, len(content), outline) or (outline[0], outline[1]) != _SIDES:
        print("it does not read headers", file=sys.stderr)
        return 1
    return int(bool(library.check(content, len(content) - 1, height, width, gray)))


if __name__ == "__main__":
    raise SystemExit(main())
