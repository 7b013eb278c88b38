"""Values as text for people: names, counts, measures, percentages, durations, dates."""

import math
import re
from datetime import datetime, timezone

TEXT_LIMIT = 300
PLAIN_RANGE = (1e-4, 1e6)  # measures in this range are written without a power of ten

# Characters that a browser would not show, or that would reorder the text around them.
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")
_LARGEST = 1e300  # larger values overflow the arithmetic that places them on an axis
_EXACT = 1e15  # floats up to here hold whole numbers exactly
_MINUTE = 60


def fit(text: str, limit: int = TEXT_LIMIT) -> str:
    r"""Returns a text on one line, at most about `limit` characters long, with hidden characters escaped.

    A long text loses its middle, because the end of a path says more. Control characters, direction marks and lone
    surrogates become escape sequences, so that `photo\u202egpj.exe` cannot pass for a JPEG.
    """
    if len(text) > limit:
        tail = (limit - 1) // 3
        text = f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"
    text = re.sub(r"[\t\n\r]+", " ", text)
    return _HIDDEN.sub(lambda hidden: hidden[0].encode("unicode_escape").decode("ascii"), text)


def number(value: float) -> str:
    """Returns a count with separators, or a measure with four significant digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, int):
        return f"{value:,}"
    if value.is_integer() and 10 <= abs(value) < _EXACT:
        return f"{value:,.0f}"
    if value != 0 and not PLAIN_RANGE[0] <= abs(value) < PLAIN_RANGE[1]:
        return f"{value:.3e}"
    digits = len(str(int(abs(value))))
    return f"{value:,.{max(1, 4 - digits)}f}" if digits > 1 else f"{value:#.4g}"


def share(part: float, whole: float) -> str:
    """Returns a percentage that is never rounded up to 100 % or down to 0 %."""
    if whole <= 0 or not math.isfinite(part):
        return "–"
    text = f"{100 * part / whole:.1f} %"
    if text == "0.0 %" and part > 0:
        return "< 0.1 %"
    return "> 99.9 %" if text == "100.0 %" and part < whole else text


def duration(seconds: float) -> str:
    """Returns a duration in its two largest units."""
    if not math.isfinite(seconds) or seconds < 0:
        return "–"
    if round(seconds, 1) < _MINUTE:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def moment(text: str) -> str:
    """Returns an ISO 8601 time as a date in words, in UTC; any other text is returned unchanged."""
    parsed = _time(text)
    return f"{parsed.day} {parsed:%B %Y, %H:%M:%S} UTC" if parsed else text


def clock(text: str) -> str:
    """Returns an ISO 8601 time as `14 Nov 2026, 02:00`, in UTC; any other text is returned unchanged."""
    parsed = _time(text)
    return f"{parsed.day} {parsed:%b %Y, %H:%M}" if parsed else text


def _time(text: str) -> datetime | None:
    """Returns an ISO 8601 time in UTC; None for any other text."""
    try:
        parsed = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return parsed if parsed.tzinfo is None else parsed.astimezone(timezone.utc)


def coordinate(value: float) -> str:
    """Returns a coordinate of a drawing with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def is_drawable(value: float) -> bool:
    """Whether a value has a place on an axis."""
    return math.isfinite(value) and abs(value) < _LARGEST
