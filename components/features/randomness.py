"""Random numbers per record, independent of the other records in the batch, drawn for a whole batch at once.

    seeds [n, 2] ─► state of each record ─► + purpose, + index of the draw ─► mixed ─► [n, count] in [0, 1)

TensorFlow's stateless ops take one seed per call, so a batch would need one call per record. The mixing function is
SplitMix64: every bit of the counter affects every bit of the result.
"""

import tensorflow as tf

_STEP = 0x9E3779B97F4A7C15
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_MANTISSA = 24  # bits of a float32
_PURPOSES = 64  # maximum number of draws per purpose
_WORD = (1 << 64) - 1


def uniform(seeds: tf.Tensor, count: int, purpose: int) -> tf.Tensor:
    """Draws `count` numbers per record, uniform in [0, 1); draws for different purposes are independent."""
    counters = [(purpose * _PURPOSES + number + 1) * _STEP & _WORD for number in range(count)]
    mixed = _mix(_states(seeds)[:, tf.newaxis] + tf.constant(counters, tf.uint64))
    return tf.cast(_right(mixed, 64 - _MANTISSA), tf.float32) * 2.0**-_MANTISSA


def between(drawn: tf.Tensor, low: float, high: float) -> tf.Tensor:
    """Scales numbers in [0, 1) to [low, high)."""
    return low + (high - low) * drawn


def _states(seeds: tf.Tensor) -> tf.Tensor:
    first, second = tf.unstack(tf.bitcast(tf.cast(seeds, tf.int64), tf.uint64), axis=1)
    # One after the other: with the sum of both, (1, 2) and (2, 1) would give the same numbers.
    return _mix(_mix(first + _STEP) + second)


def _mix(word: tf.Tensor) -> tf.Tensor:
    for shift, factor in _ROUNDS:
        word = tf.bitwise.bitwise_xor(word, _right(word, shift)) * tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(word, _right(word, _LAST_SHIFT))


def _right(word: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(word, tf.constant(bits, tf.uint64))
