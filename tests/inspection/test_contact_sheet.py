"""The contact sheet."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from components.errors import SettingsError
from data import digits
from pipelines.inspection import NO_SHEET, inspect
from pipelines.inspection.contact_sheet import MAX_IMAGES, ContactSheet
from tests.inspection.conftest import image_file, inspected


@pytest.mark.slow
def test_digits() -> None:
    """64 images of all classes, and no tile is empty."""
    digits.write_image_folder(Path("digits"), limit=120)

    assert "sheet    64 images in sheet.png" in inspected("digits", sheet=Path("sheet.png"))
    with Image.open("sheet.png") as sheet:
        pixels = np.asarray(sheet.convert("L"))
    assert pixels.shape == (1146, 986)
    tiles = [pixels[y : y + 112, x : x + 112] for y in range(10, 1146, 142) for x in range(10, 986, 122)]
    assert len(tiles) == MAX_IMAGES
    assert min(tile.std() for tile in tiles) > 60  # plenty of black and of white


def test_classes_take_turns() -> None:
    """One colour per class: its place on the sheet, and its name below."""
    colours = {"blue": (0, 0, 200), "green": (0, 200, 0), "red": (200, 0, 0)}
    for label, colour in colours.items():
        Path("set", label).mkdir(parents=True)
        for number in range(2):
            Path("set", label, f"{number}.png").write_bytes(image_file(colour))

    inspected("set", sheet=Path("sheet.png"))

    with Image.open("sheet.png") as sheet:
        seen = [sheet.getpixel((10 + 122 * place + 56, 10 + 56)) for place in range(6)]
        ink = [sheet.crop((10 + 122 * place, 124, 122 + 122 * place, 142)).convert("L") for place in range(6)]
        assert sheet.size == (742, 152)
    assert seen == [*colours.values()] * 2
    assert all(line.getextrema()[0] < 100 for line in ink)  # type: ignore[operator]
    assert ink[0].tobytes() == ink[3].tobytes() != ink[1].tobytes()


def test_images_of_a_table() -> None:
    """A Parquet column of image files, one broken and one missing."""
    images = [image_file((9, 9, 9)), b"broken", None, image_file((99, 99, 99))]
    pq.write_table(pa.table({"image": images, "label": ["a", "a", "b", "b"]}), "rows.parquet")

    assert "2 images in sheet.png" in inspected("rows.parquet", sheet=Path("sheet.png"))
    with Image.open("sheet.png") as sheet:
        assert [sheet.getpixel((66 + 122 * place, 66)) for place in range(2)] == [(9, 9, 9), (99, 99, 99)]


def test_images_of_arrays() -> None:
    """Gray, with one channel, or in colour; small arrays and floats are not images."""
    gray = np.full((2, 9, 9), 50, np.uint8)
    cases: dict[str, tuple[Any, tuple[int, ...] | None]] = {
        "gray": (gray, (50, 50, 50)),
        "channel": (gray[..., np.newaxis], (50, 50, 50)),
        "colours": (np.full((2, 9, 9, 3), (10, 20, 30), np.uint8), (10, 20, 30)),
        "small": (gray[:, :7], None),
        "float": (gray.astype(np.float32), None),
    }
    for name, (pixels, colour) in cases.items():
        np.savez(f"{name}.npz", x=pixels, y=np.array([3, 4]))
        assert (NO_SHEET in inspected(f"{name}.npz")) == (colour is not None), name
        if colour:
            assert "2 images in" in inspected(f"{name}.npz", sheet=Path(f"{name}.png"))
            with Image.open(f"{name}.png") as sheet:
                assert [sheet.getpixel((66 + 122 * place, 66)) for place in range(2)] == [colour] * 2


def test_classes_have_equal_shares() -> None:
    """In any order; images that are not wanted are not loaded."""
    sheet, loaded = ContactSheet(), []

    def load(label: str) -> bytes:
        loaded.append(label)
        return image_file((1, 2, 3))

    for label, count in (("many", 1000), ("few", 3), ("some", 100)):
        for _ in range(count):
            sheet.offer(label, lambda label=label: load(label))  # type: ignore[misc]

    labels = [label for label, _ in sheet.images()]
    assert {label: labels.count(label) for label in set(labels)} == {"many": 31, "few": 3, "some": 30}
    assert labels[:7] == ["few", "many", "some", "few", "many", "some", "few"]
    assert len(loaded) == 64 + 3 + 30


def test_unusual_images() -> None:
    """Wide, 16-bit and transparent images are shown as training sees them."""
    deep, clear = io.BytesIO(), io.BytesIO()
    Image.fromarray(np.full((300, 100), 0x8000, np.uint16)).save(deep, "PNG")
    Image.new("RGBA", (300, 100), (0, 0, 0, 0)).save(clear, "PNG")
    sheet = ContactSheet()
    sheet.offer("clear", clear.getvalue)
    sheet.offer("deep", deep.getvalue)

    assert [(image.size, image.getpixel((5, 5))) for _, image in sheet.images()] == [
        ((112, 37), (255, 255, 255)),
        ((37, 112), (128, 128, 128)),
    ]


def test_a_long_class_name() -> None:
    """It is shortened to the width of its tile."""
    sheet = ContactSheet()
    for label in ("a", "W" * 300):
        sheet.offer(label, lambda: image_file((0, 0, 0)))
    sheet.write(Path("sheet.png"))

    with Image.open("sheet.png") as drawn:
        between, after = drawn.crop((122, 0, 132, 152)), drawn.crop((244, 0, 254, 152))
        assert between.getcolors() == after.getcolors() == [(1520, (255, 255, 255))]


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        ("sheet.jpg", "expected a file name that ends in .png"),
        ("existing.png", "the file exists already; choose another name, or delete it"),
        ("nowhere/sheet.png", "its folder does not exist; create it first"),
        ("pets/sheet.png", "is inside the data folder and would be read as data; choose another folder"),
    ],
)
def test_an_invalid_target(sheet: str, message: str) -> None:
    """It is rejected before anything is read, and existing files stay."""
    Path("pets").mkdir()
    Path("existing.png").write_bytes(b"mine")

    with pytest.raises(SettingsError) as caught:
        inspected("pets", sheet=Path(sheet))

    assert str(caught.value) == f"--sheet {sheet}: {message}"
    assert Path("existing.png").read_bytes() == b"mine"


def test_data_without_images() -> None:
    """The output is printed, then the command fails."""
    pq.write_table(pa.table({"a": [1]}), "rows.parquet")
    stream = io.StringIO()

    with pytest.raises(
        SettingsError, match=r"not written, because rows\.parquet contains no image that can be drawn; expected class"
    ):
        inspect("rows.parquet", stream, sheet=Path("sheet.png"))

    assert "records  1" in stream.getvalue()
    assert not Path("sheet.png").exists()
