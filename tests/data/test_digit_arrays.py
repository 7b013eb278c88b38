"""The sample arrays are scikit-learn's digits, unchanged."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from data import digit_arrays
from data.digit_arrays import write_arrays


def test_the_arrays_are_those_of_scikit_learn(tmp_path: Path) -> None:
    """Pixels keep their size and their levels from 0 to 16; labels are the digits."""
    assert write_arrays(tmp_path / "tensor") == 1797

    with np.load(tmp_path / "tensor" / digit_arrays.FILE) as arrays:
        assert {name: (array.dtype.name, array.shape) for name, array in arrays.items()} == {
            "pixels": ("uint8", (1797, 8, 8)),
            "label": ("int64", (1797,)),
        }
        np.testing.assert_array_equal(arrays["pixels"], load_digits().images)
        np.testing.assert_array_equal(arrays["label"], load_digits().target)


def test_two_calls_write_the_same_bytes(tmp_path: Path) -> None:
    """The archive has no timestamps."""
    for name in ("a", "b"):
        write_arrays(tmp_path / name, limit=100)

    one, other = ((tmp_path / name / digit_arrays.FILE).read_bytes() for name in ("a", "b"))
    assert one == other


def test_a_limit_takes_the_first_digits(tmp_path: Path) -> None:
    """In scikit-learn's order."""
    assert write_arrays(tmp_path / "tensor", limit=30) == 30

    with np.load(tmp_path / "tensor" / digit_arrays.FILE) as arrays:
        np.testing.assert_array_equal(arrays["label"], load_digits().target[:30])
