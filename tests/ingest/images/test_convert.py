"""GIF, WebP, AVIF, JPEG 2000, BMP and TIFF files: each becomes a PNG of what a viewer shows, or is rejected."""

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageFile, TiffTags
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from components.ingest.images import CheckedImage, ImageRejected, check_image
from components.settings.ingest import Ingest
from tests.ingest.images.conftest import (
    COLOUR,
    HEIGHT,
    TRANSLUCENT,
    WIDTH,
    check,
    distance,
    encode,
    exif,
    fuzz,
    on_white,
    outcome_and_cost,
    reason,
    seen_by_a_viewer,
    seen_by_tensorflow,
)

# Pillow warns about damaged TIFF tags. The module ignores that, but pytest resets the filter.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


OTHER = COLOUR.transpose(Image.Transpose.ROTATE_180)
CONVERTED = {
    "GIF": (encode(COLOUR, "GIF"), "GIF"),
    "GIF animation": (encode(COLOUR, "GIF", save_all=True, append_images=[OTHER]), "GIF, first frame"),
    "WebP": (encode(COLOUR, "WEBP"), "WEBP"),
    "WebP animation": (encode(COLOUR, "WEBP", save_all=True, append_images=[OTHER]), "WEBP, first frame"),
    "AVIF": (encode(COLOUR, "AVIF"), "AVIF"),
    "AVIF animation": (encode(COLOUR, "AVIF", save_all=True, append_images=[OTHER]), "AVIF, first frame"),
    "AVIF whose XMP names boxes": (encode(COLOUR, "AVIF", xmp=b"<x>iloc stco infe idat</x>"), "AVIF"),
    "AVIF before other data": (encode(COLOUR, "AVIF") + b"stco" + bytes(20), "AVIF"),
    "AVIF named mif1": (encode(COLOUR, "AVIF").replace(b"ftypavif", b"ftypmif1", 1), "AVIF"),
    "JPEG 2000": (encode(COLOUR, "JPEG2000"), "JPEG2000"),
    "JPEG 2000 without a container": (encode(COLOUR, "JPEG2000", no_jp2=True), "JPEG2000"),
    "BMP": (encode(COLOUR, "BMP"), "BMP"),
    "BMP palette": (encode(COLOUR.quantize(16), "BMP"), "BMP"),
    "TIFF": (encode(COLOUR, "TIFF"), "TIFF"),
    "TIFF of two pages": (encode(COLOUR, "TIFF", save_all=True, append_images=[OTHER]), "TIFF, first frame"),
    "TIFF LZW": (encode(COLOUR, "TIFF", compression="tiff_lzw"), "TIFF"),
    "TIFF JPEG": (encode(COLOUR, "TIFF", compression="jpeg"), "TIFF"),
    "TIFF fax": (encode(COLOUR.convert("1"), "TIFF", compression="group4"), "TIFF"),
    "TIFF CMYK": (encode(COLOUR.convert("CMYK"), "TIFF"), "TIFF"),
    "big TIFF": (encode(COLOUR, "TIFF", big_tiff=True), "TIFF"),
}


def deep_tiff(values: npt.NDArray[np.generic]) -> bytes:
    """Returns a gray TIFF of the values' own type."""
    return encode(Image.fromarray(values), "TIFF")


def white_is_zero(content: bytes) -> bytes:
    """Sets tag 262 (photometric interpretation), a SHORT, from 1 to 0."""
    tag = struct.pack("<HHIH", 262, 3, 1, 1)
    assert content.count(tag) == 1
    return content.replace(tag, struct.pack("<HHIH", 262, 3, 1, 0))


