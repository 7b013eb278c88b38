"""Sample data of the image task: scikit-learn's 1,797 handwritten digits, one folder per class.

load_digits() => 8x8 px, 17 gray levels => 32x32 px, 256 gray levels => zero/digit-0000.png, one/digit-0001.jpg, …

python -m data.digits [--out data/samples/image] [--limit N]
"""

from pathlib import Path
from typing import TYPE_CHECKING

from data import sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

CLASS_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DEFAULT_OUT = Path("data/samples/image")
EDGE = 32
JPEG_QUALITY = 95
MAX_LEVEL = 16


def write_image_folder(out: Path, limit: int | None = None) -> int:
    """Writes the first `limit` digits (all by default) under `out`, unless they exist already.

    Args:
        out: folder of the class folders. An older sample is replaced; any other folder is not touched.
        limit: number of digits to write.

    Returns:
        The number of images in `out`.

    Raises:
        FileExistsError: `out` exists and was not written by this function.
        ValueError: `limit` is below 1.
    """
    recipe = {"edge": EDGE, "jpeg_quality": JPEG_QUALITY, "limit": limit} | sample.versions("pillow", "scikit-learn")
    sample.write_whole(out, recipe, lambda folder: _write_classes(folder, limit))
    return sum(1 for _ in out.glob("*/*"))


def load(limit: int | None = None) -> "tuple[NDArray[np.uint8], NDArray[np.int64]]":
    """Returns the first digits as gray levels from 0 to 16, [n, 8, 8], and their labels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return digits.images[:limit].astype("uint8"), digits.target[:limit].astype("int64")


def image(levels: "NDArray[np.uint8]") -> "Image":
    """Returns one digit as a grayscale image of 32 x 32 pixels."""
    from PIL import Image

    gray = (levels * (255 / MAX_LEVEL)).round().astype("uint8")
    return Image.fromarray(gray).resize((EDGE, EDGE), Image.Resampling.BICUBIC)


def _write_classes(folder: Path, limit: int | None) -> None:
    for index, (levels, target) in enumerate(zip(*load(limit), strict=True)):
        _write_image(folder / CLASS_NAMES[target], index, levels)


def _write_image(folder: Path, index: int, levels: "NDArray[np.uint8]") -> None:
    """Writes one digit; every second one as JPEG, so that a run reads both formats."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"digit-{index:04d}"
    if index % 2:
        image(levels).save(folder / f"{stem}.jpg", quality=JPEG_QUALITY)
    else:
        image(levels).save(folder / f"{stem}.png")


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    summary = "Write handwritten digits, one folder per class."
    return sample.command(write_image_folder, "data.digits", summary, DEFAULT_OUT, argv)


if __name__ == "__main__":
    raise SystemExit(main())
