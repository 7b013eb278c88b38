"""Promises A4 and A5: training sees what a person sees, or the file is set aside with a reason.

The judge is TensorFlow itself: every accepted content is decoded by `tf.io.decode_image` and compared, pixel by pixel,
with what Pillow shows a person.
"""

import io
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from PIL import Image, ImageFile, ImageOps, TiffTags
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from components.ingest.images import CheckedImage, ImageLimits, ImageRejected, check_image

# Pillow tells of damaged TIFF tags by warnings, which the module silences where pytest does not reset them.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

Pixels = npt.NDArray[np.uint8]

WIDTH, HEIGHT = 43, 37
# TensorFlow's default inverse cosine transform is the fast one; chroma is upsampled by another formula too.
JPEG_TOLERANCE = 12
JPEG_MEAN_TOLERANCE = 1.5
# A second JPEG encoding at quality 95 on top.
REENCODED_TOLERANCE = 20
REENCODED_MEAN_TOLERANCE = 3

NOISE = np.random.default_rng(7)
COLOUR = Image.fromarray(NOISE.integers(0, 256, (5, 6, 3), dtype=np.uint8)).resize(
    (WIDTH, HEIGHT), Image.Resampling.BICUBIC
)
GRAY = COLOUR.convert("L")
ALPHA = Image.fromarray(np.tile(np.arange(WIDTH, dtype=np.uint8) * 6, (HEIGHT, 1)))
TRANSLUCENT = Image.merge("RGBA", [*COLOUR.split(), ALPHA])


def encode(image: Image.Image, file_format: str, **options: object) -> bytes:
    """Returns the picture as a file."""
    out = io.BytesIO()
    image.save(out, file_format, **options)
    return out.getvalue()


def seen_by_tensorflow(content: bytes) -> Pixels:
    """Returns the pixels that training gets."""
    pixels: Pixels = tf.io.decode_image(content, channels=3, expand_animations=False).numpy()
    return pixels


def seen_by_a_person(content: bytes) -> Pixels:
    """Returns the pixels of the first frame, upright, on white paper."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    paper = Image.new("RGBA", image.size, "white")
    return np.asarray(Image.alpha_composite(paper, image.convert("RGBA")).convert("RGB"))


def distance(content: bytes, expected: Pixels) -> Pixels:
    """Returns by how much TensorFlow's pixels differ from those expected."""
    found = seen_by_tensorflow(content)
    assert found.shape == expected.shape
    return np.abs(found.astype(np.int16) - expected).astype(np.uint8)


def check(content: bytes) -> CheckedImage:
    """Checks with the default limits."""
    return check_image(content, ImageLimits())


def reason(content: bytes, limits: ImageLimits | None = None) -> str:
    """Returns why `content` is rejected."""
    with pytest.raises(ImageRejected) as rejected:
        check_image(content, limits or ImageLimits())
    message = str(rejected.value)
    assert message.isprintable()
    return message


