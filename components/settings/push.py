"""Settings of the Pusher."""

import pydantic

from components.settings.section import Place, Section


class Push(Section):
    """Where blessed models are copied to."""

    directory: Place = pydantic.Field(
        "", description="folder of served model versions, or s3://… or gs://…; empty: <root>/serving"
    )
