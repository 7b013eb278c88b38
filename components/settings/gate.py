"""Settings of the Gate."""

import pydantic

from components.settings.section import Section


class Gate(Section):
    """What stops a run before training."""

    min_per_class: int = pydantic.Field(1, ge=0, description="records of every class in every split")