def exif(orientation: int) -> Image.Exif:
    """Returns an EXIF block that tells nothing but the orientation."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


# PNG files by hand, since Pillow writes but a few kinds

SIGNATURE = b"\x89PNG\r\n\x1a\n"
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(name: bytes, body: bytes) -> bytes:
    """Returns a PNG chunk with its right checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def chunks_of(content: bytes) -> list[tuple[bytes, bytes]]:
    """Returns name and body of each chunk."""
    found, at = [], 8
    while at < len(content):
        length, name = struct.unpack_from(">I4s", content, at)
        found.append((name, content[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def png_of(chunks: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Returns the file made of these chunks."""
    return SIGNATURE + b"".join(chunk(name, body) for name, body in chunks)


def png_with(content: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    """Puts chunks before and after the picture data."""
    data = content.index(b"IDAT") - 4
    return content[:data] + before + content[data:-12] + after + content[-12:]


def raw_png(
    depth: int,
    colour: int,
    rows: bytes,
    extra: bytes = b"",
    interlace: int = 0,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> bytes:
    """Returns a PNG with these rows, each of them with its filter byte."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, interlace))
    return SIGNATURE + header + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def noise_rows(bits: int, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    """Returns rows of random pixels, each behind a random filter."""
    length = (width * bits + 7) // 8
    return b"".join(bytes([NOISE.integers(5)]) + NOISE.bytes(length) for _ in range(height))


def interlaced_rows(bits: int) -> bytes:
    """Returns the rows of the seven passes."""
    sizes = [(len(range(x, WIDTH, dx)), len(range(y, HEIGHT, dy))) for x, y, dx, dy in ADAM7]
    return b"".join(noise_rows(bits, width, height) for width, height in sizes)


def palette(colours: int) -> bytes:
    """Returns a PLTE chunk of random colours."""
    return chunk(b"PLTE", NOISE.bytes(3 * colours))


def filtered(pixels: npt.NDArray[np.generic]) -> bytes:
    """Returns rows that no filter has changed."""
    return b"".join(b"\0" + row.tobytes() for row in pixels)


def arithmetic_jpeg() -> bytes:
    """Returns a JPEG whose data is read as arithmetic codes: any bytes are some picture in it."""
    return encode(COLOUR, "JPEG").replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc9\x00\x11\x08")


KEPT_JPEG = {
    "4:2:0": encode(COLOUR, "JPEG", subsampling="4:2:0"),
    "4:2:2": encode(COLOUR, "JPEG", subsampling="4:2:2"),
    "4:4:4": encode(COLOUR, "JPEG", subsampling="4:4:4"),
    "gray": encode(GRAY, "JPEG"),
    "progressive": encode(COLOUR, "JPEG", progressive=True),
    "progressive gray": encode(GRAY, "JPEG", progressive=True),
    "stored as RGB": encode(COLOUR, "JPEG", keep_rgb=True),
    "restart markers": encode(COLOUR, "JPEG", restart_marker_blocks=2),
    "upright EXIF": encode(COLOUR, "JPEG", exif=exif(1)),
    "comment and profile": encode(COLOUR, "JPEG", comment=b"\xff\xd9 hello", icc_profile=b"profile" * 30_000),
    "bytes after its end": encode(COLOUR, "JPEG") + b"\xff\xda junk" * 500,
    "MPO of two pictures": encode(COLOUR, "MPO", save_all=True, append_images=[GRAY.convert("RGB")]),
    "one pixel": encode(COLOUR.crop((0, 0, 1, 1)), "JPEG"),
}


class TestKeptJpeg:
    """JPEG files that stay as they are."""

    @pytest.mark.parametrize("kind", KEPT_JPEG)
    def test_same_bytes(self, kind: str) -> None:
        """A JPEG that TensorFlow shows as a person sees it is stored byte for byte."""
        content = KEPT_JPEG[kind]
        expected = seen_by_a_person(content)

        checked = check(content)

        height, width, _ = expected.shape
        assert checked == CheckedImage(content, width, height, "JPEG", "")
        assert distance(checked.content, expected).max() <= JPEG_TOLERANCE
        assert distance(checked.content, expected).mean() <= JPEG_MEAN_TOLERANCE

    def test_arithmetic_codes(self) -> None:
        """An arithmetic-coded JPEG is kept, because TensorFlow's libjpeg decodes it."""
        content = arithmetic_jpeg()

        assert check(content) == CheckedImage(content, WIDTH, HEIGHT, "JPEG", "")
        assert seen_by_tensorflow(content).shape == (HEIGHT, WIDTH, 3)

    def test_flat_colour(self) -> None:
        """A huge flat picture, the best that JPEG can compress, is not taken for a lie."""
        content = encode(Image.new("L", (5000, 5000)), "JPEG", progressive=True)

        assert check(content) == CheckedImage(content, 5000, 5000, "JPEG", "")


KEPT_PNG = {
    "RGB": encode(COLOUR, "PNG"),
    "gray": encode(GRAY, "PNG"),
    "1 bit": encode(COLOUR.convert("1"), "PNG"),
    "2 bits": raw_png(2, 0, noise_rows(2)),
    "4 bits": raw_png(4, 0, noise_rows(4)),
    "RGB of 16 bits": raw_png(16, 2, noise_rows(48)),
    "palette": encode(COLOUR.quantize(200), "PNG"),
    "palette of 4 bits": raw_png(4, 3, noise_rows(4), palette(16)),
    "palette of 1 bit, interlaced": raw_png(1, 3, interlaced_rows(1), palette(2), interlace=1),
    "index beyond the palette": raw_png(8, 3, noise_rows(8), palette(9)),
    "interlaced RGB": raw_png(8, 2, interlaced_rows(24), interlace=1),
    "interlaced 2 bits": raw_png(2, 0, interlaced_rows(2), interlace=1),
    "opaque alpha": encode(COLOUR.convert("RGBA"), "PNG"),
    "opaque gray alpha": encode(GRAY.convert("LA"), "PNG"),
    "opaque alpha of 16 bits": raw_png(16, 6, filtered(np.full((HEIGHT, 4 * WIDTH), 0xFFFF, ">u2"))),
    "transparent colour that no pixel has": encode(COLOUR, "PNG", transparency=(1, 2, 3)),
    "palette whose transparent colour no pixel has": png_with(
        encode(COLOUR.quantize(8), "PNG"), chunk(b"tRNS", b"\xff" * 8)
    ),
    "upright EXIF": encode(COLOUR, "PNG", exif=exif(1)),
    "APNG of one frame": png_with(encode(COLOUR, "PNG"), chunk(b"acTL", struct.pack(">II", 1, 0))),
    "data in many chunks": png_of(
        [
            (name, piece)
            for name, body in chunks_of(encode(COLOUR, "PNG"))
            for piece in ([body[:1], b"", body[1:9], body[9:]] if name == b"IDAT" else [body])
        ]
    ),
    "bytes after its end": encode(COLOUR, "PNG") + b"junk",
    "text behind the data": png_with(encode(COLOUR, "PNG"), after=chunk(b"tEXt", b"a\0b")),
}


class TestKeptPng:
    """PNG files that stay as they are."""

    @pytest.mark.parametrize("kind", KEPT_PNG)
    def test_same_bytes(self, kind: str) -> None:
        """A PNG that TensorFlow shows as a person sees it is stored byte for byte."""
        content = KEPT_PNG[kind]

        checked = check(content)

        assert checked == CheckedImage(content, WIDTH, HEIGHT, "PNG", "")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_a_person(content))

    @pytest.mark.parametrize("interlace", [0, 1])
    def test_deep_gray(self, interlace: int) -> None:
        """A gray PNG of 16 bits is kept; TensorFlow shows its upper 8 bits, where Pillow alone would clip it."""
        rows = interlaced_rows(16) if interlace else noise_rows(16)
        content = raw_png(16, 0, rows, interlace=interlace)
        gray = (np.asarray(Image.open(io.BytesIO(content))) >> 8).astype(np.uint8)

        checked = check(content)

        assert checked == CheckedImage(content, WIDTH, HEIGHT, "PNG", "")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), np.dstack([gray] * 3))

    def test_damaged_text(self) -> None:
        """Text that no pixel needs may have a wrong checksum."""
        content = png_with(encode(COLOUR, "PNG"), chunk(b"tEXt", b"a\0b")[:-1] + b"!")

        assert check(content) == CheckedImage(content, WIDTH, HEIGHT, "PNG", "")
        np.testing.assert_array_equal(seen_by_tensorflow(content), np.asarray(COLOUR))


class TestRotation:
    """Pictures that are stored lying or mirrored."""

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_jpeg(self, orientation: int) -> None:
        """A JPEG is turned upright in each of the eight orientations, as a JPEG without EXIF."""
        content = encode(COLOUR, "JPEG", quality=95, subsampling=0, exif=exif(orientation))
        expected = seen_by_a_person(content)

        checked = check(content)

        height, width, _ = expected.shape
        changed = "EXIF rotation" if orientation > 1 else ""
        assert checked == CheckedImage(checked.content, width, height, "JPEG", changed)
        assert distance(checked.content, expected).max() <= REENCODED_TOLERANCE
        assert distance(checked.content, expected).mean() <= REENCODED_MEAN_TOLERANCE

    @pytest.mark.parametrize("orientation", range(2, 9))
    @pytest.mark.parametrize(("file_format", "changed"), [("PNG", ""), ("WEBP", "WEBP, "), ("TIFF", "TIFF, ")])
    def test_others(self, file_format: str, changed: str, orientation: int) -> None:
        """PNG, WebP and TIFF are turned upright in every orientation, without loss."""
        lossless = {"lossless": True} if file_format == "WEBP" else {}
        content = encode(COLOUR, file_format, exif=exif(orientation), **lossless)
        expected = seen_by_a_person(content)

        checked = check(content)

        height, width, _ = expected.shape
        assert checked == CheckedImage(checked.content, width, height, file_format, changed + "EXIF rotation")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), expected)

    @pytest.mark.parametrize(
        "content",
        [
            encode(COLOUR, "JPEG", xmp=b'<rdf tiff:Orientation="6"/>'),
            png_with(encode(COLOUR, "PNG"), chunk(b"iTXt", b'XML:com.adobe.xmp\0\0\0\0\0<rdf tiff:Orientation="6"/>')),
            encode(COLOUR, "WEBP", lossless=True, xmp=b'<rdf tiff:Orientation="6"/>'),
        ],
        ids=["JPEG", "PNG", "WebP"],
    )
    def test_xmp(self, content: bytes) -> None:
        """An orientation that only XMP tells counts too, as in Pillow."""
        checked = check(content)

        assert (checked.width, checked.height) == (HEIGHT, WIDTH)
        assert distance(checked.content, seen_by_a_person(content)).max() <= REENCODED_TOLERANCE

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
        """A damaged EXIF block turns nothing and costs nothing."""
        content = encode(COLOUR, "JPEG", exif=b"Exif\0\0" + block)

        assert check(content) == CheckedImage(content, WIDTH, HEIGHT, "JPEG", "")

    def test_no_metadata_left(self) -> None:
        """An image that was encoded anew carries neither EXIF nor profile nor comment."""
        content = encode(COLOUR, "JPEG", exif=exif(3), icc_profile=b"profile", comment=b"hello")

        stored = Image.open(io.BytesIO(check(content).content))

        assert stored.info.keys() == {"jfif", "jfif_density", "jfif_unit", "jfif_version"}


