"""A quarantined file or row: which one, why, and its first bytes, so that a person can repair and re-ingest it."""

import base64
from dataclasses import dataclass

NO_LABEL = "no label"  # begins the reason of a record that has none
RAW_LIMIT = 4096  # bytes kept of a quarantined file or row


def printable(path: str) -> str:
    """Returns a file name for messages and JSON: names on disk are bytes and need not be UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Quarantined:
    """A file, or a row of one, that did not become a record."""

    path: str
    reason: str
    position: str = ""  # of a row, "line 12"; of damage in a file, "byte 1234"
    raw: str = ""  # the row, or the first bytes of the file, up to RAW_LIMIT, if they are UTF-8
    raw_base64: str = ""  # the same if they are not

    @staticmethod
    def of(path: str, reason: str, position: str, raw: bytes) -> "Quarantined":
        """Returns an entry with the first RAW_LIMIT bytes unchanged: as text if they are text, else as base64."""
        kept = raw[:RAW_LIMIT]
        try:
            return Quarantined(path, reason, position, raw=_text(kept))
        except UnicodeDecodeError:
            return Quarantined(path, reason, position, raw_base64=base64.b64encode(kept).decode())


def _text(raw: bytes) -> str:
    """Returns bytes as text, without a character that the limit has cut in half."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        if len(raw) < RAW_LIMIT or error.reason != "unexpected end of data":
            raise
        return raw[: error.start].decode()


class Rejected(ValueError):
    """A file cannot become a record; the message is the reason."""

    def __init__(self, reason: str, position: str = "") -> None:
        super().__init__(reason)
        self.position = position  # of the damage, such as "byte 1234", if known
