"""Batches handed over the short way are those of the data set."""

from typing import Any

import pytest
import tensorflow as tf

from components.input_pipeline import each

NUMBERS = tf.data.Dataset.range(5)
STRUCTURES: dict[str, Any] = {
    "a tensor": lambda x: x,
    "values and labels": lambda x: ({"second": x, "first": tf.cast(x, tf.float32)}, -x),
    "a tuple in a tuple": lambda x: ((x, x + 1), {"deep": (x + 2, {"er": x + 3})}),
    "one mapping": lambda x: {"b": x, "a": tf.as_string(x)},
}


def plain(batch: Any) -> Any:
    """Returns a batch as numbers and strings, in its structure."""
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), batch)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_they_come_in_their_structure(structure: str) -> None:
    """Every one of them, in order; and once more for the next loop."""
    data = NUMBERS.map(STRUCTURES[structure])
    handed = each(data)

    expected = [plain(batch) for batch in data]
    assert [plain(batch) for batch in handed] == expected
    assert [plain(batch) for batch in handed] == expected
    assert len(expected) == 5


def test_ragged_ones_come_as_ever() -> None:
    """What is more than tensors is left to TensorFlow."""
    data = NUMBERS.map(lambda x: (tf.RaggedTensor.from_row_splits(tf.range(x), [0, x]), x))

    assert each(data) is data


def test_what_goes_wrong_is_raised() -> None:
    """At the batch that it happens in; the ones before it have come."""
    data = NUMBERS.map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x - 2, tf.float32), "no number"))
    come = iter(each(data))

    assert [next(come).numpy(), next(come).numpy()] == [-0.5, -1.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no number"):
        next(come)


def test_options_of_the_data_set_hold() -> None:
    """Its own threads among them: two batches in the making, in order."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    data = NUMBERS.map(lambda x: x * 2, num_parallel_calls=2).with_options(options)

    assert [int(batch) for batch in each(data)] == [0, 2, 4, 6, 8]
