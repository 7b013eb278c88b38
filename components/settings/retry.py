"""Settings of tries: how often a node is tried again. They change no result, so no cache key contains them."""

import pydantic

from components.settings.section import Section


class Retry(Section):
    """When a node is tried again whose error may be gone a little later: no connection, a full disk, a lost worker."""

    attempts: int = pydantic.Field(3, ge=1, le=100, description="how often a node is tried in one run; 1: never again")
    first_wait: float = pydantic.Field(
        10.0, ge=0, description="seconds before the second try; before each further one twice as many"
    )
    max_wait: float = pydantic.Field(300.0, ge=0, description="most seconds between two tries")
