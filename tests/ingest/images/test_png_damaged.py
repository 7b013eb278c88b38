"""PNG files that are rejected: truncated, corrupt, or small on disk and huge when decoded."""

import zlib
from pathlib import Path

import pytest
import tensorflow as tf
from PIL import Image

from tests.ingest.images.conftest import (
    COLOUR,
    MEASURE,
    chunk,
    chunks_of,
    encode,
    noise_rows,
    outcome_and_cost,
    png_of,
    png_with,
    raw_png,
    reason,
    seen_by_tensorflow,
)


def without_chunk(content: bytes, unwanted: bytes) -> bytes:
    """Returns a PNG without the chunks of one name."""
    return png_of([(name, body) for name, body in chunks_of(content) if name != unwanted])


def flipped(content: bytes, at: int) -> bytes:
    """Returns `content` with bits of one byte flipped."""
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


PNG = encode(COLOUR, "PNG")
ROWS = noise_rows(24)
DAMAGED = {
    "no end": (PNG[:-12], "PNG is truncated: the file ends without an IEND chunk"),
    "cut in its end": (PNG[:-1], f"PNG is truncated: chunk IEND ends at byte {len(PNG)} of {len(PNG) - 1}"),
    "no data": (without_chunk(PNG, b"IDAT"), "PNG with 0 bytes of image data in 0 chunks, expected contiguous chunks"),
    "no header": (without_chunk(PNG, b"IHDR"), "PNG with 0 headers, expected one of 13 bytes as the first chunk"),
    "checksum": (
        flipped(PNG, len(PNG) - 14),
        f"PNG is corrupt: wrong checksum of chunk IDAT at byte {PNG.index(b'IDAT') - 4}",
    ),
    "rows missing": (
        raw_png(8, 2, ROWS[: 130 * 30]),
        "PNG is corrupt: 3,900 bytes of image, expected 4,810",
    ),
    "filter": (
        raw_png(8, 2, ROWS[:-130] + b"\x05" + ROWS[-129:]),
        "PNG cannot be decoded: unrecognized data stream contents when reading image file",
    ),
    "stream without end": (
        png_of([(name, body[:-4] if name == b"IDAT" else body) for name, body in chunks_of(PNG)]),
        "PNG is truncated: its compressed data has no end",
    ),
    "stream checksum": (
        png_of([(name, flipped(body, -1) if name == b"IDAT" else body) for name, body in chunks_of(PNG)]),
        "PNG cannot be decoded: Error -3 while decompressing data: incorrect data check",
    ),
    "no palette": (
        raw_png(8, 3, noise_rows(8)),
        "PNG with 0 palettes, expected one of 1 to 256 colours before the data",
    ),
    "unknown critical chunk": (
        png_with(PNG, chunk(b"CgBI", b"")),
        f"PNG chunk 'CgBI' at byte {PNG.index(b'IDAT') - 4}, expected a standard chunk",
    ),
    "unknown colour type": (
        raw_png(8, 5, noise_rows(8)),
        "PNG header says colour 5, depth 8, compression 0, filter 0, interlace 0, expected values of the standard",
    ),
}


class TestDamaged:
    """PNG files that are truncated or corrupt."""

    @pytest.mark.parametrize("kind", DAMAGED)
    def test_rejected(self, kind: str) -> None:
        """Files that TensorFlow cannot decode are rejected with the reason; Pillow accepts most of them."""
        content, expected = DAMAGED[kind]

        with pytest.raises(tf.errors.InvalidArgumentError):
            seen_by_tensorflow(content)
        assert reason(content) == expected

    def test_data_in_two_places(self) -> None:
        """Data with another chunk in between is rejected, because decoders differ."""
        content = png_with(PNG, after=chunk(b"tEXt", b"a\0b") + chunk(b"IDAT", b"more"))
        size = len(dict(chunks_of(PNG))[b"IDAT"]) + 4

        assert reason(content) == f"PNG with {size:,} bytes of image data in 2 chunks, expected contiguous chunks"


HUGE = zlib.compress(bytes(400_000_000))
BOMBS = {
    "17 KB of PNG": (
        encode(Image.new("1", (12_000, 12_000)), "PNG", compress_level=9),
        "size 12000 x 12000 is 144,000,000 pixels, expected at most 50,000,000 (max_pixels)",
    ),
    "PNG with a wrong size": (
        raw_png(16, 6, bytes(1000), size=(7000, 7000)),
        "PNG header says 7000 x 7000 but 17 bytes of data follow, expected at least one per 1,032 bytes of the image",
    ),
    "PNG with too much data": (
        png_of([(name, HUGE if name == b"IDAT" else body) for name, body in chunks_of(PNG)]),
        "PNG is corrupt: 16,853,336 bytes of image, expected 4,810",
    ),
}
CONTAINED = {
    "PNG text": png_with(PNG, chunk(b"zTXt", b"a\0\0" + HUGE)),
    "PNG international text": png_with(PNG, chunk(b"iTXt", b"a\0\1\0\0\0" + HUGE)),
    "PNG profile": png_with(PNG, chunk(b"iCCP", b"a\0\0" + HUGE)),
}


class TestBombs:
    """Small files that would need much memory or time."""

    @pytest.mark.parametrize("kind", BOMBS)
    def test_rejected_cheaply(self, kind: str, tmp_path: Path) -> None:
        """Such a file is rejected before it is decoded, without a warning of Pillow."""
        content, expected = BOMBS[kind]

        outcome, cost = outcome_and_cost(content, tmp_path)

        assert outcome == expected
        assert cost < 100_000

    @pytest.mark.parametrize("kind", CONTAINED)
    def test_metadata_not_inflated(self, kind: str, tmp_path: Path) -> None:
        """Metadata is never inflated, so the image is kept."""
        outcome, cost = outcome_and_cost(CONTAINED[kind], tmp_path)

        assert outcome == "kept"
        assert cost < 100_000

    def test_measure(self, tmp_path: Path) -> None:
        """The measurement sees short peaks: a plain decode of the small PNG costs more than 250 MB."""
        plain = "Image.MAX_IMAGE_PIXELS = None; print(Image.open(sys.argv[1]).convert('L').mode)"
        naive = MEASURE.replace('print(check_image(content, Ingest()).changed or "kept")', plain)

        outcome, cost = outcome_and_cost(BOMBS["17 KB of PNG"][0], tmp_path, "from PIL import Image\n" + naive)

        assert outcome == "L"
        assert cost > 250_000

    def test_many_chunks(self) -> None:
        """A PNG with very many chunks is rejected."""
        content = png_with(encode(COLOUR, "PNG"), chunk(b"tEXt", b"a\0b") * 100_000)

        assert reason(content) == "PNG of more than 100,000 chunks, expected fewer"