def on_white(colours: Pixels, alpha: Pixels) -> Pixels:
    """Returns the colours as they look on white paper."""
    cover = alpha[..., np.newaxis] / 255
    return np.round(colours * cover + 255 * (1 - cover)).astype(np.uint8)


def keyed_gray(depth: int) -> tuple[bytes, Pixels]:
    """Returns a gray PNG with a transparent gray, and that picture on white."""
    values = NOISE.integers(0, 2**depth, (HEIGHT, WIDTH), dtype=np.uint8)
    bits = np.unpackbits(values[..., np.newaxis], axis=-1)[..., 8 - depth :].reshape(HEIGHT, -1)
    content = raw_png(depth, 0, filtered(np.packbits(bits, axis=-1)), chunk(b"tRNS", b"\0\1"))
    gray = np.where(values == 1, 255, values.astype(int) * 255 // (2**depth - 1)).astype(np.uint8)
    return content, np.dstack([gray] * 3)


TRANSPARENT = {
    "PNG": (encode(TRANSLUCENT, "PNG"), "alpha"),
    "gray PNG": (encode(Image.merge("LA", [GRAY, ALPHA]), "PNG"), "alpha"),
    "PNG of 16 bits": (raw_png(16, 6, noise_rows(64)), "alpha"),
    "gray PNG of 16 bits": (raw_png(16, 4, noise_rows(32)), "alpha"),
    "interlaced PNG": (raw_png(8, 6, interlaced_rows(32), interlace=1), "alpha"),
    "PNG palette": (raw_png(4, 3, noise_rows(4), palette(16) + chunk(b"tRNS", b"\0\x40\x80")), "alpha"),
    "PNG colour": (encode(COLOUR, "PNG", transparency=COLOUR.getpixel((3, 3))), "alpha"),
    "GIF": (encode(COLOUR.quantize(16), "GIF", transparency=3), "GIF, alpha"),
    "WebP": (encode(TRANSLUCENT, "WEBP", lossless=True, exact=True), "WEBP, alpha"),
    "TIFF": (encode(TRANSLUCENT, "TIFF"), "TIFF, alpha"),
}


class TestAlpha:
    """Pictures that one can see through."""

    @pytest.mark.parametrize("kind", TRANSPARENT)
    def test_on_white(self, kind: str) -> None:
        """What shines through is white."""
        content, changed = TRANSPARENT[kind]
        shown = np.asarray(Image.open(io.BytesIO(content)).convert("RGBA"))

        checked = check(content)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, checked.source_format, changed)
        assert distance(checked.content, on_white(shown[..., :3], shown[..., 3])).max() <= 1

    @pytest.mark.parametrize("depth", [1, 2, 4, 8])
    def test_transparent_gray(self, depth: int) -> None:
        """A transparent gray is found at every depth; Pillow alone misses it at 2 and 4 bits."""
        content, expected = keyed_gray(depth)

        checked = check(content)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, "PNG", "alpha")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), expected)

    def test_rotated(self) -> None:
        """Rotation and alpha are both set right, and both are told."""
        content = encode(TRANSLUCENT, "PNG", exif=exif(6))

        checked = check(content)

        assert checked == CheckedImage(checked.content, HEIGHT, WIDTH, "PNG", "EXIF rotation, alpha")
        assert distance(checked.content, seen_by_a_person(content)).max() <= 1

    def test_deep_key(self) -> None:
        """A transparent colour of 16 bits, which Pillow cannot tell from its neighbours, is refused."""
        content = raw_png(16, 2, noise_rows(48), chunk(b"tRNS", bytes(6)))

        assert reason(content) == "PNG of 16 bits with a transparent colour, expected 8 bits or an alpha channel"


