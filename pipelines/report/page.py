"""Renders the report page: a single file that opens offline, runs no script and loads nothing.

    RunFacts ─► sections ─► page.html.j2, charts.html.j2, page.css ─► report.html

It is safe by construction: autoescape is on, every string is shortened, cleaned and rid of secrets when it leaves the
template (`finalize`), and the security policy in the head allows only the page's own style sheet, by its hash, and
`data:` images.
"""

import base64
import functools
import hashlib
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from components.records import spans
from components.redact import redact, secrets
from components.storage import durable
from pipelines.report import formatting, retraining, sections
from pipelines.report.drift_chart import drift_charts
from pipelines.report.facts import RunFacts
from pipelines.report.formatting import fit
from pipelines.report.lineage_chart import lineage_chart
from pipelines.report.thumbnails import thumbnail

MAX_SAMPLES = 60
# Items that the page shows; the full quarantine list is a file of its own.
_MOST = {"nodes": 60, "rows": 50, "quarantined": 20, "curves": 12, "tiles": 24, "drift": 6}
_SERIES_COLOURS = 6  # of lines and bars, in page.css
# The marks of node states, so that they are readable without colour.
_STATE_SHAPES = {
    "ran": "M5.5 10.5l3 3 6-6.5",
    "cached": "M5.5 8h9M5.5 12.5h9",
    "failed": "M6.5 6.5l7 7M13.5 6.5l-7 7",
    "skipped": "M6 10h8",
    "warning": "M10 5v6.2M10 14v.6",
    "running": "M8 6.2l5.6 3.8-5.6 3.8z",
}


def write(facts: RunFacts, *paths: Path) -> None:
    """Writes the page of a run to some files, each whole or not at all."""
    content = render(facts).encode()
    for path in paths:
        durable.write_bytes(path, content, private=True)


def render(facts: RunFacts) -> str:
    """Returns the page of a run as HTML."""
    seconds = [node.seconds for node in facts.nodes]
    drift_rows, gates = sections.drift_rows(facts), retraining.gates(facts)
    template = environment().get_template("page.html.j2")
    return template.render(
        facts=facts,
        secrets=secrets(),
        badge=sections.badge(facts),
        sections=sections.present(facts),
        tiles=sections.tiles(facts),
        slowest=max(seconds, default=0.0),
        node_seconds=sum(seconds),
        quarantined_total=sections.quarantined(facts),
        balance=sections.balance(facts),
        drift_rows=drift_rows,
        drift_charts=drift_charts(drift_rows, _MOST["drift"]),
        lineage=lineage_chart(facts.lineage),
        gates=gates,
        decided=retraining.decided(gates),
        against=retraining.against(facts),
        samples=[thumbnail(sample) for sample in facts.samples[:MAX_SAMPLES]],
        curves=sections.curves(facts),
        training_curves=sections.training_curves(facts),
        best=sections.best_epoch(facts),
        slices=sorted(facts.slices, key=lambda row: (row.passed is not False, row.column, row.metric)),
        pairs=sections.confused_pairs(facts),
        matrix=sections.matrix(facts),
        card=sections.card(facts),
    )


@functools.cache
def environment(*folders: Path) -> Environment:
    """Returns what renders our pages: the templates of the report, and those of more folders, which come first."""
    environment = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        artifact=lambda number: f"artifact {number}",
        at=formatting.coordinate,
        breakable=_breakable,
        clock=formatting.clock,
        duration=formatting.duration,
        fit=fit,
        moment=formatting.moment,
        number=formatting.number,
        sha256=_sha256,
        signed=retraining.signed,
        spaced=sections.spaced,
        span=spans.text,
        whole=lambda text: escape(redact(text)),
    )
    environment.globals.update(
        most=_MOST, share=formatting.share, state_shapes=_STATE_SHAPES, series_colours=_SERIES_COLOURS
    )
    environment.tests.update(drawable=formatting.is_drawable)
    return environment


@pass_context
def _finalize(context: Context, value: object) -> object:
    """Shortens and cleans every string that leaves the template; our own markup passes.

    Secrets are removed here, and not from the page: there, a quotation mark without a second one would end far behind
    its element, and a word of the style sheet or the script may be a secret.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return redact(fit(value), context.get("secrets"))  # looking them up takes longer than all else


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _breakable(text: str) -> Markup:
    """Allows line breaks after the separators of a path or a long name."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_])", redact(fit(text))))
