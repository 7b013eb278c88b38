"""`each` returns the batches of the dataset."""

from typing import Any

import pytest
import tensorflow as tf

from components.input_pipeline import each

NUMBERS = tf.data.Dataset.range(5)
STRUCTURES: dict[str, Any] = {
    "tensor": lambda x: x,
    "values and labels": lambda x: ({"second": x, "first": tf.cast(x, tf.float32)}, -x),
    "nested tuples": lambda x: ((x, x + 1), {"deep": (x + 2, {"er": x + 3})}),
    "dict": lambda x: {"b": x, "a": tf.as_string(x)},
}


def plain(batch: Any) -> Any:
    """Returns a batch as numbers and strings in the same structure."""
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), batch)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_batches_keep_their_structure(structure: str) -> None:
    """All of them in order, and again in the next loop."""
    data = NUMBERS.map(STRUCTURES[structure])
    batches = each(data)

    expected = [plain(batch) for batch in data]
    assert [plain(batch) for batch in batches] == expected
    assert [plain(batch) for batch in batches] == expected
    assert len(expected) == 5


def test_ragged_tensors_take_the_usual_way() -> None:
    """The dataset itself is returned."""
    data = NUMBERS.map(lambda x: (tf.RaggedTensor.from_row_splits(tf.range(x), [0, x]), x))

    assert each(data) is data


def test_an_error_is_raised_at_its_batch() -> None:
    """After the batches before it."""
    data = NUMBERS.map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x - 2, tf.float32), "no number"))
    batches = iter(each(data))

    assert [next(batches).numpy(), next(batches).numpy()] == [-0.5, -1.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no number"):
        next(batches)


def test_the_options_of_the_dataset_apply() -> None:
    """For example its private threads: two batches in work, in order."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    data = NUMBERS.map(lambda x: x * 2, num_parallel_calls=2).with_options(options)

    assert [int(batch) for batch in each(data)] == [0, 2, 4, 6, 8]