OTHER = COLOUR.transpose(Image.Transpose.ROTATE_180)
CONVERTED = {
    "GIF": (encode(COLOUR, "GIF"), "GIF"),
    "GIF animation": (encode(COLOUR, "GIF", save_all=True, append_images=[OTHER]), "GIF, first frame"),
    "WebP": (encode(COLOUR, "WEBP"), "WEBP"),
    "WebP animation": (encode(COLOUR, "WEBP", save_all=True, append_images=[OTHER]), "WEBP, first frame"),
    "APNG": (encode(COLOUR, "PNG", save_all=True, append_images=[OTHER]), "APNG, first frame"),
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
    """Sets the tag 262 (photometric interpretation), a SHORT, from 1 to 0."""
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
    """Pictures that TensorFlow shows wrongly or not at all."""

    @pytest.mark.parametrize("kind", CONVERTED)
    def test_to_png(self, kind: str) -> None:
        """What TensorFlow cannot decode, or would show with more than one frame, becomes a PNG of the first frame."""
        content, changed = CONVERTED[kind]

        checked = check(content)

        assert checked.content.startswith(SIGNATURE)
        source_format = "PNG" if kind == "APNG" else changed.partition(",")[0]
        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, source_format, changed)
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_a_person(content))

    @pytest.mark.parametrize("kind", DEEP)
    def test_deep_gray(self, kind: str) -> None:
        """More than 8 bits of gray are scaled to 8 and not clipped."""
        content, expected = DEEP[kind]

        checked = check(content)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, "TIFF", "TIFF")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), np.dstack([expected] * 3))

    @pytest.mark.parametrize("orientation", [1, 8])
    def test_cmyk(self, orientation: int) -> None:
        """A CMYK JPEG becomes an RGB JPEG, turned upright if need be."""
        content = encode(COLOUR.convert("CMYK"), "JPEG", quality=95, exif=exif(orientation))
        expected = seen_by_a_person(content)

        checked = check(content)

        height, width, _ = expected.shape
        changed = "CMYK" if orientation == 1 else "EXIF rotation, CMYK"
        assert checked == CheckedImage(checked.content, width, height, "JPEG", changed)
        assert Image.open(io.BytesIO(checked.content)).mode == "RGB"
        assert distance(checked.content, expected).max() <= REENCODED_TOLERANCE

    def test_short_window(self) -> None:
        """A PNG that refers further back than it announces is encoded anew: Pillow reads it, TensorFlow does not."""
        row = filtered(NOISE.integers(0, 256, (1, 3 * WIDTH), dtype=np.uint8))
        lines = [filtered(NOISE.integers(0, 256, (1, 3 * WIDTH), dtype=np.uint8)) for _ in range(HEIGHT - 2)]
        honest = raw_png(8, 2, row + b"".join(lines) + row)
        chunks = dict(chunks_of(honest))
        chunks[b"IDAT"] = b"\x18\x19" + chunks[b"IDAT"][2:]
        content = png_of(list(chunks.items()))
        with pytest.raises(tf.errors.InvalidArgumentError):
            seen_by_tensorflow(content)

        checked = check(content)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, "PNG", "short zlib window")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_tensorflow(honest))


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
        """Every format is held to the limit, and a picture exactly of that size passes."""
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

        assert reason(content) == "size 1000001 x 1, expected at most 1,000,000 a side"


