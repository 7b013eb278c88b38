"""Texts: a vocabulary of tokens; what it does not hold has a number by its hash."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from components.features.text import tokens
from components.records.roles import Column
from components.settings.transform import Transform


def vocabulary_of(place: int) -> str:
    """Returns the vocabulary's name of a text, by its place among the texts of a record."""
    return f"tokens_{place}"


def fit(inputs: Mapping[str, Any], columns: Sequence[Column], settings: Transform) -> dict[str, Any]:
    """Returns the numbers of each text's tokens, 0, 1, 2 …, as many as it has."""
    return {
        column.name: _numbers(inputs[column.name], vocabulary_of(place), settings)
        for place, column in enumerate(columns)
    }


def _numbers(texts: Any, name: str, settings: Transform) -> Any:
    found = tokens(texts, settings.split, settings.lower, settings.ngrams)
    numbers = tft.compute_and_apply_vocabulary(
        found,
        top_k=settings.vocabulary,
        frequency_threshold=settings.min_count,
        num_oov_buckets=settings.unknown_buckets,
        vocab_filename=name,
    )
    return tf.cast(numbers, tf.int64)
