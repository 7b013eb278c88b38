"""The checker says of a JPEG that it is regular, with the very pixels of libjpeg, or it leaves the file to libjpeg."""

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

from components.ingest.images import Handling, ImageLimits, ImageRejected, check_image
from components.native import build, checker

ROOT = Path(__file__).resolve().parents[2]
Pixels = NDArray[np.uint8]
Photo = Callable[[int, int], Pixels]
Encode = Callable[..., bytes]

REGULAR: dict[str, dict[str, Any]] = {
    "4:2:0": {"subsampling": "4:2:0"},
    "4:2:2": {"subsampling": "4:2:2"},
    "4:4:4": {"subsampling": "4:4:4"},
    "gray": {"mode": "L"},
    "tables of its own": {"optimize": True},
    "much detail": {"quality": 100, "subsampling": "4:4:4"},
    "little detail": {"quality": 5},
    "restart markers": {"restart_marker_blocks": 3},
    "restart markers, gray": {"restart_marker_rows": 1, "mode": "L"},
    "comment and profile": {"comment": b"\xff\xd9 hello", "icc_profile": b"profile" * 20_000},
}
OTHERS: dict[str, dict[str, Any]] = {
    "progressive": {"progressive": True},
    "CMYK": {"mode": "CMYK"},
    "stored as RGB": {"keep_rgb": True},
}
FULL, HEADER = Handling(), Handling(full=False)
SIZES = [(1, 1), (8, 8), (16, 16), (17, 33), (128, 128), (150, 203), (375, 500)]


@pytest.fixture(autouse=True)
def _library() -> None:
    """All of this needs a compiler."""
    if checker._load() is None:
        pytest.skip("the checker is not built")