def resized(content: bytes, layout: str, size: tuple[int, int]) -> bytes:
    """Lets the header of a JPEG (">HH", height first) or GIF ("<HH") tell another size."""
    old, new = [(height, width) if layout == ">HH" else (width, height) for width, height in [(WIDTH, HEIGHT), size]]
    assert content.count(struct.pack(layout, *old)) >= 1
    return content.replace(struct.pack(layout, *old), struct.pack(layout, *new))


def resized_webp(content: bytes, side: int) -> bytes:
    """Lets the header of a lossless WebP tell another size, in two times 14 bits behind its signature byte."""
    at = content.index(b"VP8L") + 9
    return content[:at] + struct.pack("<I", (side - 1) | (side - 1) << 14) + content[at + 4 :]


JPEG_LIE = "JPEG header says 7000 x 7000 but {} bytes of data follow, expected at least one for 2,000 pixels"
BOMBS = {
    "17 KB of PNG": (
        encode(Image.new("1", (12_000, 12_000)), "PNG", compress_level=9),
        "size 12000 x 12000 is 144,000,000 pixels, expected at most 50,000,000 (max_pixels)",
    ),
    "lying PNG": (
        raw_png(16, 6, bytes(1000), size=(7000, 7000)),
        "PNG header says 7000 x 7000 but 17 bytes of data follow, expected at least one for 1,032 bytes of the picture",
    ),
    "lying JPEG": (
        resized(encode(COLOUR, "JPEG"), ">HH", (7000, 7000)),
        JPEG_LIE.format(encode(COLOUR, "JPEG").index(b"\xff\xd9") - encode(COLOUR, "JPEG").index(b"\xff\xda") - 12),
    ),
    "JPEG beyond the limit": (
        resized(encode(COLOUR, "JPEG"), ">HH", (65_500, 65_500)),
        "size 65500 x 65500 is 4,290,250,000 pixels, expected at most 50,000,000 (max_pixels)",
    ),
    "GIF": (
        resized(encode(COLOUR, "GIF"), "<HH", (10_000, 10_000)),
        "size 10000 x 10000 is 100,000,000 pixels, expected at most 50,000,000 (max_pixels)",
    ),
    "WebP": (
        resized_webp(encode(COLOUR, "WEBP", lossless=True), 16_383),
        "size 16383 x 16383 is 268,402,689 pixels, expected at most 50,000,000 (max_pixels)",
    ),
    "PNG that never ends to inflate": (
        raw_png(8, 2, bytes(400_000_000)),
        "PNG is corrupt: 16,853,336 bytes of picture, expected 4,810",
    ),
}
CONTAINED = {
    "PNG text": png_with(encode(COLOUR, "PNG"), chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(400_000_000)))),
    "PNG international text": png_with(
        encode(COLOUR, "PNG"), chunk(b"iTXt", b"a\0\1\0\0\0" + zlib.compress(bytes(400_000_000)))
    ),
    "PNG profile": png_with(encode(COLOUR, "PNG"), chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(400_000_000)))),
}
MEASURE = """
import sys
from components.ingest.images import ImageLimits, ImageRejected, check_image

def peak():  # not ru_maxrss, which starts from the peak of the parent process
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

with open(sys.argv[1], "rb") as file:
    content = file.read()
before = peak()
try:
    print(check_image(content, ImageLimits()).changed or "kept")
except ImageRejected as error:
    print(error)
print(peak() - before)
"""


