"""Values as a person can read them on one line: short, with nothing hidden in them."""

import re
from collections.abc import Sequence

CELL = 32  # characters of a value in a table
NAME = 40  # characters of a name of a column or class
MISSING = "–"
_SHOWN_VALUES = 6  # of a list
_ENDS_KEPT = 3  # one part in so many of what is shown is the end of the text
_KILO = 1000
_FORMULA = re.compile(r"\s*[=+\-@]")
_NUMBER = re.compile(r"\s*[+-]?(\d[\d,]*\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.IGNORECASE)
_IMAGE = re.compile(
    rb"(?P<JPEG>\xff\xd8\xff)|(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<GIF>GIF8[79]a)|(?P<WebP>RIFF....WEBP)"
    rb"|(?P<TIFF>II[*+]\0|MM\0[*+])|(?P<BMP>BM....\0\0\0\0)|(?P<PPM>P6 \d{5} \d{5} 255\n)",
    re.DOTALL,
)


def plain(text: str, limit: int = CELL) -> str:
    """Returns a text on one line, its middle left out if it is long; what cannot be seen is spelled out."""
    if len(text) > limit:
        tail = limit // _ENDS_KEPT
        text = f"{text[: limit - 1 - tail]}…{text[-tail:]}"
    return "".join(each if each.isprintable() else _spelled(each) for each in text)


def cell(value: object, limit: int = CELL) -> str:
    """Returns one value of a record."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return _bytes(value, limit)
    return plain(str(value), limit)


def cell_of_list(first: Sequence[object], length: int) -> str:
    """Returns a list by its first values and its length."""
    values = ", ".join(cell(value, CELL // 2) for value in first[:_SHOWN_VALUES])
    return f"[{values}]" if length <= _SHOWN_VALUES else f"[{values}, … {length:,}]"


def disarmed(text: str) -> str:
    """Returns a text that no spreadsheet takes for a formula; for tables that are written to a file."""
    return f"'{text}" if _FORMULA.match(text) and not is_number(text) else text


def is_number(text: str) -> bool:
    """Whether a cell holds a number, or nothing."""
    return text == MISSING or _NUMBER.fullmatch(text) is not None


def image_format(content: bytes) -> str:
    """Returns the image format that a file's first bytes show, or nothing."""
    found = _IMAGE.match(content)
    return (found.lastgroup or "") if found else ""


def size(count: int) -> str:
    """Returns a number of bytes in the unit that suits it."""
    if count < 10 * _KILO:
        return f"{count:,} bytes"
    amount, units = count / _KILO, iter(("kB", "MB", "GB", "TB"))
    unit = next(units)
    while amount >= _KILO and unit != "TB":
        amount, unit = amount / _KILO, next(units)
    return f"{amount:,.1f} {unit}"


def _spelled(hidden: str) -> str:
    return hidden.encode("unicode_escape").decode("ascii")


def _bytes(value: bytes, limit: int) -> str:
    if found := image_format(value):
        return f"{found}, {size(len(value))}"
    try:
        return plain(value.decode(), limit)
    except UnicodeDecodeError:
        head = "".join(f"\\x{byte:02x}" for byte in value[:4])
        return f"{head}… {size(len(value))}"
