"""Text: a vocabulary of tokens; other tokens are hashed into out-of-vocabulary buckets."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from components.features.text import bounded, tokens, truncated
from components.fitting.names import token_vocabulary
from components.records.roles import Column
from components.settings.transform import Fit


def fit(inputs: Mapping[str, Any], columns: Sequence[Column], settings: Fit) -> dict[str, Any]:
    """Returns the token ids of each text column, from 0, with one entry per token."""
    return {
        column.name: _token_ids(inputs[column.name], token_vocabulary(place), settings)
        for place, column in enumerate(columns)
    }


def _token_ids(texts: Any, name: str, settings: Fit) -> Any:
    limits = settings.max_tokens, settings.truncate
    ids = tft.compute_and_apply_vocabulary(
        truncated(tokens(bounded(texts, *limits), settings.tokens, settings.lower, settings.ngrams), *limits),
        top_k=settings.vocabulary,
        frequency_threshold=settings.min_count,
        num_oov_buckets=settings.unknown_buckets,
        vocab_filename=name,
    )
    return tf.cast(ids, tf.int64)
