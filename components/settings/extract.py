"""Settings of a pretrained model."""

from typing import Literal

import pydantic

from components.settings.names import not_a_path
from components.settings.section import Section


class Extract(Section):
    """A pretrained network that looks at the images."""

    model: str = pydantic.Field(
        "", description="SavedModel or KerasHub preset folder, .keras file, or name of a Keras application or preset"
    )
    sha256: str = pydantic.Field("", description="of that model; another one is refused")
    where: Literal["beam", "frozen", "finetune"] = pydantic.Field(
        "beam", description="beam: once for every record, before training; frozen, finetune: part of the trained model"
    )
    batch_size: int = pydantic.Field(64, gt=0, description="images that it sees at once on Beam")

    @pydantic.field_validator("model")
    @classmethod
    def _is_a_path(cls, model: str) -> str:
        if reason := not_a_path(model):
            raise ValueError(reason)
        return model