RAMP = np.arange(WIDTH * HEIGHT).reshape(HEIGHT, WIDTH) % 256
DEEP = {
    "16 bits": (deep_tiff((RAMP * 256 + 77).astype(np.uint16)), RAMP),
    "16 bits, white is zero": (white_is_zero(deep_tiff((RAMP * 256).astype(np.uint16))), 255 - RAMP),
    "32 bits in use of 16": (deep_tiff((RAMP * 256).astype(np.int32)), RAMP),
    "32 bits in use of 8": (deep_tiff(RAMP.astype(np.int32)), RAMP),
    "floats to 1": (deep_tiff((RAMP / 255).astype(np.float32)), RAMP),
    "floats to 255": (deep_tiff(RAMP.astype(np.float32)), RAMP),
    "floats to 65535": (deep_tiff((RAMP * 257).astype(np.float32)), RAMP),
}


class TestConverted:
    """Images that TensorFlow decodes wrongly or not at all."""

    @pytest.mark.parametrize("kind", CONVERTED)
    def test_to_png(self, kind: str) -> None:
        """The first frame becomes a PNG."""
        content, changed = CONVERTED[kind]

        checked = check(content)

        assert checked.content.startswith(b"\x89PNG")
        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, changed.partition(",")[0], changed)
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_a_viewer(content))

    @pytest.mark.parametrize("kind", DEEP)
    def test_deep_gray(self, kind: str) -> None:
        """Gray of more than 8 bits is scaled to 8 bits and not clipped."""
        content, expected = DEEP[kind]

        checked = check(content)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, "TIFF", "TIFF")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), np.dstack([expected] * 3))


class TestRotation:
    """Images that are stored rotated or mirrored."""

    @pytest.mark.parametrize("orientation", range(2, 9))
    @pytest.mark.parametrize("file_format", ["WEBP", "AVIF", "TIFF"])
    def test_upright(self, file_format: str, orientation: int) -> None:
        """WebP, AVIF and TIFF are rotated upright without loss, in every orientation."""
        lossless = {"lossless": True} if file_format == "WEBP" else {}
        content = encode(COLOUR, file_format, exif=exif(orientation), **lossless)
        expected = seen_by_a_viewer(content)

        checked = check(content)

        height, width, _ = expected.shape
        assert checked == CheckedImage(checked.content, width, height, file_format, f"{file_format}, EXIF rotation")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), expected)

    def test_xmp(self) -> None:
        """An orientation in XMP alone is applied, as in Pillow."""
        content = encode(COLOUR, "WEBP", lossless=True, xmp=b'<rdf tiff:Orientation="6"/>')

        checked = check(content)

        assert checked == CheckedImage(checked.content, HEIGHT, WIDTH, "WEBP", "WEBP, EXIF rotation")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_a_viewer(content))

    def test_xmp_as_text(self) -> None:
        """A TIFF may hold XMP as text instead of bytes, in addition to its own tag."""
        tags = ImageFileDirectory_v2()
        tags[274], tags[700] = 6, '<rdf tiff:Orientation="6"/>'
        tags.tagtype[700] = TiffTags.ASCII
        content = encode(COLOUR, "TIFF", tiffinfo=tags)

        checked = check(content)

        assert checked == CheckedImage(checked.content, HEIGHT, WIDTH, "TIFF", "TIFF, EXIF rotation")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_a_viewer(content))


TRANSPARENT = {
    "GIF": (encode(COLOUR.quantize(16), "GIF", transparency=3), "GIF, alpha"),
    "WebP": (encode(TRANSLUCENT, "WEBP", lossless=True, exact=True), "WEBP, alpha"),
    "AVIF": (encode(TRANSLUCENT, "AVIF"), "AVIF, alpha"),
    "JPEG 2000": (encode(TRANSLUCENT, "JPEG2000"), "JPEG2000, alpha"),
    "TIFF": (encode(TRANSLUCENT, "TIFF"), "TIFF, alpha"),
}


class TestAlpha:
    """Transparent images."""

    @pytest.mark.parametrize("kind", TRANSPARENT)
    def test_on_a_white_background(self, kind: str) -> None:
        """Transparent pixels show white."""
        content, changed = TRANSPARENT[kind]

        checked = check(content)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, changed.partition(",")[0], changed)
        assert distance(checked.content, on_white(content)).max() <= 1


