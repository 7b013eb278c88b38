"""Text: a vocabulary of tokens; other tokens are hashed into out-of-vocabulary buckets."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.features.text import bounded, tokens, truncated
from components.fitting.analysis import vocabulary
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
    found = truncated(tokens(bounded(texts, *limits), settings.tokens, settings.lower, settings.ngrams), *limits)
    vocabulary.fit(found, name, settings.vocabulary, settings.min_count)
    return vocabulary.apply(found, name, unknown_buckets=settings.unknown_buckets)
