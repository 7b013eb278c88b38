"""PNG files: which are kept, and which are re-encoded."""

import io
import random
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.ingest.images import CheckedImage
from tests.ingest.images.conftest import (
    ALPHA,
    COLOUR,
    GRAY,
    HEIGHT,
    TRANSLUCENT,
    WIDTH,
    Pixels,
    check,
    chunk,
    chunks_of,
    distance,
    encode,
    exif,
    filtered,
    fuzz,
    interlaced_rows,
    mutated,
    noise_rows,
    on_white,
    palette,
    png_of,
    png_with,
    raw_png,
    reason,
    seen_by_a_viewer,
    seen_by_tensorflow,
)

KEPT = {
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


class TestKept:
    """PNG files that are kept."""

    @pytest.mark.parametrize("kind", KEPT)
    def test_same_bytes(self, kind: str) -> None:
        """A PNG that TensorFlow decodes as a viewer does is stored byte for byte."""
        content = KEPT[kind]

        checked = check(content)

        assert checked == CheckedImage(content, WIDTH, HEIGHT, "PNG", "")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_a_viewer(content))

    @pytest.mark.parametrize("interlace", [0, 1])
    def test_deep_gray(self, interlace: int) -> None:
        """A 16-bit gray PNG is kept; TensorFlow decodes the upper 8 bits, where Pillow would clip."""
        rows = interlaced_rows(16) if interlace else noise_rows(16)
        content = raw_png(16, 0, rows, interlace=interlace)
        gray = (np.asarray(Image.open(io.BytesIO(content))) >> 8).astype(np.uint8)

        checked = check(content)

        assert checked == CheckedImage(content, WIDTH, HEIGHT, "PNG", "")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), np.dstack([gray] * 3))

    def test_damaged_text(self) -> None:
        """A text chunk may have a wrong checksum."""
        content = png_with(encode(COLOUR, "PNG"), chunk(b"tEXt", b"a\0b")[:-1] + b"!")

        assert check(content) == CheckedImage(content, WIDTH, HEIGHT, "PNG", "")
        np.testing.assert_array_equal(seen_by_tensorflow(content), np.asarray(COLOUR))


class TestRotation:
    """Images that are stored rotated or mirrored."""

    @pytest.mark.parametrize("orientation", range(2, 9))
    def test_upright(self, orientation: int) -> None:
        """A PNG is turned upright in every orientation, without loss."""
        content = encode(COLOUR, "PNG", exif=exif(orientation))
        expected = seen_by_a_viewer(content)

        checked = check(content)

        height, width, _ = expected.shape
        assert checked == CheckedImage(checked.content, width, height, "PNG", "EXIF rotation")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), expected)

    def test_xmp(self) -> None:
        """An orientation in XMP alone is applied, as in Pillow."""
        text = chunk(b"iTXt", b'XML:com.adobe.xmp\0\0\0\0\0<rdf tiff:Orientation="6"/>')
        content = png_with(encode(COLOUR, "PNG"), text)

        checked = check(content)

        assert checked == CheckedImage(checked.content, HEIGHT, WIDTH, "PNG", "EXIF rotation")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_a_viewer(content))


