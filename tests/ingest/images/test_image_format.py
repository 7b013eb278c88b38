"""Images stored at another size: as JPEG, or as pixels that TensorFlow and any viewer can read."""

import io

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, JpegImagePlugin

from components.ingest.images import CheckedImage, ImageRejected, check_image
from components.records.image_format import (
    PPM_DIGITS,
    PPM_HEADER_BYTES,
    PPM_HEIGHT_AT,
    PPM_WIDTH_AT,
    as_ppm,
    fit,
    for_people,
)
from components.settings.ingest import Ingest
from tests.ingest.images.conftest import (
    COLOUR,
    GRAY,
    HEIGHT,
    TRANSLUCENT,
    WIDTH,
    Pixels,
    encode,
    exif,
    on_white,
    seen_by_a_viewer,
    seen_by_tensorflow,
)

LARGE = COLOUR.resize((800, 600), Image.Resampling.BICUBIC)
JPEG, RAW = Ingest(store="jpeg", store_side=128, store_quality=90), Ingest(store="raw", store_side=128)


def stored(content: bytes, settings: Ingest) -> CheckedImage:
    """Checks and stores with the default limits."""
    return check_image(content, settings)


def opened(content: bytes) -> Image.Image:
    """Opens a stored image as another program would."""
    return Image.open(io.BytesIO(content))


def pixels_in_tensorflow(content: bytes) -> Pixels:
    """Reads raw pixels with TensorFlow, at the fixed offsets of the header."""
    width, height = (
        tf.strings.to_number(tf.strings.substr(content, at, PPM_DIGITS), tf.int32)
        for at in (PPM_WIDTH_AT, PPM_HEIGHT_AT)
    )
    flat = tf.io.decode_raw(tf.strings.substr(content, PPM_HEADER_BYTES, -1), tf.uint8)
    pixels: Pixels = tf.reshape(flat, [height, width, 3]).numpy()
    return pixels


class TestFit:
    """The size of a stored image."""

    @given(st.integers(1, 9_000), st.integers(1, 9_000), st.integers(8, 4_096))
    def test_the_shorter_side_decides(self, width: int, height: int, side: int) -> None:
        """It becomes `side` if it was longer; nothing is enlarged, and the ratio is kept to half a pixel."""
        new = fit(width, height, side)

        assert min(new) == min(width, height, side)
        assert abs(max(new) - max(width, height) * min(new) / min(width, height)) <= 0.5


