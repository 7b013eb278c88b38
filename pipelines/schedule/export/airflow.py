"""A DAG of Airflow 2.11 or 3: one task per node, and one DAG run is one retraining.

    Ingest ─► … ─► Evaluator ─► Pusher      each task: penstock retrain --at TICK --run-id DAG_RUN --to NODE

Every task asks for the pipeline up to its node, for the span of the DAG run's time. What is up to date is not run
again; if data is corrected while the DAG runs, the nodes that it concerns run once more, instead of going on with old
data. The last task asks for all of it, and so records the verdict.
"""

from datetime import timedelta
from pathlib import Path
from pprint import pformat

import jinja2

from components.errors import NotBlessed, Skipped
from components.settings.tree import Settings
from pipelines.orchestration import graph
from pipelines.schedule.export.exported import ExportedFile, command, cron_text
from pipelines.schedule.schedule import PipelineSchedule

_TEMPLATE = Path(__file__).with_name("dag.py.j2")
_BASE = "Base"  # only with a warm start, which each retraining decides
_WIDTH = 100


def export(schedule: PipelineSchedule, settings: Settings) -> list[ExportedFile]:
    """Returns the DAG file of a schedule.

    Args:
        schedule: the schedule.
        settings: of the pipeline; they decide which nodes it has.
    """
    nodes = [node.id for node in graph.nodes(settings) if not node.resolves and node.id != _BASE]
    rule = schedule.timetable.rule
    program, retrain, *flags = command(schedule)
    if "--wait" not in flags:  # tasks of one DAG run never overlap; a run by hand is waited for
        flags = ["--wait", *flags]
    template = jinja2.Template(
        _TEMPLATE.read_text(encoding="utf-8"), undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    content = template.render(
        name=repr(f"penstock-{schedule.name}"),
        zone=repr(schedule.zone),
        folder=repr(schedule.folder),
        start=repr([program, retrain]),
        flags=pformat(flags, width=_WIDTH, compact=True),
        nodes=pformat(nodes, width=_WIDTH, compact=True),
        seconds=rule.total_seconds() if isinstance(rule, timedelta) else None,
        cron=None if isinstance(rule, timedelta) else repr(cron_text(schedule, rule, has_star_steps=False)),
        since=repr(schedule.since.isoformat(timespec="seconds")),
        catch_up=schedule.catch_up == "all",
        skipped=[NotBlessed.exit_code, Skipped.exit_code],
    )
    return [ExportedFile(f"penstock_{schedule.name}.py".replace("-", "_"), content + "\n")]
