"""Sample data of the tensor task: scikit-learn's 1,797 handwritten digits as arrays.

    load_digits() => digits.npz: pixels uint8 [1797, 8, 8] from 0 to 16, label int64 [1797] from 0 to 9

Size and values are unchanged. The range of the values does not follow from the dtype, so fitted moments matter.

    python -m data.digit_arrays [--out data/samples/tensor] [--limit N]
"""

from pathlib import Path

from data import digits, sample

DEFAULT_OUT = Path("data/samples/tensor")
FILE = "digits.npz"


def write_arrays(out: Path, limit: int | None = None) -> int:
    """Writes `out`/digits.npz with the first `limit` digits, unless it exists already, and returns their number."""
    import numpy as np

    recipe = {"limit": limit} | sample.versions("numpy", "scikit-learn")
    sample.write_whole(out, recipe, lambda folder: _write(folder / FILE, limit))
    with np.load(out / FILE) as arrays:
        return len(arrays["label"])


def _write(path: Path, limit: int | None) -> None:
    import numpy as np

    pixels, label = digits.load(limit)
    # Not compressed, so that rows can be read at their offsets. NumPy writes no timestamps into the archive.
    np.savez(path, pixels=pixels, label=label)


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    return sample.command(write_arrays, "data.digit_arrays", "Write handwritten digits as arrays.", DEFAULT_OUT, argv)


if __name__ == "__main__":
    raise SystemExit(main())
