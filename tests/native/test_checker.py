"""The checker returns exactly libjpeg's pixels for a regular JPEG, and leaves every other file to libjpeg."""

import io
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from components.ingest.images import CheckedImage, ImageRejected, check_image
from components.native import build
from components.native.check import checker
from components.settings.ingest import Ingest

ROOT = Path(__file__).resolve().parents[2]
Pixels = NDArray[np.uint8]
Photo = Callable[[int, int], Pixels]
Encode = Callable[..., bytes]

REGULAR: dict[str, dict[str, Any]] = {
    "4:2:0": {"subsampling": "4:2:0"},
    "4:2:2": {"subsampling": "4:2:2"},
    "4:4:4": {"subsampling": "4:4:4"},
    "gray": {"mode": "L"},
    "stored as RGB": {"keep_rgb": True},
    "own tables": {"optimize": True},
    "much detail": {"quality": 100, "subsampling": "4:4:4"},
    "little detail": {"quality": 5},
    "restart markers": {"restart_marker_blocks": 3},
    "restart markers, gray": {"restart_marker_rows": 1, "mode": "L"},
    "comment and profile": {"comment": b"\xff\xd9 hello", "icc_profile": b"profile" * 20_000},
}
OTHERS: dict[str, dict[str, Any]] = {
    "progressive": {"progressive": True},
    "CMYK": {"mode": "CMYK"},
}
SIZES = [(1, 1), (8, 8), (16, 16), (17, 33), (128, 128), (150, 203), (375, 500)]


@pytest.fixture(autouse=True)
def _library() -> None:
    """Skips without a compiler."""
    if checker._load() is None:
        pytest.skip("the checker is not built")


