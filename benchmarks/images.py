"""Images that cost a decoder what photos cost: made from a seed, so that no data set needs to be fetched.

    noise of eight octaves, nearly equal in strength (as in photos) + gradient + shapes with hard edges + grain

About 78 KB each (55 to 115) at quality 90, 4:2:0, 500 x 375 pixels: 3.3 bits per pixel. Entropy decoding takes most of
a JPEG's time, so bits per pixel decide.
"""

import io
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from data import digits

QUALITY = 90
CLASSES = 10
_PARTS, _TARS = 20, 16
_LONG, _SHORT = 500, 375
_UPRIGHT = 0.25  # fraction of portraits

Plane = npt.NDArray[np.float32]


@dataclass(frozen=True)
class EncodedImage:
    """One JPEG file."""

    number: int
    label: int
    content: bytes


def write(home: Path, rows: int) -> None:
    """Writes `files`, one folder per class, and `tars`, the same as archives for webdataset."""
    for label in range(CLASSES):
        (home / "files" / f"class-{label}").mkdir(parents=True)
    (home / "tars").mkdir()
    edges = [rows * index // _PARTS for index in range(_PARTS + 1)]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_write_files, [home / "files"] * _PARTS, [range(*ends) for ends in pairwise(edges)]))
    files = sorted((home / "files").rglob("*.jpg"), key=lambda path: path.name)
    for index in range(_TARS):
        _write_tar(home / "tars" / f"{index:02d}.tar", files[index::_TARS])


def write_digits(home: Path, rows: int) -> None:
    """Writes the handwritten digits of the quick start: 32 x 32 pixels, PNG and JPEG in turn."""
    digits.write_image_folder(home / "files", rows)


def images(numbers: range, seed: int = 5) -> Iterator[EncodedImage]:
    """Yields the images of these numbers; each depends on its number alone, so parts can be made apart."""
    for number in numbers:
        random = np.random.default_rng([seed, number])
        label = int(random.integers(CLASSES))
        yield EncodedImage(number, label, encode(draw(random)))


def draw(random: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Draws one image."""
    height, width = (_LONG, _SHORT) if random.random() < _UPRIGHT else (_SHORT, _LONG)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    slope = x * random.uniform(-1, 1) / width + y * random.uniform(-1, 1) / height
    light = _octaves(random, height, width, random.uniform(0.9, 1.15))
    colour = _octaves(random, height, width, 0.85)
    base, tint, strength = random.uniform(60, 190, 3), random.uniform(-80, 80, 3), random.uniform(-12, 12, 3)
    planes = [base[c] + tint[c] * slope + 17 * light + strength[c] * colour for c in range(3)]
    pixels = np.stack(planes, axis=-1)
    for _ in range(random.integers(4, 12)):
        _add_shape(random, pixels, x, y)
    pixels += random.standard_normal((height, width, 1)) * random.uniform(1, 6)
    return pixels.clip(0, 255).astype(np.uint8)


def encode(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Returns a JPEG as a camera or a web site would write it."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=QUALITY, subsampling="4:2:0")
    return stream.getvalue()


def _octaves(random: np.random.Generator, height: int, width: int, falloff: float) -> Plane:
    """Returns noise of all sizes, each octave `falloff` as strong as the one before it."""
    total, cells, strength = np.zeros((height, width), np.float32), 2, 1.0
    while cells < max(height, width):
        grid = random.standard_normal((max(2, cells * height // width), cells)).astype(np.float32)
        total += strength * np.asarray(Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC))
        cells, strength = cells * 2, strength * falloff
    return total


def _add_shape(random: np.random.Generator, pixels: npt.NDArray[np.float32], x: Plane, y: Plane) -> None:
    height, width = x.shape
    turn = random.uniform(0, np.pi)
    right, down = x - random.uniform(0, width), y - random.uniform(0, height)
    u = (right * np.cos(turn) + down * np.sin(turn)) / random.uniform(10, width / 3)
    v = (down * np.cos(turn) - right * np.sin(turn)) / random.uniform(10, height / 3)
    inside = u * u + v * v < 1 if random.random() < 0.5 else np.maximum(abs(u), abs(v)) < 1  # noqa: PLR2004 - a coin
    pixels[inside] *= random.uniform(0.3, 0.9)
    pixels[inside] += random.uniform(0, 100, 3)


def _write_files(home: Path, numbers: range) -> None:
    for image in images(numbers):
        (home / f"class-{image.label}" / f"{image.number:06d}.jpg").write_bytes(image.content)


def _write_tar(target: Path, files: Sequence[Path]) -> None:
    with tarfile.open(target, "w") as tar:
        for file in files:
            label = file.parent.name.rpartition("-")[2]
            for suffix, content in (("jpg", file.read_bytes()), ("cls", label.encode())):
                member = tarfile.TarInfo(f"{file.stem}.{suffix}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
