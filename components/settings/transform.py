"""Settings of Transform."""

from typing import Literal

import pydantic

from components.settings.section import Section


class Transform(Section):
    """What is fitted on the train split and becomes part of the served model."""

    tokens: Literal["words", "characters"] = pydantic.Field("words", description="unit of text that a token is")
    lower: bool = pydantic.Field(True, description="convert text to lower case")
    ngrams: int = pydantic.Field(
        1, ge=1, le=5, description="maximum number of neighbouring tokens that form a token of their own (1–5)"
    )
    vocabulary: int = pydantic.Field(20_000, gt=0, description="maximum vocabulary size per text column")
    min_count: int = pydantic.Field(
        2, gt=0, description="minimum occurrences of a token in the train split to be in the vocabulary"
    )
    unknown_buckets: int = pydantic.Field(
        1, gt=0, le=1 << 20, description="number of out-of-vocabulary buckets per text column, chosen by hash"
    )
    categories: int = pydantic.Field(1000, gt=0, description="maximum vocabulary size per column of categories")
    numbers: Literal["zscore", "buckets"] = pydantic.Field(
        "zscore", description="how numeric columns are scaled: z-score, or quantile bucket index"
    )
    buckets: int = pydantic.Field(16, ge=2, le=1000, description="number of quantile buckets per column (2–1000)")
    tensor_zscore: Literal["none", "all", "channel", "element"] = pydantic.Field(
        "none", description="z-score of tensors: none, over all values, per channel, or per element"
    )


class Fit(Transform):
    """Transform's settings, with those of the input pipeline that limit texts: no token beyond the limit is fitted."""

    max_tokens: int = 512
    truncate: Literal["end", "start"] = "end"