def raw(**tags: int) -> bytes:
    """Returns a TIFF as cameras write them: with tags that say its first image is a preview."""
    info = ImageFileDirectory_v2()
    for tag, value in tags.items():
        info[int(tag.removeprefix("tag_"))] = value
    return encode(COLOUR, "TIFF", tiffinfo=info)


UNSUPPORTED = {
    "HEIC": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC", "magick FILE.heic FILE.jpg"),
    "HEIF": (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "HEIC", "magick FILE.heic FILE.jpg"),
    "CR2": (b"II*\0\x10\0\0\0CR\2\0", "camera raw", "darktable-cli FILE FILE.jpg"),
    "CR3": (b"\0\0\0\x18ftypcrx \0\0\0\1crx isom", "camera raw", "darktable-cli FILE FILE.jpg"),
    "NEF or ARW": (raw(tag_254=1), "camera raw", "darktable-cli FILE FILE.jpg"),
    "DNG": (raw(tag_50706=1), "camera raw", "darktable-cli FILE FILE.jpg"),
    "RAF": (b"FUJIFILMCCD-RAW 0201", "camera raw", "darktable-cli FILE FILE.jpg"),
    "JPEG XL": (b"\xff\x0a\xfa\x1f", "JPEG XL", "djxl FILE.jxl FILE.jpg"),
    "SVG": (b'<?xml version="1.0"?>\n<!-- a -->\n<svg width="4">', "SVG", "rsvg-convert FILE.svg > FILE.png"),
    "PSD": (b"8BPS\0\1\0\0", "PSD", "magick 'FILE.psd[0]' FILE.jpg"),
}


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_other_formats_are_named(kind: str) -> None:
    """A4: the reason has the format and a command that converts it."""
    content, name, command = UNSUPPORTED[kind]

    assert reason(content) == (
        f"{name}, which is not supported: convert it to JPEG or PNG first, for example with {command}"
    )