def outcome_and_cost(content: bytes, folder: Path, measure: str = MEASURE) -> tuple[str, int]:
    """Returns what a process of its own says to `content`, and by how many KB its peak memory rose."""
    file = folder / "image"
    file.write_bytes(content)
    run = subprocess.run([sys.executable, "-c", measure, str(file)], capture_output=True, text=True, check=True)
    assert run.stderr == ""  # no DecompressionBombWarning either
    outcome, cost = run.stdout.splitlines()
    return outcome, int(cost)


class TestBombs:
    """Small files that would be huge in memory or time."""

    @pytest.mark.parametrize("kind", BOMBS)
    def test_rejected_cheaply(self, kind: str, tmp_path: Path) -> None:
        """A small file that would be huge in memory is rejected before it is, and without a warning from Pillow."""
        content, expected = BOMBS[kind]

        outcome, cost = outcome_and_cost(content, tmp_path)

        assert outcome == expected
        assert cost < 100_000

    @pytest.mark.parametrize("kind", CONTAINED)
    def test_metadata_not_inflated(self, kind: str, tmp_path: Path) -> None:
        """Metadata that would be huge in memory is never inflated, so the image can be kept."""
        outcome, cost = outcome_and_cost(CONTAINED[kind], tmp_path)

        assert outcome == "kept"
        assert cost < 100_000

    def test_measure(self, tmp_path: Path) -> None:
        """The measure sees memory that was used for a moment: what a plain decode of the small PNG costs."""
        plain = "Image.MAX_IMAGE_PIXELS = None; print(Image.open(sys.argv[1]).convert('L').mode)"
        naive = MEASURE.replace('print(check_image(content, ImageLimits()).changed or "kept")', plain)

        outcome, cost = outcome_and_cost(BOMBS["17 KB of PNG"][0], tmp_path, "from PIL import Image\n" + naive)

        assert outcome == "L"
        assert cost > 250_000

    def test_many_scans(self) -> None:
        """A progressive JPEG of very many scans, each a walk over all pixels, is rejected."""
        content = encode(COLOUR, "JPEG", progressive=True)
        scan = content[content.rindex(b"\xff\xda") : -2]

        assert reason(content[:-2] + scan * 100 + b"\xff\xd9") == "JPEG of 110 scans, expected at most 100"

    def test_many_segments(self) -> None:
        """A JPEG of very many comments is rejected."""
        content = encode(COLOUR, "JPEG")

        crowded = content[:2] + b"\xff\xfe\0\2" * 10_000 + content[2:]

        assert reason(crowded) == "JPEG of more than 10,000 segments, expected fewer"

    def test_many_chunks(self) -> None:
        """A PNG of very many chunks is rejected."""
        content = png_with(encode(COLOUR, "PNG"), chunk(b"tEXt", b"a\0b") * 100_000)

        assert reason(content) == "PNG of more than 100,000 chunks, expected fewer"

    def test_huge_tiles(self) -> None:
        """A small TIFF of huge tiles is rejected."""
        tags = ImageFileDirectory_v2()
        for tag in (65_001, 65_002):
            tags[tag] = 60_000
            tags.tagtype[tag] = TiffTags.LONG
        content = encode(COLOUR, "TIFF", tiffinfo=tags)
        for tag, tile_tag in ((65_001, 322), (65_002, 323)):
            content = content.replace(struct.pack("<HHI", tag, 4, 1), struct.pack("<HHI", tile_tag, 4, 1))

        assert reason(content) == "TIFF tiles of 60000 x 60000, expected at most 50,000,000 pixels"


def without_chunk(content: bytes, unwanted: bytes) -> bytes:
    """Returns a PNG less the chunks of one name."""
    return png_of([(name, body) for name, body in chunks_of(content) if name != unwanted])


def flipped(content: bytes, at: int) -> bytes:
    """Returns `content` with bits of one byte flipped."""
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


