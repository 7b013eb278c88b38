"""The executions that the newest run found up to date, if no node was due: the metadata says nothing about such a run.

penstock run, nothing due ─► <state>/.penstock/up-to-date.json ─► penstock gc keeps their artifacts
"""

from pathlib import Path

import orjson

from components.storage import durable
from pipelines.config import RunConfig
from pipelines.orchestration.plan import Plan


def note(config: RunConfig, planned: Plan) -> None:
    """Writes down the executions whose outputs a plan reuses."""
    found = sorted(each.execution.id for each in planned.nodes if each.execution is not None)
    content = orjson.dumps({"pipeline": config.name, "executions": found})
    file = _file(config)
    if not file.exists() or file.read_bytes() != content:
        durable.write_bytes(file, content)


def read(config: RunConfig) -> frozenset[int]:
    """Returns the ids of the executions that were noted; none if there is no note, or it is damaged."""
    try:
        stored = orjson.loads(_file(config).read_bytes())
        return frozenset(map(int, stored["executions"])) if stored["pipeline"] == config.name else frozenset()
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def _file(config: RunConfig) -> Path:
    return config.notes / "up-to-date.json"
