"""The splits, and the fraction of the data in each."""

import pydantic

from components.settings.section import Section

SPLITS = ("train", "eval", "test")


class Splits(Section):
    """Fractions of the data, by content hash: the same bytes are always on the same side."""

    train: float = pydantic.Field(0.8, gt=0, lt=1)
    eval: float = pydantic.Field(0.1, gt=0, lt=1)
    test: float = pydantic.Field(0.1, gt=0, lt=1)
    salt: str = pydantic.Field("", description="another value gives another random split")

    @pydantic.model_validator(mode="after")
    def _sums_to_one(self) -> "Splits":
        total = self.train + self.eval + self.test
        if abs(total - 1) > 1e-6:  # noqa: PLR2004 - float noise of three decimal fractions
            raise ValueError(f"train + eval + test must be 1, they are {total:g}")
        return self

    def fractions(self) -> tuple[tuple[str, float], ...]:
        """Returns (split, fraction) in their fixed order."""
        return tuple(zip(SPLITS, (self.train, self.eval, self.test), strict=True))