PNG = encode(COLOUR, "PNG")
ROWS = noise_rows(24)
DAMAGED_PNG = {
    "no end": (PNG[:-12], "PNG is truncated: the file ends without an IEND chunk"),
    "cut in its end": (PNG[:-1], f"PNG is truncated: chunk IEND ends at byte {len(PNG)} of {len(PNG) - 1}"),
    "no data": (without_chunk(PNG, b"IDAT"), "PNG with 0 bytes of picture data in 0 chunks, expected some, in a row"),
    "no header": (without_chunk(PNG, b"IHDR"), "PNG with 0 headers, expected one of 13 bytes, first of all"),
    "checksum": (
        flipped(PNG, len(PNG) - 14),
        f"PNG is corrupt: wrong checksum of chunk IDAT at byte {PNG.index(b'IDAT') - 4}",
    ),
    "rows missing": (
        raw_png(8, 2, ROWS[: 130 * 30]),
        "PNG is corrupt: 3,900 bytes of picture, expected 4,810",
    ),
    "filter": (raw_png(8, 2, b"\x07" + ROWS[1:]), "PNG is corrupt: row filter 7, expected 0 to 4"),
    "filter of the last row": (
        raw_png(8, 2, ROWS[:-130] + b"\x05" + ROWS[-129:]),
        "PNG is corrupt: row filter 5, expected 0 to 4",
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
        f"PNG chunk 'CgBI' at byte {PNG.index(b'IDAT') - 4}, expected one of the standard",
    ),
    "unknown colour type": (
        raw_png(8, 5, noise_rows(8)),
        "PNG header says colour 5, depth 8, compression 0, filter 0, interlace 0, expected values of the standard",
    ),
}


class TestDamagedPng:
    """PNG files that are cut or corrupt."""

    @pytest.mark.parametrize("kind", DAMAGED_PNG)
    def test_rejected(self, kind: str) -> None:
        """Damage is told, as TensorFlow would refuse the file; Pillow alone forgives most of these."""
        content, expected = DAMAGED_PNG[kind]

        with pytest.raises(tf.errors.InvalidArgumentError):
            seen_by_tensorflow(content)
        assert reason(content) == expected

    def test_data_in_two_places(self) -> None:
        """Data that another chunk parts is rejected: decoders differ in what they make of it."""
        content = png_with(PNG, after=chunk(b"tEXt", b"a\0b") + chunk(b"IDAT", b"more"))
        size = len(dict(chunks_of(PNG))[b"IDAT"]) + 4

        assert reason(content) == f"PNG with {size:,} bytes of picture data in 2 chunks, expected some, in a row"


JPEG = encode(COLOUR, "JPEG")
FRAME = JPEG.index(b"\xff\xc0")
SCAN = JPEG.index(b"\xff\xda")
DAMAGED_JPEG = {
    "no end": (JPEG[:-2], "JPEG is truncated: no end marker, expected one after the picture data"),
    "half": (JPEG[: SCAN + 100], "JPEG is truncated: no end marker, expected one after the picture data"),
    "end of a half filled with zeros": (
        JPEG[: SCAN + 100] + bytes(500),
        "JPEG is truncated: no end marker, expected one after the picture data",
    ),
    "header only": (JPEG[: SCAN - 9], "JPEG is truncated or corrupt: segment FFC4 at byte {} is not whole"),
    "no data": (JPEG[:SCAN] + b"\xff\xd9", "JPEG without picture data, expected a scan before the end marker"),
    "12 bits": (
        JPEG[: FRAME + 4] + b"\x0c" + JPEG[FRAME + 5 :],
        "JPEG of 3 components of 12 bits, expected 1, 3 or 4 of 8",
    ),
    "no height": (JPEG[: FRAME + 5] + bytes(2) + JPEG[FRAME + 7 :], "size 43 x 0, expected at least 1 x 1"),
    "two frames": (JPEG[:FRAME] + JPEG[FRAME : FRAME + 19] + JPEG[FRAME:], "JPEG with 2 frame headers, expected one"),
    "no tables": (
        JPEG[:2] + JPEG[FRAME : FRAME + 19] + JPEG[SCAN:],
        "JPEG cannot be decoded: broken data stream when reading image file",
    ),
    "lossless kind": (
        JPEG[: FRAME + 1] + b"\xc3" + JPEG[FRAME + 2 :],
        "JPEG cannot be decoded: broken data stream when reading image file",
    ),
}


