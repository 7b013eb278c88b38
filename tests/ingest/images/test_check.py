"""Checks for all formats: the file is an image, and within the limits."""

import pytest
from PIL import Image

from components.ingest.images import check_image
from components.settings.ingest import Ingest
from tests.ingest.images.conftest import COLOUR, GRAY, HEIGHT, WIDTH, encode, reason

EXPECTED = "expected JPEG, PNG, GIF, WebP, AVIF, JPEG 2000, BMP or TIFF"


class TestNotAnImage:
    """Files that are no image."""

    def test_empty(self) -> None:
        """An empty file is rejected."""
        assert reason(b"") == f"empty file, {EXPECTED}"

    def test_html(self) -> None:
        """The reason has the first characters of the file."""
        content = b"<!DOCTYPE html>\n<html><body>404</body></html>"

        assert reason(content) == f"not an image: starts with '<!DOCTYPE html>\\n<html><b'…, {EXPECTED}"

    def test_binary(self) -> None:
        """Unprintable bytes are escaped."""
        assert reason(b"\x1b[2J\xff\0") == f"not an image: starts with '\\x1b[2J\\xff\\x00', {EXPECTED}"

    def test_other_image_format(self) -> None:
        """Rare formats are not passed to Pillow's parsers."""
        assert reason(encode(GRAY, "PPM")).startswith("not an image: starts with 'P5\\n43 37")

    def test_large_file(self) -> None:
        """A file above the limit is not read, and the reason has the setting."""
        content = bytes((1 << 20) + 1)

        expected = "file of 1,048,577 bytes, expected at most 1,048,576 (max_file_mb)"
        assert reason(content, Ingest(max_file_mb=1)) == expected


class TestLimits:
    """Limits on one image."""

    @pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
    def test_max_pixels(self, file_format: str) -> None:
        """The limit holds for every format; an image of exactly that size is accepted."""
        content = encode(COLOUR, file_format)

        too_small = Ingest(max_pixels=WIDTH * HEIGHT - 1)

        assert reason(content, too_small) == "size 43 x 37 is 1,591 pixels, expected at most 1,590 (max_pixels)"
        assert check_image(content, Ingest(max_pixels=WIDTH * HEIGHT)).width == WIDTH

    def test_long_side(self) -> None:
        """A side of more than a million pixels, which libpng rejects, is rejected."""
        content = encode(Image.new("1", (1_000_001, 1)), "PNG")

        assert reason(content) == "size 1000001 x 1, expected at most 1,000,000 per side"
