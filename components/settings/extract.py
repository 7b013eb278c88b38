"""Settings of a pretrained model."""

from typing import Literal

import pydantic

from components.settings.section import LocalPath, Section


class Extract(Section):
    """A pretrained model that computes embeddings of images."""

    model: LocalPath = pydantic.Field(
        "",
        description="folder of a SavedModel or a KerasHub preset, .keras file, or name of a Keras application or "
        "KerasHub preset; empty: no pretrained model",
    )
    sha256: str = pydantic.Field(
        "", description="expected SHA-256 of the model, in hexadecimal; any other model is rejected; empty: any model"
    )
    trust: bool = pydantic.Field(
        False,
        description="load a model that contains code or operations on files, such as a Lambda layer, as if it were "
        "your own program; a model that extract.sha256 pins is trusted as well",
    )
    where: Literal["beam", "frozen", "finetune"] = pydantic.Field(
        "beam",
        description="beam: compute embeddings once per record, before training; frozen: make the model a part of the "
        "trained model, with fixed weights; finetune: train its weights as well",
    )
    batch_size: int = pydantic.Field(64, gt=0, description="images per batch when embeddings are computed on Beam")
