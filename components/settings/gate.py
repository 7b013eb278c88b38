"""Settings of the Gate."""

import pydantic

from components.settings.section import Section


class Gate(Section):
    """What the data must satisfy before training starts."""

    min_per_class: int = pydantic.Field(
        1, ge=0, description="minimum number of records per class in each split; the train split needs at least 1"
    )
