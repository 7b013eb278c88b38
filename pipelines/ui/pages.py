"""Renders the pages over all pipelines: an index, and a page per pipeline; each opens offline and loads nothing.

    Overview ─► rows, trends ─► index.html.j2, pipeline.html.j2 ─► HTML

Every text is escaped, shortened and rid of secrets when it leaves a template, as in the report. The data that the
page's own script compares is JSON in which no character can end the element around it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import orjson
from jinja2 import Environment
from markupsafe import Markup

from components.redact import redact, secrets
from pipelines.report import page
from pipelines.report.formatting import clock, fit
from pipelines.ui import rows
from pipelines.ui.overview import RUNS, Overview, PipelineView
from pipelines.watch.history import Run

_MOST = {"strip": rows.STRIP, "runs": RUNS, "moves": 10}
_COMPARED = 40  # newest runs that can be compared


class Links(Protocol):
    """Where reports are, for a page; empty: there is none."""

    def newest(self, view: PipelineView) -> str:
        """Returns the address of the report of the newest run."""

    def report(self, view: PipelineView, run: Run) -> str:
        """Returns the address of the report of a run."""


def index(found: Overview, links: Links) -> str:
    """Returns the page over all pipelines."""
    return _render("index.html.j2", found, links, folder=str(found.folder.absolute()), views=found.pipelines)


def of_pipeline(found: Overview, view: PipelineView, links: Links) -> str:
    """Returns the page of one pipeline."""
    charts, ticks = rows.trends(view), rows.tick_strip(view)
    sections = (
        ("running", "Running now", view.progress is not None),
        ("schedule", "Schedule", bool(view.schedules)),
        ("live", "Live model", view.live is not None),
        ("trends", "Trends", bool(charts)),
        ("runs", "Runs", bool(view.runs)),
        ("compare", "Compare two runs", len(view.runs) > 1),
    )
    return _render(
        "pipeline.html.j2",
        found,
        links,
        view=view,
        sections={anchor: title for anchor, title, has_content in sections if has_content},
        trends=charts,
        ticks=ticks,
        metric=(rows.last_metric(view) or ("",))[0],
        data=_data(view),
    )


def _render(template: str, found: Overview, links: Links, **values: Any) -> str:
    time = found.time.isoformat(timespec="seconds")
    template_of = _environment().get_template(template)
    return template_of.render(values, time=time, links=links, most=_MOST, secrets=secrets())


def _environment() -> Environment:
    environment = page.environment(Path(__file__).parent)
    environment.filters.update(
        kind=rows.kind,
        live_metric=rows.live_metric,
        next_tick=rows.next_tick,
        run_strip=rows.run_strip,
        newest_span=rows.newest_span,
    )
    return environment


def _data(view: PipelineView) -> Markup:
    """Returns the newest runs as JSON, for the comparison."""
    known = secrets()
    runs = [_compared(run, known) for run in view.runs[:_COMPARED]]
    text = orjson.dumps(runs).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - no character of it can begin or end an element


def _compared(run: Run, known: Sequence[str]) -> Mapping[str, Any]:
    values = {redact(name, known): redact(value, known) for name, value in rows.comparable(run).items()}
    return {"id": fit(run.id, 60), "label": f"{clock(run.started)}, {run.state}", "values": values}
