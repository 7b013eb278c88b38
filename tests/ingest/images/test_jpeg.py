"""JPEG files: which are kept, which are re-encoded, and which are rejected."""

import io
import struct
from pathlib import Path

import pytest
import tensorflow as tf
from PIL import Image

from components.ingest.images import CheckedImage, ImageRejected, check_image
from components.settings.ingest import Ingest
from tests.ingest.images.conftest import (
    COLOUR,
    GRAY,
    HEIGHT,
    WIDTH,
    check,
    distance,
    encode,
    exif,
    fuzz,
    outcome_and_cost,
    reason,
    seen_by_a_viewer,
    seen_by_tensorflow,
)

# TensorFlow's default inverse cosine transform is the fast one; chroma is upsampled by another formula too.
TOLERANCE = 12
MEAN_TOLERANCE = 1.5
# A second JPEG encoding at quality 95 on top.
REENCODED_TOLERANCE = 20
REENCODED_MEAN_TOLERANCE = 3


def arithmetic_jpeg() -> bytes:
    """Returns a JPEG whose data is read as arithmetic codes: any bytes decode to an image."""
    return encode(COLOUR, "JPEG").replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc9\x00\x11\x08")


KEPT = {
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
    "MPO of two images": encode(COLOUR, "MPO", save_all=True, append_images=[GRAY.convert("RGB")]),
    "one pixel": encode(COLOUR.crop((0, 0, 1, 1)), "JPEG"),
}


class TestKept:
    """JPEG files that are kept."""

    @pytest.mark.parametrize("kind", KEPT)
    def test_same_bytes(self, kind: str) -> None:
        """A JPEG that TensorFlow decodes as a viewer does is stored byte for byte."""
        content = KEPT[kind]
        expected = seen_by_a_viewer(content)

        checked = check(content)

        height, width, _ = expected.shape
        assert checked == CheckedImage(content, width, height, "JPEG", "")
        assert distance(checked.content, expected).max() <= TOLERANCE
        assert distance(checked.content, expected).mean() <= MEAN_TOLERANCE

    def test_arithmetic_codes(self) -> None:
        """An arithmetic-coded JPEG is kept, because TensorFlow's libjpeg decodes it."""
        content = arithmetic_jpeg()

        assert check(content) == CheckedImage(content, WIDTH, HEIGHT, "JPEG", "")
        assert seen_by_tensorflow(content).shape == (HEIGHT, WIDTH, 3)

    def test_flat_colour(self) -> None:
        """A huge flat image, which JPEG compresses best, is accepted."""
        content = encode(Image.new("L", (5000, 5000)), "JPEG", progressive=True)

        assert check(content) == CheckedImage(content, 5000, 5000, "JPEG", "")


class TestRotation:
    """Images that are stored rotated or mirrored."""

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_upright(self, orientation: int) -> None:
        """A JPEG is turned upright in each of the eight orientations, as a JPEG without EXIF."""
        content = encode(COLOUR, "JPEG", quality=95, subsampling=0, exif=exif(orientation))
        expected = seen_by_a_viewer(content)

        checked = check(content)

        height, width, _ = expected.shape
        changed = "EXIF rotation" if orientation > 1 else ""
        assert checked == CheckedImage(checked.content, width, height, "JPEG", changed)
        assert distance(checked.content, expected).max() <= REENCODED_TOLERANCE
        assert distance(checked.content, expected).mean() <= REENCODED_MEAN_TOLERANCE

    def test_xmp(self) -> None:
        """An orientation in XMP alone is applied, as in Pillow."""
        content = encode(COLOUR, "JPEG", xmp=b'<rdf tiff:Orientation="6"/>')

        checked = check(content)

        assert checked == CheckedImage(checked.content, HEIGHT, WIDTH, "JPEG", "EXIF rotation")
        assert distance(checked.content, seen_by_a_viewer(content)).max() <= REENCODED_TOLERANCE

    def test_no_metadata_left(self) -> None:
        """A re-encoded image has neither EXIF nor profile nor comment."""
        content = encode(COLOUR, "JPEG", exif=exif(3), icc_profile=b"profile", comment=b"hello")

        stored = Image.open(io.BytesIO(check(content).content))

        assert stored.info.keys() == {"jfif", "jfif_density", "jfif_unit", "jfif_version"}


