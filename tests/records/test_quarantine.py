"""A quarantined file or row keeps its first bytes unchanged, as text if they are text."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.records.quarantine import RAW_LIMIT, Quarantined


def quarantined(raw: bytes) -> Quarantined:
    """Returns the entry of a file with this content."""
    return Quarantined.of("cats/1.jpg", "not an image", "byte 7", raw)


def raw_bytes(entry: Quarantined) -> bytes:
    """Returns the bytes that an entry keeps."""
    return base64.b64decode(entry.raw_base64) if entry.raw_base64 else entry.raw.encode()


def test_text_is_kept_as_text() -> None:
    """A web page named .jpg can be read in the list."""
    page = "<html>404 – není tu</html>"

    assert quarantined(page.encode()) == Quarantined("cats/1.jpg", "not an image", "byte 7", raw=page)


def test_other_bytes_are_kept_as_base64() -> None:
    """Nothing is replaced or escaped."""
    assert quarantined(b"\xff\xd8\xff\x00") == Quarantined(
        "cats/1.jpg", "not an image", "byte 7", raw_base64="/9j/AA=="
    )


def test_an_empty_file_has_no_bytes() -> None:
    """Both fields are empty."""
    assert quarantined(b"") == Quarantined("cats/1.jpg", "not an image", "byte 7")


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_the_bytes_are_returned_unchanged(raw: bytes) -> None:
    """Any bytes survive the round trip."""
    assert raw_bytes(quarantined(raw)) == raw


@pytest.mark.parametrize("before", range(4))
def test_a_character_cut_by_the_limit_is_left_out(before: int) -> None:
    """Text stays text, whichever byte of a four-byte character the limit falls on."""
    text = "x" * before + "🙂" * RAW_LIMIT
    kept = quarantined(text.encode())

    assert (kept.raw, kept.raw_base64) == (text[: before + (RAW_LIMIT - before) // 4], "")


def test_more_than_the_limit_is_cut() -> None:
    """A quarantine list must not become a second copy of the data."""
    assert raw_bytes(quarantined(b"\xff" * 100_000)) == b"\xff" * RAW_LIMIT
