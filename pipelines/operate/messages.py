"""What `penstock retrain` prints about its tick."""

from components.storage.location import Location
from pipelines.operate import start
from pipelines.operate.ticks import Attempt
from pipelines.operate.window import Window

_WITHDRAWN = "its model was withdrawn, and is not pushed (penstock models promote brings it back)"


def of_window(window: Window, gaps: str) -> list[str]:
    """Returns the lines that name the spans of a tick; `gaps` is the setting."""
    lines = [f"span {window.tick_text}: window {window.text}, {len(window.spans)} spans"]
    return [*lines, f"missing: {window.gaps_text} (ingest.gaps = {gaps})"] if window.gaps else lines


def of_older_span(span: str, version: int, newest: str) -> str:
    """Returns why a span that is older than the newest one of the live model is skipped."""
    return (
        f"span {span} is skipped: version {version} was trained up to span {newest}, and a model of an older window "
        "would replace it; train it all the same with --again"
    )


def of_done(done: Attempt, live: Location | None) -> str:
    """Returns the line of a tick that is done; `live` is the folder of the version in use."""
    if done.outcome == "not better":
        return f"done: span {done.span} gave no better model ({done.reason}); {_live(live)}"
    if done.outcome == "withdrawn":
        return f"done: span {done.span}, {_WITHDRAWN}; {_live(live)}"
    return f"done: span {done.span}, {_live(live)}"


def of_result(attempt: Attempt, live: Location | None) -> str:
    """Returns the last line of a tick that has run; `live` is the folder of the version in use."""
    lines = {
        "pushed": f"pushed version {attempt.version}, {start.base_text(attempt)}",
        "up to date": f"up to date, {_live(live)}",
        "withdrawn": f"{_WITHDRAWN}; {_live(live)}",
    }
    other = f"{attempt.outcome}: {attempt.reason.removeprefix('failed: ')}; {_live(live)}"
    return f"span {attempt.span}: {lines.get(attempt.outcome, other)}"


def _live(folder: Location | None) -> str:
    return f"version {folder.name} is live" if folder else "no version is live"