def keyed_gray(depth: int) -> tuple[bytes, Pixels]:
    """Returns a gray PNG with a transparent gray, and that image on white."""
    values = np.random.default_rng(depth).integers(0, 2**depth, (HEIGHT, WIDTH), dtype=np.uint8)
    bits = np.unpackbits(values[..., np.newaxis], axis=-1)[..., 8 - depth :].reshape(HEIGHT, -1)
    content = raw_png(depth, 0, filtered(np.packbits(bits, axis=-1)), chunk(b"tRNS", b"\0\1"))
    gray = np.where(values == 1, 255, values.astype(int) * 255 // (2**depth - 1)).astype(np.uint8)
    return content, np.dstack([gray] * 3)


TRANSPARENT = {
    "PNG": encode(TRANSLUCENT, "PNG"),
    "gray PNG": encode(Image.merge("LA", [GRAY, ALPHA]), "PNG"),
    "PNG of 16 bits": raw_png(16, 6, noise_rows(64)),
    "gray PNG of 16 bits": raw_png(16, 4, noise_rows(32)),
    "interlaced PNG": raw_png(8, 6, interlaced_rows(32), interlace=1),
    "PNG palette": raw_png(4, 3, noise_rows(4), palette(16) + chunk(b"tRNS", b"\0\x40\x80")),
    "PNG colour": encode(COLOUR, "PNG", transparency=COLOUR.getpixel((3, 3))),
}


class TestAlpha:
    """Transparent images."""

    @pytest.mark.parametrize("kind", TRANSPARENT)
    def test_on_a_white_background(self, kind: str) -> None:
        """Transparent pixels show white."""
        content = TRANSPARENT[kind]

        checked = check(content)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, "PNG", "alpha")
        assert distance(checked.content, on_white(content)).max() <= 1

    @pytest.mark.parametrize("depth", [1, 2, 4, 8])
    def test_transparent_gray(self, depth: int) -> None:
        """A transparent gray is found at every depth; Pillow misses it at 2 and 4 bits."""
        content, expected = keyed_gray(depth)

        checked = check(content)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, "PNG", "alpha")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), expected)

    def test_rotated(self) -> None:
        """Rotation and alpha are both corrected and both reported."""
        content = encode(TRANSLUCENT, "PNG", exif=exif(6))

        checked = check(content)

        assert checked == CheckedImage(checked.content, HEIGHT, WIDTH, "PNG", "EXIF rotation, alpha")
        assert distance(checked.content, seen_by_a_viewer(content)).max() <= 1

    def test_deep_key(self) -> None:
        """A transparent 16-bit colour is rejected, because Pillow compares 8 bits only."""
        content = raw_png(16, 2, noise_rows(48), chunk(b"tRNS", bytes(6)))

        assert reason(content) == "PNG of 16 bits with a transparent colour, expected 8 bits or an alpha channel"


APNG = encode(COLOUR, "PNG", save_all=True, append_images=[COLOUR.transpose(Image.Transpose.ROTATE_180)])


class TestConverted:
    """PNG files that TensorFlow decodes wrongly or not at all."""

    def test_apng(self) -> None:
        """The first frame of an animation is stored."""
        checked = check(APNG)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, "PNG", "APNG, first frame")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_a_viewer(APNG))

    def test_short_window(self) -> None:
        """A PNG that refers further back than it announces is re-encoded: Pillow decodes it, TensorFlow does not."""
        pixels = np.random.default_rng(7).integers(0, 256, (HEIGHT, 3 * WIDTH), dtype=np.uint8)
        pixels[-1] = pixels[0]
        correct = raw_png(8, 2, filtered(pixels))
        chunks = dict(chunks_of(correct))
        chunks[b"IDAT"] = b"\x18\x19" + chunks[b"IDAT"][2:]
        content = png_of(list(chunks.items()))
        with pytest.raises(tf.errors.InvalidArgumentError):
            seen_by_tensorflow(content)

        checked = check(content)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, "PNG", "short zlib window")
        np.testing.assert_array_equal(seen_by_tensorflow(checked.content), seen_by_tensorflow(correct))


def mutated_png(content: bytes, draw: random.Random) -> bytes:
    """Returns a PNG with one chunk changed, removed, repeated or moved, and correct checksums."""
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


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Returns a damaged PNG, mostly with correct checksums."""
    return mutated_png(content, draw) if draw.random() < 0.7 else mutated(content, draw)


SEEDS = {
    **{f"PNG {kind}": content for kind, content in KEPT.items() if kind != "bytes after its end"},
    **{f"transparent {kind}": content for kind, content in TRANSPARENT.items()},
    "converted APNG": APNG,
}


class TestFuzz:
    """Files with random damage, from fixed seeds."""

    @pytest.mark.parametrize("kind", SEEDS)
    def test_mutations(self, kind: str) -> None:
        """A damaged PNG is rejected, or TensorFlow can decode it."""
        fuzz(kind, SEEDS[kind], damaged)
