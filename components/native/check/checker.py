"""Check a JPEG by our own code: half the time of libjpeg, the same verdict.

    content ─► regular_gray() ─┬─ gray pixels at an eighth of the size, equal to libjpeg's: the file is intact
                               └─ None: damaged, rare, or no library; libjpeg has to decide

The library is used if it was built (`components.native.build`), and never built here: building takes longer than
checking saves. Neither TensorFlow nor Pillow is imported. PENSTOCK_NATIVE=0 turns it off.
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
_PATH: Final = "PENSTOCK_NATIVE_CHECKER"  # environment variable: the library, for helper processes
_SIDES: Final = (43, 37)  # of the test image, in pixels: several JPEG blocks and a partial one

Check = Callable[[bytes, int, int, int, "ctypes.Array[ctypes.c_char]"], int]


def regular_gray(content: bytes, end: int, width: int, height: int) -> bytes | None:
    """Returns an intact JPEG in gray at an eighth of its size (sides rounded up), or None if libjpeg has to decide.

    Args:
        content: The file.
        end: Offset after its end marker.
        width: In pixels, as its header says.
        height: In pixels, as its header says.
    """
    check = None if os.environ.get(SWITCH) == "0" else _load()
    if check is None:
        return None
    gray = ctypes.create_string_buffer(-(-width // SCALE) * -(-height // SCALE))
    return gray.raw if check(content, end, height, width, gray) else None


def open_library(library: Path) -> Check:
    """Loads a library and returns its function.

    Raises:
        OSError: It does not load.
    """
    try:
        check = ctypes.CDLL(str(library)).penstock_check_jpeg
    except AttributeError as error:
        raise OSError(f"{library}: {error}") from error
    check.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
    return check


def environment() -> dict[str, str]:
    """Returns environment variables for a helper process: searching for the library takes half of its start."""
    path = _find()
    return {_PATH: str(path)} if path else {}


@lru_cache(maxsize=1)
def _load() -> Check | None:
    path = _find()
    try:
        return open_library(path) if path else None
    except OSError:
        return None  # the library only saves time


def _find() -> Path | None:
    if path := os.environ.get(_PATH):
        return Path(path)
    from components.native import build  # here: processes that read no JPEG start faster

    try:
        return build.find(build.CHECK)
    except (build.NotBuilt, OSError):
        return None


def main() -> int:
    """Tests the library named on the command line, in a process that may crash."""
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
        print("its pixels differ from those of libjpeg", file=sys.stderr)
        return 1
    return int(bool(check(content, len(content) - 1, height, width, gray)))


if __name__ == "__main__":
    raise SystemExit(main())
