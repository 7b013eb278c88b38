"""Settings of `penstock gc`."""

import pydantic

from components.settings.section import Section


class Gc(Section):
    """What `penstock gc` keeps besides the live, the previous, the baseline and the base model and what they need."""

    keep_runs: int = pydantic.Field(10, ge=1, description="newest runs whose artifacts are kept")
    keep_versions: int = pydantic.Field(
        5, ge=1, description="newest served versions that are kept, besides the live and the previous one"
    )
    keep_logs: int = pydantic.Field(50, ge=1, description="newest logs and reports of runs that are kept")
    after_tick: bool = pydantic.Field(
        True, description="whether `penstock retrain` collects after a tick that has run; `penstock run` never does"
    )
