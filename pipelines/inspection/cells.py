"""Values as cells of a table: short, on one line, with control characters escaped."""

import re
from collections.abc import Sequence

from rich.filesize import decimal

CELL = 32  # characters of a value in a table
NAME = 40  # characters of a column or class name
MISSING = "–"
_LIST_VALUES = 6  # shown of a list
_TAIL = 3  # a third of a shortened text is its end
_FORMULA = re.compile(r"\s*[=+\-@]")
_NUMBER = re.compile(r"\s*[+-]?(\d[\d,]*\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.IGNORECASE)
_IMAGE = re.compile(
    rb"(?P<JPEG>\xff\xd8\xff)|(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<GIF>GIF8[79]a)|(?P<WebP>RIFF....WEBP)"
    rb"|(?P<AVIF>....ftypavi[fs])|(?P<JPEG2000>\0\0\0\x0cjP  \r\n)"
    rb"|(?P<TIFF>II[*+]\0|MM\0[*+])|(?P<BMP>BM....\0\0\0\0)|(?P<PPM>P6 \d{5} \d{5} 255\n)",
    re.DOTALL,
)


def one_line(text: str, limit: int = CELL) -> str:
    """Returns a text on one line; a long one loses its middle, and characters that are not printable are escaped."""
    if len(text) > limit:
        tail = limit // _TAIL
        text = f"{text[: limit - 1 - tail]}…{text[-tail:]}"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def cell(value: object, limit: int = CELL) -> str:
    """Returns a value of a record as text."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return _bytes(value, limit)
    return one_line(str(value), limit)


def cell_of_list(first: Sequence[object], length: int) -> str:
    """Returns a list as text: its first values and its length."""
    values = ", ".join(cell(value, CELL // 2) for value in first[:_LIST_VALUES])
    return f"[{values}]" if length <= _LIST_VALUES else f"[{values}, … {length:,}]"


def escape_formula(text: str) -> str:
    """Returns a text that no spreadsheet would run as a formula; for tables that are written to a file."""
    return f"'{text}" if _FORMULA.match(text) and not is_number(text) else text


def is_number(text: str) -> bool:
    """Whether a cell holds a number or is empty."""
    return text == MISSING or _NUMBER.fullmatch(text) is not None


def image_format(content: bytes) -> str:
    """Returns the image format of a file by its first bytes, or an empty text."""
    match = _IMAGE.match(content)
    return (match.lastgroup or "") if match else ""


def _bytes(value: bytes, limit: int) -> str:
    if kind := image_format(value):
        return f"{kind}, {decimal(len(value))}"
    try:
        return one_line(value.decode(), limit)
    except UnicodeDecodeError:
        head = "".join(f"\\x{byte:02x}" for byte in value[:4])
        return f"{head}… {decimal(len(value))}"
