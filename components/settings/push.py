"""Settings of the Pusher."""

import pydantic

from components.settings.names import not_a_path
from components.settings.section import Section


class Push(Section):
    """Where blessed models are copied to."""

    directory: str = pydantic.Field("", description="folder of served model versions; empty: <root>/serving")

    @pydantic.field_validator("directory")
    @classmethod
    def _is_a_path(cls, directory: str) -> str:
        if reason := not_a_path(directory):
            raise ValueError(reason)
        return directory