class TestDamagedJpeg:
    """JPEG files that are cut or corrupt."""

    @pytest.mark.parametrize("kind", DAMAGED_JPEG)
    def test_rejected(self, kind: str) -> None:
        """Damage is told, as TensorFlow would refuse the file."""
        content, expected = DAMAGED_JPEG[kind]

        with pytest.raises(tf.errors.InvalidArgumentError):
            seen_by_tensorflow(content)
        assert reason(content) == expected.format(content.rfind(b"\xff\xc4"))

    def test_marker_amid_data(self) -> None:
        """A stray marker, after which TensorFlow would show gray without a word, is found."""
        at = SCAN + 100
        content = JPEG[:at] + b"\xff\xfe\0\2" + JPEG[at:]

        assert seen_by_tensorflow(content).shape == (HEIGHT, WIDTH, 3)
        assert reason(content) == f"JPEG is corrupt: marker FFFE amid its data, at byte {at}, expected the end"

    @pytest.mark.parametrize("progressive", [False, True])
    def test_every_cut(self, progressive: bool) -> None:
        """Wherever a JPEG is cut, it is rejected, though only an eighth of its size is decoded."""
        content = encode(COLOUR, "JPEG", progressive=progressive)

        for length in range(1, len(content)):
            reason(content[:length])

    def test_forgiving_pillow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Cut files are rejected even where another library has told Pillow to let them pass."""
        monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
        content = encode(COLOUR, "BMP")

        assert "truncated" in reason(content[:-50])


class TestDamagedOthers:
    """Files of other formats that are cut or senseless."""

    @pytest.mark.parametrize("file_format", ["GIF", "WEBP", "BMP", "TIFF"])
    def test_cut(self, file_format: str) -> None:
        """A file of another format that was cut is rejected under its format's name."""
        content = encode(COLOUR, file_format)

        assert reason(content[: len(content) // 2]).startswith(f"{file_format} cannot be decoded: ")

    @pytest.mark.parametrize("low", [-1.0, float("nan"), float("inf")])
    def test_floats(self, low: float) -> None:
        """Floats that are no brightness are rejected."""
        values = np.ones((HEIGHT, WIDTH), dtype=np.float32)
        values[3, 4] = low

        assert reason(deep_tiff(values)).startswith("F pixels from ")


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Returns `content` with one to five bits, bytes or ranges changed, or cut."""
    damaged = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 3, 5])):
        if not damaged:
            break
        # Headers are short and decide much.
        at = draw.randrange(min(len(damaged), 120) if draw.random() < 0.4 else len(damaged))
        kind = draw.randrange(8)
        if kind <= 1:
            damaged[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            damaged[at] = draw.choice([0, 1, 127, 128, 254, 255])
        elif kind == 3:
            del damaged[at : at + draw.randrange(1, 20)]
        elif kind == 4:
            damaged[at:at] = draw.randbytes(draw.randrange(1, 9))
        elif kind == 5:
            damaged[at : at + 20] = bytes(20)
        elif kind == 6:
            damaged[at : at + 2] = draw.choice([b"\xff\xd9", b"\xff\xda", b"\xff\xd8", b"\xff\xc4", b"\xff\xfe"])
        else:
            del damaged[max(at, 1) :]
    return bytes(damaged)


def mutated_png(content: bytes, draw: random.Random) -> bytes:
    """Returns a PNG with one chunk changed, dropped, doubled or moved, and all checksums right."""
    chunks = chunks_of(content)
    at = draw.randrange(len(chunks))
    name, body = chunks[at]
    kind = draw.randrange(6)
    if kind <= 1:
        chunks[at] = (name, mutated(body, draw))
    elif kind == 2:
        del chunks[at]
    elif kind == 3:
        chunks.insert(draw.randrange(len(chunks) + 1), chunks[at])
    elif kind == 4:
        chunks[at : at + 1] = [(name, body[:7]), (name, body[7:])]
    else:
        extra = draw.choice([b"tRNS", b"PLTE", b"eXIf", b"acTL", b"IDAT", b"IEND", b"bKGD", b"sBIT", b"iCCP"])
        chunks.insert(draw.randrange(len(chunks) + 1), (extra, draw.randbytes(draw.choice([0, 1, 2, 6, 8, 12]))))
    return png_of(chunks)


SEEDS = {
    **KEPT_JPEG,
    "arithmetic": arithmetic_jpeg(),
    "rotated": encode(COLOUR, "JPEG", exif=exif(6)),
    "CMYK": encode(COLOUR.convert("CMYK"), "JPEG"),
    **{f"PNG {kind}": content for kind, content in KEPT_PNG.items() if kind != "bytes after its end"},
    **{f"transparent {kind}": content for kind, (content, _) in TRANSPARENT.items()},
    **{f"converted {kind}": content for kind, (content, _) in CONVERTED.items()},
    **{f"deep {kind}": content for kind, (content, _) in DEEP.items()},
}


class TestFuzz:
    """Files damaged at random, from fixed seeds."""

    @pytest.mark.parametrize("kind", SEEDS)
    def test_mutations(self, kind: str) -> None:
        """Whatever happens to a file, it is rejected, or TensorFlow decodes it to the size that was told."""
        content = SEEDS[kind]
        draw = random.Random(kind)
        for _ in range(30):
            structured = content.startswith(SIGNATURE) and draw.random() < 0.7
            damaged = mutated_png(content, draw) if structured else mutated(content, draw)
            try:
                checked = check_image(damaged, ImageLimits(max_pixels=4_000_000))
            except ImageRejected:
                continue
            assert seen_by_tensorflow(checked.content).shape == (checked.height, checked.width, 3)
