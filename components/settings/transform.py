"""Settings of Transform."""

from typing import Literal

import pydantic

from components.settings.section import Section


class Transform(Section):
    """What is fitted on the training split, and goes into the served model."""

    split: Literal["words", "characters"] = pydantic.Field("words", description="what a token of a text is")
    lower: bool = pydantic.Field(True, description="upper case is lower case")
    ngrams: int = pydantic.Field(1, ge=1, le=5, description="up to so many neighbours make a token together, too")
    vocabulary: int = pydantic.Field(20_000, gt=0, description="most frequent tokens that are told apart")
    min_count: int = pydantic.Field(2, gt=0, description="tokens that are rarer are unknown")
    unknown_buckets: int = pydantic.Field(1, gt=0, le=1 << 20, description="kinds of unknown tokens, by their hash")
    categories: int = pydantic.Field(1000, gt=0, description="most frequent values of a column that are told apart")
    numbers: Literal["zscore", "buckets"] = pydantic.Field(
        "zscore", description="zscore: deviations from the mean; buckets: which of equally full ones"
    )
    buckets: int = pydantic.Field(16, ge=2, le=1000, description="of each column of numbers, if they are wanted")
    moments: Literal["none", "all", "channel", "element"] = pydantic.Field(
        "none", description="of tensors: mean and variance are fitted over all values, by channel or by element"
    )
