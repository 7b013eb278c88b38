"""A check of the header alone: what it finds, what it does not find, and what is decoded nevertheless."""

import pytest
from PIL import Image

from components.ingest.images import CheckedImage, ImageRejected, check_image
from components.settings.ingest import Ingest
from tests.ingest.images.conftest import COLOUR, GRAY, HEIGHT, TRANSLUCENT, WIDTH, encode, exif, noise_rows, raw_png

HEADER = Ingest(image_check="header")
JPEG, PNG = encode(COLOUR, "JPEG", quality=95), encode(COLOUR, "PNG")


def reason(content: bytes, settings: Ingest = HEADER) -> str:
    """Returns why a header check rejects `content`."""
    with pytest.raises(ImageRejected) as rejected:
        check_image(content, settings)
    return str(rejected.value)


KEPT = {
    "JPEG": JPEG,
    "PNG": PNG,
    "JPEG progressive": encode(COLOUR, "JPEG", progressive=True),
    "JPEG with bytes after its end": JPEG + b"junk",
    "JPEG with a profile": encode(COLOUR, "JPEG", icc_profile=b"profile" * 30_000, comment=b"\xff\xd9"),
    "PNG gray": encode(GRAY, "PNG"),
}


@pytest.mark.parametrize("kind", KEPT)
def test_images_that_are_kept_are_not_decoded(kind: str) -> None:
    """Size and format are known, the bytes are kept, and there is no perceptual hash."""
    checked = check_image(KEPT[kind], HEADER)

    assert checked == CheckedImage(KEPT[kind], WIDTH, HEIGHT, kind.partition(" ")[0], "")
    assert checked.perceptual_hash is None


def damaged(content: bytes, at: int) -> bytes:
    """Overwrites some bytes."""
    return content[:at] + b"\x12\x34\x56\x78" * 8 + content[at + 32 :]


@pytest.mark.parametrize("content", [JPEG[:-200] + b"\xff\xdb" + JPEG[-198:], damaged(PNG, PNG.index(b"IDAT") + 100)])
def test_damage_inside_the_data_is_not_found(content: bytes) -> None:
    """A full check rejects these files."""
    with pytest.raises(ImageRejected):
        check_image(content, Ingest())

    assert check_image(content, HEADER).content == content


SIZE = JPEG.index(b"\xff\xc0") + 5
DATA = len(JPEG) - JPEG.index(b"\xff\xda") - 14
REJECTED = {
    "no image": (
        b"<html>",
        "not an image: starts with '<html>', expected JPEG, PNG, GIF, WebP, AVIF, JPEG 2000, BMP or TIFF",
    ),
    "truncated JPEG": (JPEG[:-2], "JPEG is truncated: no end marker, expected one after the image data"),
    "JPEG truncated in its header": (
        JPEG[: SIZE + 3],
        f"JPEG is truncated or corrupt: segment FFC0 at byte {SIZE - 5} is not whole",
    ),
    "JPEG with a wrong size": (
        JPEG[:SIZE] + b"\x1a\x00\x1a\x00" + JPEG[SIZE + 4 :],
        f"JPEG header says 6656 x 6656 but {DATA:,} bytes of data follow, expected at least one per 2,000 pixels",
    ),
    "truncated PNG": (PNG[:-6], "PNG is truncated: the file ends without an IEND chunk"),
}


@pytest.mark.parametrize("kind", REJECTED)
def test_faults_in_the_header_are_rejected(kind: str) -> None:
    """The reason is that of a full check."""
    content, expected = REJECTED[kind]

    assert reason(content) == expected


def test_limits() -> None:
    """The limits of a full check hold."""
    expected = "size 43 x 37 is 1,591 pixels, expected at most 1,590 (max_pixels)"

    assert [reason(content, Ingest(image_check="header", max_pixels=1_590)) for content in (JPEG, PNG)] == [
        expected,
        expected,
    ]


CHANGED = {
    "EXIF rotation": encode(COLOUR, "JPEG", exif=exif(6)),
    "CMYK": encode(COLOUR.convert("CMYK"), "JPEG"),
    "PNG with alpha": encode(TRANSLUCENT, "PNG"),
    "GIF": encode(COLOUR, "GIF"),
    "WebP": encode(COLOUR, "WEBP"),
    "BMP": encode(COLOUR, "BMP"),
    "TIFF": encode(COLOUR, "TIFF"),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_images_that_need_correction_are_decoded(kind: str) -> None:
    """The result is that of a full check."""
    assert check_image(CHANGED[kind], HEADER) == check_image(CHANGED[kind], Ingest())


def test_damage_in_images_that_need_correction_is_found() -> None:
    """They are decoded, which fails; a PNG with missing rows, too."""
    content = encode(Image.effect_noise((200, 200), 90), "WEBP", lossless=True)

    assert reason(content[: len(content) // 2]).startswith("WEBP cannot be decoded: ")
    assert reason(raw_png(8, 6, noise_rows(32)[:-173])) == "PNG is corrupt: 6,228 bytes of image, expected 6,401"
