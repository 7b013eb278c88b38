"""Settings of the Trainer."""

import pydantic

from components.settings.section import Section


class Train(Section):
    """How the model is fitted."""

    epochs: int = pydantic.Field(12, gt=0)
    learning_rate: float = pydantic.Field(3e-3, gt=0, allow_inf_nan=False)
    seed: int = 17
    class_weights: float = pydantic.Field(
        0, ge=0, le=1, description="0: every record counts the same; 1: every class does; 0.5 is half way"
    )
