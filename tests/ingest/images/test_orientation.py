"""The orientation in damaged EXIF blocks is ignored."""

import pytest

from components.ingest.images import CheckedImage
from tests.ingest.images.conftest import COLOUR, HEIGHT, WIDTH, check, encode


class TestDamagedExif:
    """EXIF blocks without a valid orientation."""

    @pytest.mark.parametrize(
        "block",
        [
            b"II*\0\x08\0\0\0\x01\0",
            b"II*\0\xff\xff\xff\xff",
            b"MM\0*",
            b"II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\x01\0\0\0\x06\0\0\0",
            b"garbage",
        ],
    )
    def test_damaged_exif(self, block: bytes) -> None:
        """The image is kept unchanged."""
        content = encode(COLOUR, "JPEG", exif=b"Exif\0\0" + block)

        assert check(content) == CheckedImage(content, WIDTH, HEIGHT, "JPEG", "")