class TestConverted:
    """JPEG files that TensorFlow decodes wrongly."""

    @pytest.mark.parametrize("orientation", [1, 8])
    def test_cmyk(self, orientation: int) -> None:
        """A CMYK JPEG becomes an RGB JPEG, upright."""
        content = encode(COLOUR.convert("CMYK"), "JPEG", quality=95, exif=exif(orientation))
        expected = seen_by_a_viewer(content)

        checked = check(content)

        height, width, _ = expected.shape
        changed = "CMYK" if orientation == 1 else "EXIF rotation, CMYK"
        assert checked == CheckedImage(checked.content, width, height, "JPEG", changed)
        assert Image.open(io.BytesIO(checked.content)).mode == "RGB"
        assert distance(checked.content, expected).max() <= REENCODED_TOLERANCE


JPEG = encode(COLOUR, "JPEG")
FRAME = JPEG.index(b"\xff\xc0")
SCAN = JPEG.index(b"\xff\xda")
DAMAGED = {
    "no end": (JPEG[:-2], "JPEG is truncated: no end marker, expected one after the image data"),
    "half": (JPEG[: SCAN + 100], "JPEG is truncated: no end marker, expected one after the image data"),
    "end of a half filled with zeros": (
        JPEG[: SCAN + 100] + bytes(500),
        "JPEG is truncated: no end marker, expected one after the image data",
    ),
    "header only": (JPEG[: SCAN - 9], "JPEG is truncated or corrupt: segment FFC4 at byte {} is not whole"),
    "no data": (JPEG[:SCAN] + b"\xff\xd9", "JPEG without image data, expected a scan before the end marker"),
    "12 bits": (
        JPEG[: FRAME + 4] + b"\x0c" + JPEG[FRAME + 5 :],
        "JPEG of 3 components of 12 bits, expected 1, 3 or 4 of 8",
    ),
    "no height": (JPEG[: FRAME + 5] + bytes(2) + JPEG[FRAME + 7 :], "size 43 x 0, expected at least 1 x 1"),
    "two frames": (JPEG[:FRAME] + JPEG[FRAME : FRAME + 19] + JPEG[FRAME:], "JPEG with 2 frame headers, expected one"),
    "no tables": (
        JPEG[:2] + JPEG[FRAME : FRAME + 19] + JPEG[SCAN:],
        "JPEG cannot be decoded: its data is broken",
    ),
    "lossless kind": (
        JPEG[: FRAME + 1] + b"\xc3" + JPEG[FRAME + 2 :],
        "JPEG of kind FFC3, expected baseline, sequential or progressive",
    ),
}


class TestDamaged:
    """JPEG files that are truncated or corrupt."""

    @pytest.mark.parametrize("kind", DAMAGED)
    def test_rejected(self, kind: str) -> None:
        """Files that TensorFlow cannot decode are rejected with the reason."""
        content, expected = DAMAGED[kind]

        with pytest.raises(tf.errors.InvalidArgumentError):
            seen_by_tensorflow(content)
        assert reason(content) == expected.format(content.rfind(b"\xff\xc4"))

    def test_marker_inside_data(self) -> None:
        """A stray marker is found, after which TensorFlow would decode gray without an error."""
        at = SCAN + 100
        content = JPEG[:at] + b"\xff\xfe\0\2" + JPEG[at:]

        assert seen_by_tensorflow(content).shape == (HEIGHT, WIDTH, 3)
        assert reason(content) == f"JPEG is corrupt: marker FFFE at byte {at} inside its data, expected the end marker"

    @pytest.mark.parametrize("progressive", [False, True])
    def test_every_cut(self, progressive: bool) -> None:
        """A JPEG that is cut at any byte is rejected, although it is decoded at an eighth of its size."""
        content = encode(COLOUR, "JPEG", progressive=progressive)

        for length in range(1, len(content)):
            reason(content[:length])


CUT: dict[str, tuple[dict[str, object], int]] = {
    "4:2:0": ({}, 16),
    "4:4:4": ({"subsampling": "4:4:4"}, 8),
    "restart markers": ({"restart_marker_blocks": 2}, 16),
    "tables of its own": ({"optimize": True}, 16),
}


