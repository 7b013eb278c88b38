"""What any file must be before its format matters: an image, and within the limits."""

import pytest
from PIL import Image

from components.ingest.images import ImageLimits, check_image
from tests.ingest.images.conftest import COLOUR, GRAY, HEIGHT, WIDTH, encode, reason

EXPECTED = "expected JPEG, PNG, GIF, WebP, BMP or TIFF"


class TestNotAnImage:
    """Files that are something else."""

    def test_empty(self) -> None:
        """An empty file is called so."""
        assert reason(b"") == f"empty file, {EXPECTED}"

    def test_html(self) -> None:
        """A web page named .jpg is shown by its first characters."""
        content = b"<!DOCTYPE html>\n<html><body>404</body></html>"

        assert reason(content) == f"not an image: starts with '<!DOCTYPE html>\\n<html><b'…, {EXPECTED}"

    def test_binary(self) -> None:
        """Bytes that no terminal should print are escaped."""
        assert reason(b"\x1b[2J\xff\0") == f"not an image: starts with '\\x1b[2J\\xff\\x00', {EXPECTED}"

    def test_other_image_format(self) -> None:
        """Formats that are rare never reach Pillow's parsers, though it has them."""
        assert reason(encode(GRAY, "PPM")).startswith("not an image: starts with 'P5\\n43 37")

    def test_large_file(self) -> None:
        """A file above the limit is not looked at, and the setting that would let it pass is named."""
        limits = ImageLimits(max_bytes=100)

        assert reason(bytes(101), limits) == "file of 101 bytes, expected at most 100 (max_file_mb)"


class TestLimits:
    """What one image may cost."""

    @pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
    def test_max_pixels(self, file_format: str) -> None:
        """Every format is held to the limit, and a image exactly of that size passes."""
        content = encode(COLOUR, file_format)

        too_small = ImageLimits(max_pixels=WIDTH * HEIGHT - 1)

        assert reason(content, too_small) == "size 43 x 37 is 1,591 pixels, expected at most 1,590 (max_pixels)"
        assert check_image(content, ImageLimits(max_pixels=WIDTH * HEIGHT)).width == WIDTH

    @pytest.mark.parametrize(("max_pixels", "max_bytes"), [(0, 1), (178_956_971, 1), (1, 0)])
    def test_senseless_limits(self, max_pixels: int, max_bytes: int) -> None:
        """Limits that no image passes, or that TensorFlow cannot hold, are refused at birth."""
        with pytest.raises(ValueError, match="expected"):
            ImageLimits(max_pixels=max_pixels, max_bytes=max_bytes)

    def test_long_side(self) -> None:
        """A side of more than a million pixels, which libpng refuses, is rejected."""
        content = encode(Image.new("1", (1_000_001, 1)), "PNG")

        assert reason(content) == "size 1000001 x 1, expected at most 1,000,000 per side"
