"""What was set aside keeps its bytes, none of them changed, as text where they are text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.ingest.sources import RAW_LIMIT, Refused
from components.records import manifest


def refused(raw: bytes) -> Refused:
    """Sets something aside."""
    return Refused.of("cats/1.jpg", "not an image", "byte 7", raw)


def test_text_is_readable() -> None:
    """A web page named .jpg shows what it is."""
    page = "<html>404 – není tu</html>"

    assert refused(page.encode()) == Refused("cats/1.jpg", "not an image", "byte 7", raw=page)


def test_other_bytes_are_kept_as_base64() -> None:
    """Nothing is replaced or escaped."""
    assert refused(b"\xff\xd8\xff\x00") == Refused("cats/1.jpg", "not an image", "byte 7", raw_base64="/9j/AA==")


def test_nothing_stays_nothing() -> None:
    """An empty file has no bytes to show."""
    assert refused(b"") == Refused("cats/1.jpg", "not an image", "byte 7")


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_the_bytes_come_back(raw: bytes) -> None:
    """Whatever they are."""
    assert refused(raw).raw_bytes == raw


@pytest.mark.parametrize("before", range(4))
def test_a_character_that_the_limit_cuts_is_left_out(before: int) -> None:
    """Text stays text; all but that character is there."""
    text = "x" * before + "🙂" * RAW_LIMIT
    kept = refused(text.encode())

    assert kept.raw == text[: before + (RAW_LIMIT - before) // 4]
    assert kept.raw_base64 == ""


def test_more_than_the_limit_is_cut() -> None:
    """A quarantine list must not become a second copy of the data."""
    assert len(refused(b"\xff" * 100_000).raw_bytes) == RAW_LIMIT


def test_the_list_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """Text and bytes, line breaks and NUL included."""
    bad = [refused(b"a\r\nb\0c\x1b\xe2\x80\xa8d"), refused(b"\xff\n\0"), refused(b"")]
    manifest.write_quarantine(tmp_path / manifest.QUARANTINE, bad)

    assert manifest.read_quarantine(tmp_path) == bad
