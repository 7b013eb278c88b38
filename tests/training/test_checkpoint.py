"""The checkpoint file: whole or not at all, checked when it is read, never fatal when it cannot be written."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from components import progress
from components.storage import durable
from components.training import checkpoint
from components.training.checkpoint import Checkpoints

HEADER = {"epoch": 2, "step": 5, "history": {"loss": [0.1, 0.2]}}
ARRAYS: list[np.ndarray[Any, Any]] = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array(7, np.int64),
    np.zeros([0, 3], np.float16),
    np.array([1.5], ml_dtypes.bfloat16),
    np.array([True, False]),
]


def save(checkpoints: Checkpoints) -> None:
    """Saves one small variable, and waits until it is written."""
    checkpoints.save(HEADER, [tf.Variable([1.0, 2.0])], [])
    checkpoints.wait()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Plain values, and arrays of every type and shape."""
    checkpoint.write(tmp_path / "file", HEADER, ARRAYS)
    found = checkpoint.read(tmp_path / "file")

    assert {name: found.header[name] for name in HEADER} == HEADER
    assert [(a.dtype, a.shape, a.tolist()) for a in found.arrays] == [(a.dtype, a.shape, a.tolist()) for a in ARRAYS]


def test_a_metric_that_is_not_finite_is_read_as_it_was(tmp_path: Path) -> None:
    """B3: a history may hold NaN and infinity."""
    values = [float("nan"), float("inf"), float("-inf"), 0.1]
    checkpoint.write(tmp_path / "file", {"history": values}, [])

    assert repr(checkpoint.read(tmp_path / "file").header["history"]) == repr(values)


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    """B4: the training starts from the beginning."""
    (tmp_path / checkpoint.FILE).mkdir()
    warnings: list[str] = []
    with progress.warnings_to(warnings.append):
        assert Checkpoints(tmp_path).found is None

    (warning,) = warnings
    assert warning.endswith(f"'{tmp_path / checkpoint.FILE}'; training starts from the beginning")


@pytest.mark.parametrize("place", [0, 30, -40, -1], ids=["magic", "header", "arrays", "digest"])
def test_a_damaged_file_is_reported(tmp_path: Path, place: int) -> None:
    """B4: one flipped bit anywhere; the training starts from the beginning."""
    save(Checkpoints(tmp_path))
    content = bytearray((tmp_path / checkpoint.FILE).read_bytes())
    content[place] ^= 1
    (tmp_path / checkpoint.FILE).write_bytes(content)
    warnings: list[str] = []
    with progress.warnings_to(warnings.append):
        assert Checkpoints(tmp_path).found is None

    (warning,) = warnings
    assert warning == (
        f"{tmp_path / checkpoint.FILE}: damaged, its checksum does not match its content; "
        "training starts from the beginning"
    )


@pytest.mark.parametrize("size", [0, 10, 60])
def test_a_truncated_file_is_damaged(tmp_path: Path, size: int) -> None:
    """An empty one too."""
    checkpoint.write(tmp_path / "file", HEADER, ARRAYS)
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:size])

    with pytest.raises(checkpoint.Damaged):
        checkpoint.read(tmp_path / "file")


def test_a_killed_writer_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    """B4: what it left is swept."""
    save(Checkpoints(tmp_path))
    durable.temporary_of(tmp_path / checkpoint.FILE).write_bytes(b"half")
    found = Checkpoints(tmp_path).found

    assert found is not None
    assert found.arrays[0].tolist() == [1.0, 2.0]
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.FILE]


def test_a_full_disk_does_not_end_the_training(tiny_disk: Path) -> None:
    """B5: one warning, the last complete checkpoint stays, and no truncated file."""
    checkpoints, warnings = Checkpoints(tiny_disk), list[str]()
    save(checkpoints)
    with progress.warnings_to(warnings.append):
        for _ in range(2):
            checkpoints.save({"epoch": 9, "step": 9}, [tf.zeros([100_000])], [])
            checkpoints.wait()
    found = Checkpoints(tiny_disk).found

    assert [warning.partition(":")[0] for warning in warnings] == ["no checkpoint was written, training goes on"]
    assert "No space left on device" in warnings[0]
    assert found is not None
    assert (found.header["epoch"], list(tiny_disk.iterdir())) == (2, [tiny_disk / checkpoint.FILE])


def test_an_error_of_the_writing_thread_is_raised(tmp_path: Path) -> None:
    """A header that is not plain."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({**HEADER, "callbacks": [object()]}, [tf.Variable(1.0)], [])

    with pytest.raises(TypeError):
        checkpoints.wait()


def test_other_thread_counts_are_reported() -> None:
    """B3: results depend on them, and TensorFlow cannot change them once it has started."""
    tf.constant(0)  # starts TensorFlow
    present, warnings = checkpoint.threads(), list[str]()
    with progress.warnings_to(warnings.append):
        checkpoint.set_threads(present)
        checkpoint.set_threads([present[0] + 1, present[1]])

    (warning,) = warnings
    assert warning.startswith(f"training began with {present[0] + 1} threads and continues with {present[0]}: ")