def libjpegs_gray(content: bytes, width: int, height: int) -> bytes:
    """Returns the image at an eighth of its size as Pillow decodes it with libjpeg."""
    return Image.frombytes("L", (-(-width // 8), -(-height // 8)), content, "jpeg", "L", "", 8, 0).tobytes()


def regular_gray(content: bytes) -> bytes | None:
    """Checks a file that ends with its end marker."""
    with Image.open(io.BytesIO(content)) as image:
        return checker.regular_gray(content, len(content), *image.size)


@pytest.mark.parametrize("kind", REGULAR)
def test_a_regular_image_has_the_pixels_of_libjpeg(photo: Photo, jpeg: Encode, kind: str) -> None:
    """Byte for byte, at every size: perceptual hashes are computed from it."""
    for height, width in SIZES:
        content = jpeg(photo(height, width), **REGULAR[kind])

        assert regular_gray(content) == libjpegs_gray(content, width, height), (height, width)


@pytest.mark.parametrize("values", ["noise", "black and white"])
def test_extreme_values_are_clipped_as_in_libjpeg(values: str, jpeg: Encode) -> None:
    """Coarse quantization leads beyond black and white."""
    noise = np.random.default_rng(3).integers(0, 256, (160, 200, 3), dtype=np.uint8)
    squares = np.where(noise[::8, ::8] > 127, 255, 0).astype(np.uint8).repeat(8, 0).repeat(8, 1)
    pixels = noise if values == "noise" else squares
    for quality in (1, 3, 10, 50):
        content = jpeg(pixels, quality=quality)

        assert regular_gray(content) == libjpegs_gray(content, pixels.shape[1], pixels.shape[0])


@pytest.mark.parametrize("kind", OTHERS)
def test_rare_kinds_are_left_to_libjpeg(photo: Photo, jpeg: Encode, kind: str) -> None:
    """They are valid, but not read by the checker."""
    assert regular_gray(jpeg(photo(48, 64), **OTHERS[kind])) is None


@pytest.fixture(scope="module")
def intact(photo: Photo, jpeg: Encode) -> bytes:
    """An intact JPEG of 150 x 135 pixels."""
    return jpeg(photo(135, 150), quality=80)


def test_no_truncated_file_is_regular(intact: bytes) -> None:
    """Cut at any byte and closed with an end marker; nor is a file with one byte too many."""
    scan = intact.index(b"\xff\xda")
    cut = [intact[:end] + b"\xff\xd9" for end in range(scan, len(intact) - 2)]

    assert [checker.regular_gray(file, len(file), 150, 135) for file in cut] == [None] * len(cut)
    assert checker.regular_gray(intact[:-2] + b"\0\xff\xd9", len(intact) + 1, 150, 135) is None


def test_a_file_of_another_size_is_not_regular(intact: bytes) -> None:
    """The caller's size decides how large the buffer is."""
    assert checker.regular_gray(intact, len(intact), 150, 135) is not None
    assert checker.regular_gray(intact, len(intact), 150, 136) is None
    assert checker.regular_gray(intact, len(intact), 8, 8) is None
    assert checker.regular_gray(intact, len(intact) - 1, 150, 135) is None


def test_a_missing_restart_marker_is_not_regular(photo: Photo, jpeg: Encode) -> None:
    """Each marker has its number and its place."""
    content = jpeg(photo(135, 150), restart_marker_blocks=5)

    assert regular_gray(content) is not None
    assert regular_gray(content.replace(b"\xff\xd2", b"", 1)) is None
    assert regular_gray(content.replace(b"\xff\xd2", b"\xff\xd3", 1)) is None


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Returns a file with one to five faults, mostly in its coded data."""
    file = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        at = draw.randrange(20, len(file) - 2 if draw.random() < 0.7 else min(700, len(file) - 2))
        kind = draw.randrange(6)
        if kind <= 2:
            file[at] ^= 1 << draw.randrange(8)
        elif kind == 3:
            file[at] = draw.choice([0, 1, 254, 255])
        elif kind == 4:
            del file[at : min(at + draw.randrange(1, 30), len(file) - 2)]
        else:
            file[at:at] = draw.choice([b"\xff\xd0", b"\xff\xd9", b"\xff\xff", b"\0", draw.randbytes(5)])
    return bytes(file)


def seeds(photo: Photo, jpeg: Encode) -> Iterator[bytes]:
    """Yields small files of all kinds, large enough to be decoded at an eighth of the size."""
    for kind in (*REGULAR, *OTHERS):
        if kind != "comment and profile":
            yield jpeg(photo(128, 150), **{"quality": 40, **REGULAR.get(kind, {}), **OTHERS.get(kind, {})})


def outcome(content: bytes, *, hashed: bool = True) -> object:
    """Returns the checked image, or the reason for rejecting it and the position."""
    try:
        return check_image(content, Ingest(max_pixels=1_000_000), hashed=hashed)
    except ImageRejected as error:
        return str(error), error.at


def test_the_verdict_on_damaged_files_is_that_of_libjpeg(
    photo: Photo, jpeg: Encode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four thousand damaged files: equal verdicts, reasons and perceptual hashes, and no crash."""
    draw = random.Random(7)
    files = [damaged(seed, draw) for seed in seeds(photo, jpeg) for _ in range(334)]
    found = [outcome(file) for file in files]
    monkeypatch.setenv(build.SWITCH, "0")
    expected = [outcome(file) for file in files]

    assert found == expected
    assert len(files) > 4_000
    # Enough files are accepted and enough are rejected.
    assert 0.1 < sum(isinstance(each, tuple) for each in found) / len(files) < 0.8


def test_the_verdict_on_small_files_is_the_same_without_a_hash(photo: Photo, jpeg: Encode) -> None:
    """With a hash they are decoded by libjpeg, at more than an eighth of the size; the reasons are equal, too."""
    draw = random.Random(8)
    whole = [jpeg(photo(*size), **kind) for size in [(33, 47), (8, 9)] for kind in REGULAR.values()]
    files = [*whole, *(damaged(file, draw) for file in whole if len(file) > 750 for _ in range(60))]

    found = [outcome(file, hashed=False) for file in files]

    assert found == [outcome(file) for file in files]
    assert all(isinstance(each, CheckedImage) and each.perceptual_hash is None for each in found[: len(whole)])
    assert 0.1 < sum(isinstance(each, tuple) for each in found) / len(files) < 0.8


def test_an_environment_variable_turns_it_off(intact: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read at every call."""
    monkeypatch.setenv(build.SWITCH, "0")
    assert regular_gray(intact) is None

    monkeypatch.delenv(build.SWITCH)
    assert regular_gray(intact) is not None


@pytest.mark.parametrize("library", ["missing", "damaged"])
def test_without_a_library_libjpeg_decides(
    intact: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str
) -> None:
    """Nothing is built, and nothing raises."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    path = build.place(build.CHECK)
    if library == "damaged":
        path.parent.mkdir(parents=True)
        path.write_bytes(b"\x7fELF")
    checker._load.cache_clear()
    try:
        assert regular_gray(intact) is None
        assert path.exists() == (library == "damaged")
    finally:
        checker._load.cache_clear()


def test_importing_it_imports_neither_tensorflow_nor_numpy() -> None:
    """So that helper processes of ingest start fast."""
    script = (
        "import sys; import components.native.check.checker as c; c.regular_gray(b'', 0, 1, 1); print(*sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert not {"tensorflow", "keras", "numpy", "PIL"} & set(done.stdout.split())