def libjpegs_gray(content: bytes, width: int, height: int) -> bytes:
    """Returns the image at an eighth of its size, as Pillow has it from libjpeg."""
    return Image.frombytes("L", (-(-width // 8), -(-height // 8)), content, "jpeg", "L", "", 8, 0).tobytes()


def regular_gray(content: bytes) -> bytes | None:
    """Asks for a file that ends with its end marker."""
    with Image.open(io.BytesIO(content)) as image:
        return checker.regular_gray(content, len(content), *image.size)


@pytest.mark.parametrize("kind", REGULAR)
@pytest.mark.parametrize("size", SIZES)
def test_a_whole_image_is_what_libjpeg_makes_of_it(
    photo: Photo, jpeg: Encode, size: tuple[int, int], kind: str
) -> None:
    """Byte for byte, for looks are made of it."""
    height, width = size
    content = jpeg(photo(height, width), **REGULAR[kind])

    assert regular_gray(content) == libjpegs_gray(content, width, height)


@pytest.mark.parametrize("values", ["noise", "black and white"])
def test_extremes_of_gray_are_cut_off_as_in_libjpeg(values: str, jpeg: Encode) -> None:
    """Coarse steps lead beyond black and white."""
    noise = np.random.default_rng(3).integers(0, 256, (160, 200, 3), dtype=np.uint8)
    pixels = (
        noise
        if values == "noise"
        else np.where(noise[::8, ::8] > 127, 255, 0).astype(np.uint8).repeat(8, 0).repeat(8, 1)
    )
    for quality in (1, 3, 10, 50):
        content = jpeg(pixels, quality=quality)

        assert regular_gray(content) == libjpegs_gray(content, pixels.shape[1], pixels.shape[0])


@pytest.mark.parametrize("kind", OTHERS)
def test_rare_kinds_are_left_to_libjpeg(photo: Photo, jpeg: Encode, kind: str) -> None:
    """They are not refused, just not read here."""
    assert regular_gray(jpeg(photo(48, 64), **OTHERS[kind])) is None


@pytest.mark.parametrize("kind", [*REGULAR, "progressive"])
def test_the_header_of_most_images_is_read(photo: Photo, jpeg: Encode, kind: str) -> None:
    """Its size, and where the data begins and ends, whatever stands behind that."""
    content = jpeg(photo(135, 150), **{**REGULAR, **OTHERS}[kind])

    outline = checker.regular_outline(content + b"behind it")

    assert outline is not None
    assert (outline.width, outline.height, outline.end) == (150, 135, len(content))
    assert b"\xff\xda" in content[outline.data - 14 : outline.data]


def test_headers_that_may_turn_a_image_are_left_to_others(photo: Photo, jpeg: Encode) -> None:
    """EXIF says which side is up; CMYK is no colour of TensorFlow's."""
    turned = Image.Exif()
    turned[0x0112] = 6

    assert checker.regular_outline(jpeg(photo(32, 48), exif=turned.tobytes())) is None
    assert checker.regular_outline(jpeg(photo(32, 48), mode="CMYK")) is None


@pytest.fixture(scope="module")
def sound(photo: Photo, jpeg: Encode) -> bytes:
    """A JPEG that is whole."""
    return jpeg(photo(135, 150), quality=80)


def test_no_cut_is_regular(sound: bytes) -> None:
    """With an end marker behind what is left, at whatever byte; and neither is one byte too many."""
    scan = sound.index(b"\xff\xda")
    cut = [sound[:end] + b"\xff\xd9" for end in range(scan, len(sound) - 2)]

    assert [checker.regular_gray(each, len(each), 150, 135) for each in cut] == [None] * len(cut)
    assert checker.regular_gray(sound[:-2] + b"\0\xff\xd9", len(sound) + 1, 150, 135) is None


def test_another_size_than_the_files_is_not_regular(sound: bytes) -> None:
    """Room is made by the size that is told."""
    assert checker.regular_gray(sound, len(sound), 150, 135) is not None
    assert checker.regular_gray(sound, len(sound), 150, 136) is None
    assert checker.regular_gray(sound, len(sound), 8, 8) is None
    assert checker.regular_gray(sound, len(sound) - 1, 150, 135) is None


def test_missing_restarts_are_not_regular(photo: Photo, jpeg: Encode) -> None:
    """Each has its number, and its place."""
    content = jpeg(photo(135, 150), restart_marker_blocks=5)

    assert regular_gray(content) is not None
    assert regular_gray(content.replace(b"\xff\xd2", b"", 1)) is None
    assert regular_gray(content.replace(b"\xff\xd2", b"\xff\xd3", 1)) is None


def damaged(content: bytes, draw: random.Random, earliest: int) -> bytes:
    """Returns a file with a few faults, mostly in its data; with an early one, mostly in its header."""
    file = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        in_data = draw.random() < (0.7 if earliest == 20 else 0.1)
        at = draw.randrange(earliest, len(file) - 2 if in_data else min(700, len(file) - 2))
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
    """Yields small files of all kinds, large enough to be read at an eighth."""
    for kind in (*REGULAR, *OTHERS):
        if kind != "comment and profile":
            yield jpeg(photo(128, 150), **{"quality": 40, **REGULAR.get(kind, {}), **OTHERS.get(kind, {})})


def outcome(content: bytes, handling: Handling = FULL) -> tuple[object, ...]:
    """Returns what a check has to say."""
    try:
        checked = check_image(content, ImageLimits(max_pixels=1_000_000), handling)
    except ImageRejected as error:
        return str(error), error.at
    return checked.width, checked.height, checked.changed, checked.perceptual_hash


@pytest.mark.parametrize(("handling", "earliest"), [(FULL, 20), (HEADER, 2)])
def test_damage_is_judged_as_without_the_checker(
    photo: Photo, jpeg: Encode, monkeypatch: pytest.MonkeyPatch, handling: Handling, earliest: int
) -> None:
    """Four thousand damaged files: the same verdict, the same reason, the same look; and no crash."""
    draw = random.Random(7)
    files = [damaged(seed, draw, earliest) for seed in seeds(photo, jpeg) for _ in range(334)]
    found = [outcome(file, handling) for file in files]
    monkeypatch.setenv(build.SWITCH, "0")
    expected = [outcome(file, handling) for file in files]

    assert found == expected
    assert len(files) > 4_000
    # Enough of them are good and enough are bad.
    assert 0.1 < sum(len(each) == 2 for each in found) / len(files) < 0.8


def test_a_variable_turns_it_off(sound: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any time, and on again."""
    monkeypatch.setenv(build.SWITCH, "0")
    assert regular_gray(sound) is None

    monkeypatch.delenv(build.SWITCH)
    assert regular_gray(sound) is not None


def test_without_a_library_there_is_no_answer(sound: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is built for it, and nothing raises: not if there is none, nor if it is damaged."""
    library = tmp_path / "share" / "penstock" / "native" / build.recipe().key / build.LIBRARY
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    checker._load.cache_clear()
    try:
        assert regular_gray(sound) is None
        assert not library.parent.exists()
        library.parent.mkdir(parents=True)
        library.touch()
        library.with_name(build.CHECKER).write_bytes(b"\x7fELF")
        checker._load.cache_clear()
        assert regular_gray(sound) is None
    finally:
        checker._load.cache_clear()


def test_importing_it_imports_little() -> None:
    """A helper of ingest starts soon."""
    script = "import sys; import components.native.checker as c; c.regular_gray(b'', 0, 1, 1); print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert not {"tensorflow", "keras", "numpy", "PIL"} & set(done.stdout.split())
