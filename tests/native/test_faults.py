"""Damaged records are reported with their index and the reason; unsupported formats are left to TensorFlow."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from components.native.decode.loader import JPEG, OTHER, RAW, DecodeOptions, Ops
from tests.native.conftest import decode, problems

Pixels = NDArray[np.uint8]
Photo = Callable[[int, int], Pixels]
Encode = Callable[..., bytes]

SIZE = (16, 16)
WHOLE = [0, 0, 48, 64]
DATA = 700  # offset within the coded data of a file of 48 x 64 pixels; the tables take 600 bytes


@pytest.fixture(scope="session")
def sound(photo: Photo, jpeg: Encode) -> bytes:
    """An intact JPEG."""
    return jpeg(photo(48, 64), quality=95)


def frame(content: bytes, **claims: int) -> bytes:
    """Returns a JPEG whose frame header claims another height or width."""
    at = content.index(b"\xff\xc0") + 5
    height, width = struct.unpack_from(">HH", content, at)
    claimed = struct.pack(">HH", claims.get("height", height), claims.get("width", width))
    return content[:at] + claimed + content[at + 4 :]


class TestDamage:
    """Records that claim to be JPEGs or raw images."""

    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (lambda file: file[:DATA], "Premature end of JPEG file"),
            (lambda file: file[:DATA] + b"\xff\xd9", "premature end of data segment"),
            (lambda file: file[:DATA] + bytes(900) + b"\xff\xd9", "Corrupt JPEG data"),
            (lambda file: file.replace(b"\xff\xdb", b"\xff\xe9"), "Quantization table 0x00 was not defined"),
            (lambda file: frame(file, width=65_000, height=65_000), "65000 x 65000 pixels, expected at most 50000000"),
            (lambda file: frame(file, width=40), "in an image of 48 x 40, expected one inside it"),
        ],
        ids=["cut", "cut and closed", "blanked", "no table", "claims too much", "claims another width"],
    )
    def test_a_damaged_record_is_reported(
        self, ops: Ops, sound: bytes, damage: Callable[[bytes], bytes], reason: str
    ) -> None:
        """With libjpeg's message."""
        (found,) = problems(ops, [damage(sound)], [WHOLE], [False], SIZE)

        assert reason in found

    def test_the_other_records_of_a_batch_are_decoded(self, ops: Ops, sound: bytes) -> None:
        """A damaged record is black."""
        contents = [sound, sound[:DATA], b"\x89PNG", sound]

        pixels, found = ops.decode_crop_resize(contents, [WHOLE] * 4, [False] * 4, SIZE)

        (expected,) = decode(ops, [sound], [WHOLE], [False], SIZE)
        np.testing.assert_array_equal(pixels.numpy(), np.stack([expected, expected * 0, expected * 0, expected]))
        assert found.numpy().tolist() == [
            b"",
            b"Premature end of JPEG file",
            b"expected a JPEG with 1 or 3 components of 8 bits, or a raw image",
            b"",
        ]

    def test_rows_below_the_box_are_not_read(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """A file that is truncated below the box still decodes."""
        content = jpeg(photo(400, 64))

        whole, cut = decode(ops, [content, content[:-500]], [[0, 0, 32, 64]] * 2, [False] * 2, SIZE)

        np.testing.assert_array_equal(cut, whole)

    @pytest.mark.parametrize(
        "oddity",
        [
            lambda file: file[:20] + b"stray" + file[20:],
            lambda file: file[:2] + b"\xff\xff\xff" + file[2:],
            lambda file: file[:-2] + b"\xff\xff\xff\xd9 and more",
            lambda file: file.replace(b"JFIF\0\x01", b"JFIF\0\x09", 1),
            lambda file: file[:2] + b"\xff\xee\x00\x0eAdobe\0\x64\0\0\0\0\x09" + file[2:],
        ],
        ids=["stray bytes", "fill bytes", "bytes after the end", "version of JFIF", "version of Adobe"],
    )
    def test_harmless_oddities_are_ignored(self, ops: Ops, sound: bytes, oddity: Callable[[bytes], bytes]) -> None:
        """As TensorFlow does."""
        content = oddity(sound)
        expected = tf.image.resize(tf.io.decode_jpeg(content, channels=3), SIZE)

        (found,) = decode(ops, [content], [WHOLE], [False], SIZE)

        assert np.abs(found - expected.numpy()).max() <= 1

    def test_memory_does_not_grow_with_faults(self, ops: Ops, sound: bytes) -> None:
        """A failed decode frees everything."""
        import psutil

        contents = [sound[:DATA], sound[:100], frame(sound, width=9000, height=5000)] * 100
        process = psutil.Process()

        def used() -> int:
            ops.decode_crop_resize(contents, [WHOLE] * 300, [False] * 300, SIZE)
            return process.memory_info().rss

        before = [used() for _ in range(3)][-1]

        assert [used() for _ in range(10)][-1] < before + 8_000_000


class TestBoxes:
    """Boxes are checked against the image, never trusted."""

    @pytest.mark.parametrize(
        "box",
        [
            [0, 0, 49, 64], [0, 0, 48, 65], [-1, 0, 8, 8], [0, -1, 8, 8], [0, 0, 0, 8], [0, 0, 8, -8],
            [48, 64, 1, 1], [2**31 - 1, 0, 8, 8], [1, 1, 2**31 - 1, 2**31 - 1], [-(2**31), 0, -(2**31), 8],
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("kind", ["JPEG", "raw"])
    def test_a_box_outside_the_image_is_rejected(
        self, ops: Ops, sound: bytes, photo: Photo, raw: Callable[[Pixels], bytes], kind: str, box: list[int]
    ) -> None:
        """The message gives the box and the size of the image."""
        content = sound if kind == "JPEG" else raw(photo(48, 64))
        top, left, height, width = box
        expected = f"box of {height} x {width} at ({top}, {left}) in an image of 48 x 64, expected one inside it"

        assert problems(ops, [content], [box], [False], SIZE) == [expected]

    @pytest.mark.parametrize(("boxes", "flips"), [([WHOLE] * 3, [True] * 2), ([WHOLE] * 2, [True] * 3)])
    def test_one_box_and_one_flip_per_record(self, ops: Ops, sound: bytes, boxes: Any, flips: Any) -> None:
        """Other numbers are an error, not a crash."""
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"expected|must be equal"):
            ops.decode_crop_resize([sound] * 2, boxes, flips, SIZE)

    def test_large_images_are_rejected_by_their_header(self, ops: Ops, sound: bytes) -> None:
        """The caller sets the limit."""
        found = problems(ops, [sound], [WHOLE], [False], SIZE, DecodeOptions(max_pixels=3071))

        assert found == ["48 x 64 pixels, expected at most 3071"]


class TestShapes:
    """Sizes and formats from headers."""

    def test_each_format_is_identified(
        self, ops: Ops, photo: Photo, jpeg: Encode, raw: Callable[[Pixels], bytes]
    ) -> None:
        """JPEGs of one or three components and raw images are decoded here; TensorFlow decodes the others."""
        pixels = photo(48, 64)
        contents = {
            "JPEG": (jpeg(pixels), [48, 64, JPEG]),
            "gray JPEG": (jpeg(pixels, mode="L"), [48, 64, JPEG]),
            "progressive JPEG": (jpeg(pixels, progressive=True), [48, 64, JPEG]),
            "JPEG with a thumbnail": (jpeg(pixels, exif=b"Exif\0\0" + jpeg(photo(9, 9))), [48, 64, JPEG]),
            "raw": (raw(pixels), [48, 64, RAW]),
            "CMYK JPEG": (jpeg(pixels, mode="CMYK"), [48, 64, OTHER]),
            "PNG": (jpeg(pixels, kind="PNG"), [48, 64, OTHER]),
            "GIF": (jpeg(pixels, kind="GIF"), [0, 0, OTHER]),
            "BMP": (jpeg(pixels, kind="BMP"), [0, 0, OTHER]),
            "WebP": (jpeg(pixels, kind="WEBP"), [0, 0, OTHER]),
            "nothing": (b"", [0, 0, OTHER]),
            "HTML": (b"<html>", [0, 0, OTHER]),
            "JPEG's first bytes": (b"\xff\xd8\xff", [0, 0, OTHER]),
            "arithmetic JPEG": (jpeg(pixels).replace(b"\xff\xc0", b"\xff\xc9"), [48, 64, OTHER]),
            "JPEG of 12 bits": (jpeg(pixels).replace(b"\xff\xc0\0\x11\x08", b"\xff\xc0\0\x11\x0c"), [48, 64, OTHER]),
            "JPEG without a height": (frame(jpeg(pixels), height=0), [0, 0, OTHER]),
            "raw, cut": (raw(pixels)[:-1], [0, 0, OTHER]),
            "raw, longer": (raw(pixels) + b"\0", [0, 0, OTHER]),
            "PPM of another program": (b"P6 64 48 255\n" + pixels.tobytes(), [0, 0, OTHER]),
        }

        found = ops.shapes([content for content, _ in contents.values()]).numpy().tolist()

        assert dict(zip(contents, found, strict=True)) == {name: shape for name, (_, shape) in contents.items()}

    def test_other_formats_are_rejected(self, ops: Ops, photo: Photo, jpeg: Encode) -> None:
        """The op does not decode what `shapes` calls OTHER."""
        contents = [jpeg(photo(48, 64), kind="TIFF"), jpeg(photo(48, 64), mode="CMYK")]

        assert problems(ops, contents, [WHOLE] * 2, [False] * 2, SIZE) == [
            "expected a JPEG with 1 or 3 components of 8 bits, or a raw image",
            "expected a Huffman-coded JPEG with 1 or 3 components of 8 bits",
        ]