class TestJpeg:
    """ingest.store = jpeg."""

    @pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "BMP"])
    def test_a_large_image_is_resized(self, file_format: str) -> None:
        """Any format becomes a JPEG of the wanted size with nearly the same pixels."""
        checked = stored(encode(LARGE, file_format), JPEG)
        expected = np.asarray(LARGE.resize((171, 128), Image.Resampling.BICUBIC), np.int16)
        why = "stored as JPEG" if file_format in ("JPEG", "PNG") else f"{file_format}, stored as JPEG"

        assert checked == CheckedImage(checked.content, 171, 128, file_format, why)
        assert opened(checked.content).format == "JPEG"
        assert np.abs(seen_by_tensorflow(checked.content) - expected).mean() < 3

    def test_chroma_is_halved(self) -> None:
        """4:2:0, as cameras store it."""
        assert JpegImagePlugin.get_sampling(opened(stored(encode(LARGE, "PNG"), JPEG).content)) == 2

    def test_gray_stays_gray(self) -> None:
        """A gray image is stored without colour channels."""
        assert opened(stored(encode(LARGE.convert("L"), "JPEG"), JPEG).content).mode == "L"

    def test_quality(self) -> None:
        """A lower quality takes fewer bytes."""
        sizes = [
            len(stored(encode(LARGE, "PNG"), Ingest(store="jpeg", store_side=128, store_quality=quality)).content)
            for quality in (95, 60, 20)
        ]

        assert sizes == sorted(sizes, reverse=True)

    @pytest.mark.parametrize("content", [encode(COLOUR, "JPEG"), encode(COLOUR, "PNG")])
    def test_a_small_image_is_kept(self, content: bytes) -> None:
        """The bytes are unchanged."""
        checked = stored(content, JPEG)

        assert (checked.content, checked.changed) == (content, "")

    def test_a_small_image_is_corrected(self) -> None:
        """The result is that without the setting."""
        content = encode(COLOUR, "JPEG", exif=exif(6))

        assert stored(content, JPEG) == check_image(content, Ingest())

    def test_a_rotated_image_is_rotated_and_resized(self) -> None:
        """The size is that of the upright image."""
        content = encode(LARGE, "JPEG", exif=exif(6))
        checked = stored(content, JPEG)
        expected = Image.fromarray(seen_by_a_viewer(content)).resize((128, 171), Image.Resampling.BICUBIC)

        assert checked == CheckedImage(checked.content, 128, 171, "JPEG", "EXIF rotation, stored as JPEG")
        assert np.abs(seen_by_tensorflow(checked.content) - np.asarray(expected, np.int16)).mean() < 3

    def test_a_truncated_file_is_rejected(self) -> None:
        """The reason is that of a full check."""
        content = encode(LARGE, "JPEG", quality=95)

        with pytest.raises(ImageRejected, match="JPEG is truncated: no end marker"):
            stored(content[: len(content) // 2], JPEG)


class TestRaw:
    """ingest.store = raw."""

    @pytest.mark.parametrize("image", [COLOUR, GRAY, COLOUR.quantize(16), LARGE], ids=["RGB", "L", "P", "large"])
    def test_other_programs_read_it(self, image: Image.Image) -> None:
        """Pillow reads a PPM file, and TensorFlow the same pixels at fixed offsets."""
        checked = stored(encode(image, "PNG"), RAW)
        seen = opened(checked.content)

        assert (seen.format, seen.mode, seen.size) == ("PPM", "RGB", (checked.width, checked.height))
        np.testing.assert_array_equal(pixels_in_tensorflow(checked.content), np.asarray(seen))

    @given(st.integers(1, 300), st.integers(1, 300))
    def test_the_header_has_a_fixed_length(self, width: int, height: int) -> None:
        """For every size of the image."""
        content = as_ppm(Image.new("RGB", (width, height)))

        assert len(content) == PPM_HEADER_BYTES + 3 * width * height

    def test_a_small_image_is_stored_without_loss(self) -> None:
        """Its pixels are those that TensorFlow would have decoded."""
        content = encode(COLOUR, "PNG")
        checked = stored(content, RAW)

        assert checked == CheckedImage(checked.content, WIDTH, HEIGHT, "PNG", "stored raw")
        np.testing.assert_array_equal(pixels_in_tensorflow(checked.content), seen_by_tensorflow(content))

    def test_transparent_pixels_are_white(self) -> None:
        """As in any other stored image."""
        content = encode(TRANSLUCENT, "PNG")
        checked = stored(content, RAW)

        assert checked.changed == "alpha, stored raw"
        assert np.abs(pixels_in_tensorflow(checked.content) - on_white(content).astype(np.int16)).max() <= 1

    def test_a_image_too_long_for_the_header_is_rejected(self) -> None:
        """The header has five digits per side."""
        content = encode(Image.new("1", (100_000, 2)), "PNG")

        with pytest.raises(
            ImageRejected, match=r"size 100000 x 2, expected at most 99,999 per side for ingest.store = raw"
        ):
            stored(content, RAW)


@pytest.mark.parametrize("settings", [JPEG, RAW], ids=["jpeg", "raw"])
def test_the_perceptual_hash_is_that_of_the_original(settings: Ingest) -> None:
    """Near duplicates are found in every storage format."""
    content = encode(LARGE, "PNG")

    assert stored(content, settings).perceptual_hash == check_image(content, Ingest()).perceptual_hash is not None


def test_raw_pixels_are_shown_as_png() -> None:
    """Browsers cannot show PPM; other formats are unchanged."""
    image = Image.linear_gradient("L").convert("RGB").resize((5, 3))
    ppm = b"P6 %05d %05d 255\n" % image.size + image.tobytes()
    with Image.open(io.BytesIO(for_people(ppm))) as shown:
        assert (shown.format, shown.tobytes()) == ("PNG", image.tobytes())
    assert for_people(b"\xff\xd8\xff") == b"\xff\xd8\xff"
