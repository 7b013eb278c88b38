"""The splits, and the fraction of the data in each."""

import pydantic

from components.settings.section import Section

SPLITS = ("train", "eval", "test")


class Splits(Section):
    """Fractions of the data per split; a content hash decides, so equal bytes are always in the same split."""

    train: float = pydantic.Field(0.8, gt=0, lt=1, description="fraction of records to train on (0–1)")
    eval: float = pydantic.Field(
        0.1, gt=0, lt=1, description="fraction of records to evaluate on after each epoch (0–1)"
    )
    test: float = pydantic.Field(
        0.1, gt=0, lt=1, description="fraction of records that the Evaluator compares with the metric thresholds (0–1)"
    )
    salt: str = pydantic.Field(
        "", description="text that is hashed with the content; another value gives another random split"
    )

    stratify: bool = pydantic.Field(
        False,
        description="give every class its share of each split, and at least one record if it has three; rows are read "
        "twice, and new data may move records between splits",
    )

    @pydantic.model_validator(mode="after")
    def _sums_to_one(self) -> "Splits":
        total = self.train + self.eval + self.test
        if abs(total - 1) > 1e-6:  # noqa: PLR2004 - rounding of three decimal fractions
            raise ValueError(f"expected train + eval + test = 1, got {total:g}")
        return self

    def fractions(self) -> tuple[tuple[str, float], ...]:
        """Returns (split, fraction) in order."""
        return tuple(zip(SPLITS, (self.train, self.eval, self.test), strict=True))
