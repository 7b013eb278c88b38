"""Settings of the Trainer."""

import pydantic

from components.settings.section import Section


class Train(Section):
    """How the model is trained."""

    epochs: int = pydantic.Field(12, gt=0, description="number of epochs")
    learning_rate: float = pydantic.Field(
        3e-3, gt=0, allow_inf_nan=False, description="initial learning rate of the optimizer"
    )
    seed: int = pydantic.Field(17, description="seed of weights, shuffling, dropout and augmentation")
    class_weights: float = pydantic.Field(
        0,
        ge=0,
        le=1,
        description="0: every record has the same weight; 1: every class has; values between interpolate; above 0 "
        "accuracy may be lower, so evaluate.min_accuracy may need a lower value",
    )
