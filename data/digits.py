"""Scikit-learn's 1,797 handwritten digits as a folder of class folders: the sample data of the image task.

    load_digits() => 8x8 px, 17 grey levels => 32x32 px, 256 grey levels => zero/digit-0000.png, one/digit-0001.jpg, …

The folder is written aside and renamed into place whole, so a folder that is there is complete.
A stamp beside it (never inside: the folder holds classes and nothing else) tells which recipe made it.

    python -m data.digits [--out data/samples/image] [--limit N]
"""

import argparse
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CLASS_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DEFAULT_OUT = Path("data/samples/image")
EDGE = 32
JPEG_QUALITY = 95
_MAX_LEVEL = 16


def write_image_folder(out: Path, limit: int | None = None) -> int:
    """Writes the first `limit` digits (all by default) under `out`, unless they are there already.

    Args:
        out: The folder of class folders. An older sample is replaced; a folder of anybody else's is left alone.
        limit: How many digits to write, from the first.

    Returns:
        The number of images in `out`.

    Raises:
        FileExistsError: `out` is there and was not written by this function.
        ValueError: `limit` is below 1.
    """
    from filelock import FileLock

    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; expected 1 or more, or none for all digits")
    out.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(_beside(out, "lock")):
        if not _is_complete(out, limit):
            _refuse_foreign(out)
            _generate(out, limit)
    return sum(1 for _ in out.glob("*/*"))


def _beside(out: Path, kind: str) -> Path:
    return out.with_name(f".{out.name}.{kind}")


def _recipe(limit: int | None) -> str:
    """All that decides the bytes of the folder."""
    libraries = {name: version(name) for name in ("pillow", "scikit-learn")}
    return json.dumps({"edge": EDGE, "jpeg_quality": JPEG_QUALITY, "limit": limit} | libraries, sort_keys=True)


def _is_complete(out: Path, limit: int | None) -> bool:
    stamp = _beside(out, "complete")
    return out.is_dir() and stamp.is_file() and stamp.read_text() == _recipe(limit)


def _refuse_foreign(out: Path) -> None:
    if out.exists() and not _beside(out, "complete").is_file():
        raise FileExistsError(f"{out} was not written by this generator and is left alone; remove it or choose --out")


def _generate(out: Path, limit: int | None) -> None:
    partial, old = _beside(out, "partial"), _beside(out, "old")
    for leftover in (partial, old):  # of a call that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    _write_classes(partial, limit)
    if out.exists():
        out.rename(old)
    # The stamp comes first: killed between the two lines, it stands beside nothing and is ignored.
    _beside(out, "complete").write_text(_recipe(limit))
    partial.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def _write_classes(folder: Path, limit: int | None) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    for index, (levels, target) in enumerate(zip(digits.images[:limit], digits.target[:limit], strict=True)):
        _write_image(folder / CLASS_NAMES[target], index, levels)


def _write_image(folder: Path, index: int, levels: "NDArray[np.float64]") -> None:
    """Writes one digit; every other one is a JPEG, so that a run meets both formats."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    grey = (levels * (255 / _MAX_LEVEL)).round().astype("uint8")
    image = Image.fromarray(grey).resize((EDGE, EDGE), Image.Resampling.BICUBIC)
    stem = f"digit-{index:04d}"
    if index % 2:
        image.save(folder / f"{stem}.jpg", quality=JPEG_QUALITY)
    else:
        image.save(folder / f"{stem}.png")


def main(argv: list[str] | None = None) -> int:
    """Writes the folder that the command line asks for and says where it is."""
    parser = argparse.ArgumentParser(
        prog="python -m data.digits", description="Write handwritten digits as class folders."
    )
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder to write (default: %(default)s)")
    parser.add_argument("--limit", type=int, help="how many digits (default: all 1,797)")
    arguments = parser.parse_args(argv)
    try:
        count = write_image_folder(arguments.out, arguments.limit)
    except (FileExistsError, ValueError) as error:
        parser.error(str(error))
    print(f"{count:,} images in {arguments.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
