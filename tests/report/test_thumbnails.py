"""Sample images as data URLs."""

import base64
from io import BytesIO

import pytest
from markupsafe import Markup
from PIL import Image

from pipelines.report.facts import SampleImage
from pipelines.report.thumbnails import Thumbnail, thumbnail


@pytest.mark.parametrize(("kind", "expected"), [("PNG", "png"), ("JPEG", "jpeg"), ("GIF", "gif"), ("WEBP", "webp")])
def test_formats(kind: str, expected: str) -> None:
    """A small image keeps its format and bytes."""
    buffer = BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, kind)
    content = buffer.getvalue()
    url = Markup("data:image/{};base64,{}").format(expected, base64.b64encode(content).decode())

    assert thumbnail(SampleImage("red", content)) == Thumbnail("red", url, small=True, note="8 × 8")


def test_a_large_image() -> None:
    """A large image becomes a smaller JPEG."""
    buffer = BytesIO()
    Image.effect_noise((900, 600), 60).save(buffer, "PNG")
    shown = thumbnail(SampleImage("noise", buffer.getvalue()))

    assert shown.url is not None
    with Image.open(BytesIO(base64.b64decode(shown.url.split(",")[1]))) as smaller:
        assert (smaller.format, smaller.size) == ("JPEG", (256, 171))
    assert (shown.small, shown.note) == (False, "900 × 600")


@pytest.mark.parametrize("content", [b"", b"<svg onload='alert(1)'/>", b"\x89PNG\r\n\x1a\n truncated", b"\xff\xd8\xff"])
def test_not_an_image(content: bytes) -> None:
    """Bytes that are not an image have a note instead of a URL."""
    assert thumbnail(SampleImage("odd", content)) == Thumbnail("odd", None, small=False, note="cannot be shown")


def test_image_bomb() -> None:
    """An image with too many pixels is not decoded."""
    buffer = BytesIO()
    Image.new("1", (12_000, 12_000)).save(buffer, "PNG")

    assert thumbnail(SampleImage("bomb", buffer.getvalue())).note == "12000 × 12000, too large to show"
