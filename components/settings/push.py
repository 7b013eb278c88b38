"""Settings of the Pusher."""

import pydantic

from components.settings.section import LocalPath, Section


class Push(Section):
    """Where blessed models are copied to."""

    directory: LocalPath = pydantic.Field("", description="folder of served model versions; empty: <root>/serving")
