"""Promises A4 and A5: training sees what a viewer shows, or the file is quarantined with a reason.

Every accepted content is decoded by `tf.io.decode_image` and compared, pixel by pixel, with what Pillow shows. Tests
import these images instead of using fixtures, because their cases are built at collection.
"""

import io
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from components.ingest.images import CheckedImage, ImageRejected, check_image
from components.settings.ingest import Ingest

Pixels = npt.NDArray[np.uint8]

WIDTH, HEIGHT = 43, 37
COLOURS = np.random.default_rng(7).integers(0, 256, (5, 6, 3), dtype=np.uint8)
COLOUR = Image.fromarray(COLOURS).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
GRAY = COLOUR.convert("L")
ALPHA = Image.fromarray(np.tile(np.arange(WIDTH, dtype=np.uint8) * 6, (HEIGHT, 1)))
TRANSLUCENT = Image.merge("RGBA", [*COLOUR.split(), ALPHA])


def encode(image: Image.Image, file_format: str, **options: object) -> bytes:
    """Returns the image as a file."""
    out = io.BytesIO()
    image.save(out, file_format, **options)
    return out.getvalue()


def exif(orientation: int) -> Image.Exif:
    """Returns an EXIF block with an orientation only."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


# PNG files by hand, because Pillow writes only some kinds

SIGNATURE = b"\x89PNG\r\n\x1a\n"
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(name: bytes, body: bytes) -> bytes:
    """Returns a PNG chunk with its checksum."""
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
    """Inserts chunks before and after the image data."""
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
    """Returns a PNG with these rows, each with its filter byte."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, interlace))
    return SIGNATURE + header + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def noise_rows(bits: int, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    """Returns rows of random pixels, each with a random filter."""
    noise = np.random.default_rng([bits, width, height])
    length = (width * bits + 7) // 8
    return b"".join(bytes([noise.integers(5)]) + noise.bytes(length) for _ in range(height))


def interlaced_rows(bits: int) -> bytes:
    """Returns the rows of the seven passes."""
    sizes = [(len(range(x, WIDTH, dx)), len(range(y, HEIGHT, dy))) for x, y, dx, dy in ADAM7]
    return b"".join(noise_rows(bits, width, height) for width, height in sizes)


def palette(colours: int) -> bytes:
    """Returns a PLTE chunk of random colours."""
    return chunk(b"PLTE", np.random.default_rng(colours).bytes(3 * colours))


def filtered(pixels: npt.NDArray[np.generic]) -> bytes:
    """Returns rows with the filter "none"."""
    return b"".join(b"\0" + row.tobytes() for row in pixels)


# What TensorFlow and a viewer show


def seen_by_tensorflow(content: bytes) -> Pixels:
    """Returns the pixels that training gets."""
    pixels: Pixels = tf.io.decode_image(content, channels=3, expand_animations=False).numpy()
    return pixels


def seen_by_a_viewer(content: bytes) -> Pixels:
    """Returns the pixels of the first frame, upright, on a white background."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    background = Image.new("RGBA", image.size, "white")
    return np.asarray(Image.alpha_composite(background, image.convert("RGBA")).convert("RGB"))


def on_white(content: bytes) -> Pixels:
    """Returns the pixels of a transparent image on a white background."""
    shown = np.asarray(Image.open(io.BytesIO(content)).convert("RGBA"))
    alpha = shown[..., 3:] / 255
    return np.round(shown[..., :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)


def distance(content: bytes, expected: Pixels) -> Pixels:
    """Returns the differences between TensorFlow's pixels and the expected ones."""
    found = seen_by_tensorflow(content)
    assert found.shape == expected.shape
    return np.abs(found.astype(np.int16) - expected).astype(np.uint8)


def check(content: bytes) -> CheckedImage:
    """Checks with the default limits."""
    return check_image(content, Ingest())


def reason(content: bytes, settings: Ingest | None = None) -> str:
    """Returns why `content` is rejected."""
    with pytest.raises(ImageRejected) as rejected:
        check_image(content, settings or Ingest())
    message = str(rejected.value)
    assert message.isprintable()
    return message


# Cost

MEASURE = """
import sys
from components.ingest.images import ImageRejected, check_image
from components.settings.ingest import Ingest

def peak():  # not ru_maxrss, which starts from the peak of the parent process
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

with open(sys.argv[1], "rb") as file:
    content = file.read()
before = peak()
try:
    print(check_image(content, Ingest()).changed or "kept")
except ImageRejected as error:
    print(error)
print(peak() - before)
"""


def outcome_and_cost(content: bytes, folder: Path, measure: str = MEASURE) -> tuple[str, int]:
    """Returns the result of checking `content` in a separate process, and the rise of its peak memory in KB."""
    file = folder / "image"
    file.write_bytes(content)
    run = subprocess.run([sys.executable, "-c", measure, str(file)], capture_output=True, text=True, check=True)
    assert run.stderr == ""  # no DecompressionBombWarning either
    outcome, cost = run.stdout.splitlines()
    return outcome, int(cost)


# Damage


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Returns `content` with one to five bits, bytes or ranges changed or removed."""
    damaged = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 3, 5])):
        if not damaged:
            break
        # Headers are short and matter most.
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


def fuzz(kind: str, content: bytes, damage: Callable[[bytes, random.Random], bytes] = mutated) -> None:
    """Checks that a damaged file is rejected, or that TensorFlow decodes it to the size in the result."""
    draw = random.Random(kind)
    for _ in range(30):
        try:
            checked = check_image(damage(content, draw), Ingest(max_pixels=4_000_000))
        except ImageRejected:
            continue
        assert seen_by_tensorflow(checked.content).shape == (checked.height, checked.width, 3)