class TestTruncatedWithEndMarker:
    """Files whose data ends early, followed by an end marker: TensorFlow decodes the rest as gray without an error."""

    @pytest.mark.parametrize("kind", CUT)
    @pytest.mark.parametrize("scale", [1, 6])
    def test_rejected(self, kind: str, scale: int) -> None:
        """They are rejected wherever they were cut except in the last block, decoded in full size or at an eighth."""
        options, block = CUT[kind]
        content = encode(COLOUR.resize((WIDTH * scale, HEIGHT * scale)), "JPEG", **options)
        scan = content.index(b"\xff\xda") + 14
        assert check(content).content == content

        for end in range(scan + (len(content) - scan) // 3, len(content) - 60 * block // 8, 7):
            expected = f"JPEG is truncated or corrupt: its data ends at byte {end}, before the image does"
            cut = content[:end].rstrip(b"\xff") + b"\xff\xd9"
            if len(cut) == end + 2:
                assert reason(cut) == expected

    def test_rejected_when_reencoded(self) -> None:
        """A header check rejects it too, because the image is decoded."""
        content = encode(COLOUR.resize((200, 150)), "JPEG", exif=exif(6))
        end = len(content) * 3 // 4
        with pytest.raises(ImageRejected, match=f"its data ends at byte {end}, before the image does"):
            check_image(content[:end] + b"\xff\xd9", Ingest(image_check="header"))

    @pytest.mark.parametrize("options", [*(each for each, _ in CUT.values()), {"progressive": True}])
    def test_an_image_that_ends_in_gray_is_kept(self, options: dict[str, object]) -> None:
        """A whole image may end in the same gray that libjpeg decodes for missing data."""
        for size in ((40, 50), (200, 150)):
            image = COLOUR.resize(size)
            image.paste((128, 128, 128), (size[0] // 2, size[1] // 2, *size))
            for mode in ("L", "RGB"):
                content = encode(image.convert(mode), "JPEG", **options)
                assert check(content).content == content


def resized(content: bytes, size: tuple[int, int]) -> bytes:
    """Replaces the size in the header, where the height comes first."""
    size_bytes = struct.pack(">HH", HEIGHT, WIDTH)
    assert content.count(size_bytes) == 1
    return content.replace(size_bytes, struct.pack(">HH", *reversed(size)))


WRONG_SIZE = (
    f"JPEG header says 7000 x 7000 but {len(JPEG) - SCAN - 14} bytes of data follow, "
    "expected at least one per 2,000 pixels"
)
BOMBS = {
    "JPEG with a wrong size": (resized(JPEG, (7000, 7000)), WRONG_SIZE),
    "JPEG beyond the limit": (
        resized(JPEG, (65_500, 65_500)),
        "size 65500 x 65500 is 4,290,250,000 pixels, expected at most 50,000,000 (max_pixels)",
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

    def test_many_scans(self) -> None:
        """A progressive JPEG with very many scans, each a pass over all pixels, is rejected."""
        content = encode(COLOUR, "JPEG", progressive=True)
        scan = content[content.rindex(b"\xff\xda") : -2]

        assert reason(content[:-2] + scan * 100 + b"\xff\xd9") == "JPEG of 110 scans, expected at most 100"

    def test_many_segments(self) -> None:
        """A JPEG with very many comments is rejected."""
        content = encode(COLOUR, "JPEG")

        crowded = content[:2] + b"\xff\xfe\0\2" * 10_000 + content[2:]

        assert reason(crowded) == "JPEG of more than 10,000 segments, expected fewer"


SEEDS = {
    **KEPT,
    "arithmetic": arithmetic_jpeg(),
    "rotated": encode(COLOUR, "JPEG", exif=exif(6)),
    "CMYK": encode(COLOUR.convert("CMYK"), "JPEG"),
}


class TestFuzz:
    """Files with random damage, from fixed seeds."""

    @pytest.mark.parametrize("kind", SEEDS)
    def test_mutations(self, kind: str) -> None:
        """A damaged JPEG is rejected, or TensorFlow can decode it."""
        fuzz(kind, SEEDS[kind])
