"""JPEG files read to their end by our own reader of Huffman codes: in half the time that libjpeg takes.

    content ─► regular_gray() ─┬─ gray pixels at an eighth of the size: whole, and libjpeg makes the same of it
                               └─ None: damaged, or of a rare kind, or there is no library; libjpeg has to tell

The library is used where it was built (`build.py`), and never built here: that would take longer than it saves.
Neither TensorFlow nor Pillow is imported. PENSTOCK_NATIVE=0 turns it off.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

from components.native import SWITCH

SCALE: Final = 8
_SIDES: Final = (43, 37)  # of the picture that is read before any other: several blocks, and a rest

Check = Callable[[bytes, int, int, int, "ctypes.Array[ctypes.c_char]"], int]


def regular_gray(content: bytes, end: int, width: int, height: int) -> bytes | None:
    """Returns a JPEG in gray at an eighth of its size, sides rounded up, if all of it is as it should be.

    Args:
        content: The file.
        end: Where its end marker ends.
        width: In pixels, as its header says.
        height: In pixels, as its header says.
    """
    if os.environ.get(SWITCH) == "0" or (check := _load()) is None:
        return None
    gray = ctypes.create_string_buffer(-(-width // SCALE) * -(-height // SCALE))
    return gray.raw if check(content, end, height, width, gray) else None


def open_library(library: Path) -> Check:
    """Loads a library.

    Raises:
        OSError: It does not load.
    """
    try:
        check = ctypes.CDLL(str(library)).penstock_check_jpeg
    except AttributeError as error:
        raise OSError(f"{library}: {error}") from error
    check.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
    return check


@lru_cache(maxsize=1)
def _load() -> Check | None:
    from components.native import build  # not above: who reads no JPEG starts sooner

    try:
        library = build.find(build.recipe())
        return open_library(library.with_name(build.CHECKER)) if library else None
    except (build.NotBuilt, OSError):
        return None  # it only saves time


def main() -> int:
    """Tries the library that is named on the command line; this is the process that may crash."""
    import io

    from PIL import Image

    try:
        check = open_library(Path(sys.argv[1]))
    except OSError as error:
        print(f"{sys.argv[1]} does not load: {error}", file=sys.stderr)
        return 1
    width, height = _SIDES
    out = io.BytesIO()
    Image.linear_gradient("L").resize(_SIDES).convert("RGB").save(out, "JPEG")
    content, size = out.getvalue(), (-(-width // SCALE), -(-height // SCALE))
    expected = Image.frombytes("L", size, content, "jpeg", "L", "", SCALE, 0).tobytes()
    gray = ctypes.create_string_buffer(len(expected))
    if not check(content, len(content), height, width, gray) or gray.raw != expected:
        print("its pixels are not those of libjpeg", file=sys.stderr)
        return 1
    return int(bool(check(content, len(content) - 1, height, width, gray)))


if __name__ == "__main__":
    raise SystemExit(main())
