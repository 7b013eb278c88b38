"""Settings of what monitors a pipeline."""

import pydantic

from components.settings.section import LocalPath, Section


class Watch(Section):
    """Where metrics for monitoring are written."""

    metrics: LocalPath = pydantic.Field(
        "",
        description="file (*.prom) or folder on this machine for metrics in the text format of Prometheus, written at "
        "the end of each run; a folder gets penstock-NAME.prom; empty: metrics.prom in the state folder",
    )
