"""Promise A7: the perceptual hash survives re-encoding, and differs between images."""

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance

from components.ingest.images import check_image
from components.ingest.images.perceptual_hash import perceptual_hash
from components.settings.ingest import Ingest
from tests.ingest.images.conftest import encode, exif

NEAR = 3  # bits; the default of ingest.near_duplicate_bits


def scene(seed: int, size: tuple[int, int] = (320, 240)) -> Image.Image:
    """Draws smooth colours and hard edges."""
    random = np.random.default_rng(seed)
    colours = random.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = Image.fromarray(colours).resize(size, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        left, top, width, height = (int(value) for value in random.integers(5, 120, 4))
        draw.ellipse((left, top, left + width, top + height), fill=tuple(random.integers(0, 256, 3).tolist()))
    return image


def hash_of(content: bytes) -> int:
    """Returns the perceptual hash of a file that has one."""
    found = check_image(content, Ingest()).perceptual_hash
    assert found is not None
    return found


def bits(one: int, other: int) -> int:
    """Returns the number of bits in which two hashes differ."""
    return (one ^ other).bit_count()


COPIES: dict[str, Callable[[Image.Image], bytes]] = {
    "PNG": lambda image: encode(image, "PNG"),
    "palette PNG": lambda image: encode(image.quantize(128), "PNG"),
    "PNG with alpha": lambda image: encode(image.convert("RGBA"), "PNG"),
    "WebP": lambda image: encode(image, "WEBP", quality=80),
    "BMP": lambda image: encode(image, "BMP"),
    "quality 50": lambda image: encode(image, "JPEG", quality=50),
    "progressive": lambda image: encode(image, "JPEG", progressive=True),
    "gray": lambda image: encode(image.convert("L"), "JPEG"),
    "half the size": lambda image: encode(image.resize((160, 120), Image.Resampling.LANCZOS), "JPEG"),
    "a fifth of the size": lambda image: encode(image.resize((64, 48), Image.Resampling.LANCZOS), "JPEG"),
    "twice the size": lambda image: encode(image.resize((640, 480), Image.Resampling.BICUBIC), "JPEG"),
    "brighter": lambda image: encode(ImageEnhance.Brightness(image).enhance(1.05), "JPEG"),
    "rotated with EXIF": lambda image: encode(image.transpose(Image.Transpose.ROTATE_90), "JPEG", exif=exif(6)),
}


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_has_nearly_the_same_hash(kind: str) -> None:
    """In any format, size and quality."""
    scenes = [scene(seed) for seed in range(5)]
    distances = [bits(hash_of(encode(image, "JPEG", quality=92)), hash_of(COPIES[kind](image))) for image in scenes]

    assert max(distances) <= NEAR


def test_other_images_have_other_hashes() -> None:
    """Half of the bits differ by chance; no pair comes near."""
    hashes = [hash_of(encode(scene(seed), "JPEG")) for seed in range(60)]
    distances = [bits(one, other) for place, one in enumerate(hashes) for other in hashes[:place]]

    assert min(distances) > 2 * NEAR


PLAIN = {
    "white": Image.new("RGB", (80, 60), "white"),
    "gradient": Image.linear_gradient("L"),
    "one pixel": Image.new("L", (1, 1)),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_an_image_without_detail_has_no_hash(kind: str) -> None:
    """Blank images are not copies of each other."""
    assert perceptual_hash(PLAIN[kind]) is None


def test_a_hash_has_64_bits() -> None:
    """It is stored as an unsigned 64-bit integer."""
    assert all(0 <= hash_of(encode(scene(seed), "PNG")) < 1 << 64 for seed in range(20))


def test_a_huge_png_has_no_hash() -> None:
    """Decoding it would take more memory than the rest of its check."""
    content = encode(Image.new("L", (5_000, 4_001)), "PNG")

    assert check_image(content, Ingest()).perceptual_hash is None