class TestDamaged:
    """Files that are truncated or invalid."""

    @pytest.mark.parametrize("file_format", ["GIF", "WEBP", "AVIF", "JPEG2000", "BMP", "TIFF"])
    def test_cut(self, file_format: str) -> None:
        """A truncated file is rejected, and the reason has the format."""
        content = encode(COLOUR, file_format)

        assert reason(content[: len(content) // 2]).startswith(f"{file_format} cannot be decoded: ")

    def test_truncated_images_switched_on_in_pillow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Truncated files are rejected even if another library makes Pillow accept them."""
        monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
        content = encode(COLOUR, "BMP")

        assert "truncated" in reason(content[:-50])

    @pytest.mark.parametrize("low", [-1.0, float("nan"), float("inf")])
    def test_floats(self, low: float) -> None:
        """Floats that are negative, nan or infinite are rejected."""
        values = np.ones((HEIGHT, WIDTH), dtype=np.float32)
        values[3, 4] = low

        assert reason(deep_tiff(values)).startswith("F pixels from ")


def resized_gif(content: bytes, side: int) -> bytes:
    """Replaces the size in the header of a GIF and of its frame."""
    size_bytes = struct.pack("<HH", WIDTH, HEIGHT)
    assert content.count(size_bytes) == 2
    return content.replace(size_bytes, struct.pack("<HH", side, side))


def resized_webp(content: bytes, side: int) -> bytes:
    """Replaces the size of a lossless WebP: two times 14 bits after its signature byte."""
    at = content.index(b"VP8L") + 9
    return content[:at] + struct.pack("<I", (side - 1) | (side - 1) << 14) + content[at + 4 :]


def resized_avif(content: bytes, side: int) -> bytes:
    """Replaces the size in the header of an AVIF file, not in its frame."""
    at = content.index(b"ispe") + 8
    return content[:at] + struct.pack(">II", side, side) + content[at + 8 :]


def resized_jp2(content: bytes, side: int) -> bytes:
    """Replaces the size in the header of a JPEG 2000 file, not in its codestream."""
    at = content.index(b"ihdr") + 4
    return content[:at] + struct.pack(">II", side, side) + content[at + 8 :]


BOMBS = {
    "GIF": (
        resized_gif(encode(COLOUR, "GIF"), 10_000),
        "size 10000 x 10000 is 100,000,000 pixels, expected at most 50,000,000 (max_pixels)",
    ),
    "AVIF": (
        resized_avif(encode(COLOUR, "AVIF"), 16_000),
        "size 16000 x 16000 is 256,000,000 pixels, expected at most 50,000,000 (max_pixels)",
    ),
    "JPEG 2000": (
        resized_jp2(encode(COLOUR, "JPEG2000"), 60_000),
        "size 60000 x 60000 is 3,600,000,000 pixels, expected at most 50,000,000 (max_pixels)",
    ),
    "WebP": (
        resized_webp(encode(COLOUR, "WEBP", lossless=True), 16_383),
        "size 16383 x 16383 is 268,402,689 pixels, expected at most 50,000,000 (max_pixels)",
    ),
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

    def test_a_frame_larger_than_the_header_of_an_avif_states(self) -> None:
        """A5: the size of the coded frame counts, because libavif would decode it and scale it down."""
        content = resized_avif(encode(Image.new("RGB", (1500, 1000)), "AVIF", speed=10), 16)

        with pytest.raises(ImageRejected) as error:
            check_image(content, Ingest(max_pixels=1_000_000))

        assert str(error.value) == "size 1500 x 1000 is 1,500,000 pixels, expected at most 1,000,000 (max_pixels)"

    def test_a_frame_of_an_animation_larger_than_the_header_states(self) -> None:
        """A5: the first sample of a track is found as well."""
        large = Image.new("RGB", (1500, 1000))
        content = encode(large, "AVIF", speed=10, save_all=True, append_images=[large])
        content = resized_avif(content, 16).replace(b"iloc", b"free", 1)

        with pytest.raises(ImageRejected) as error:
            check_image(content, Ingest(max_pixels=1_000_000))

        assert str(error.value) == "size 1500 x 1000 is 1,500,000 pixels, expected at most 1,000,000 (max_pixels)"

    def test_an_avif_of_many_boxes(self) -> None:
        """A5: rejected before walking them takes long."""
        content = encode(COLOUR, "AVIF") + 5000 * b"\0\0\0\x08free"

        assert reason(content) == "AVIF of more than 4,096 boxes; save it again"

    def test_a_codestream_larger_than_the_header_of_a_jpeg_2000_states(self) -> None:
        """A5: Pillow compares the size of each tile with that of the header before it decodes it."""
        content = resized_jp2(encode(COLOUR, "JPEG2000"), 16)

        assert reason(content).startswith("JPEG2000 cannot be decoded: ")

    def test_huge_tiles(self) -> None:
        """A small TIFF with huge tiles is rejected."""
        tags = ImageFileDirectory_v2()
        for tag in (65_001, 65_002):
            tags[tag] = 60_000
            tags.tagtype[tag] = TiffTags.LONG
        content = encode(COLOUR, "TIFF", tiffinfo=tags)
        for tag, tile_tag in ((65_001, 322), (65_002, 323)):
            content = content.replace(struct.pack("<HHI", tag, 4, 1), struct.pack("<HHI", tile_tag, 4, 1))

        assert reason(content) == "TIFF tiles of 60000 x 60000, expected at most 50,000,000 pixels"


SEEDS = {
    **{f"transparent {kind}": content for kind, (content, _) in TRANSPARENT.items()},
    **{f"converted {kind}": content for kind, (content, _) in CONVERTED.items()},
    **{f"deep {kind}": content for kind, (content, _) in DEEP.items()},
}


class TestFuzz:
    """Files with random damage, from fixed seeds."""

    @pytest.mark.parametrize("kind", SEEDS)
    def test_mutations(self, kind: str) -> None:
        """A damaged file is rejected, or becomes one that TensorFlow can decode."""
        fuzz(kind, SEEDS[kind])
